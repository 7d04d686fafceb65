/* SPDX-License-Identifier: Apache-2.0 */
#include "stale.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>

#include "doctor.h"
#include "json.h"
#include "output.h"

struct walk {
    json_t *platforms; /* as `kiln doctor` reports them */
    bool dry_run;
    struct stale_count count;
    kiln_status status;
};

enum verdict { UNTOLD, IN_USE, STALE };

static json_t *installed_platforms(void)
{
    kiln_config *config = NULL;
    must_succeed(kiln_config_from_env(NULL, NULL, &config));
    struct doctor doctor = {
        .config = config,
        .report = must(json_object()),
        .problems = must(json_array()),
        .notes = must(json_array()),
    };
    doctor_examine_loader(&doctor);
    json_t *platforms = json_incref(json_object_get(doctor.report, "platforms"));
    json_decref(doctor.report);
    json_decref(doctor.problems);
    json_decref(doctor.notes);
    kiln_config_free(&config);
    return platforms;
}

/* The text of the one part of that name; NULL where there are none or several. To be freed. */
static char *only_text(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    char *text = NULL;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, name) != 0) {
            continue;
        }
        if (text != NULL || part.bytes == NULL) {
            free(text);
            return NULL;
        }
        text = text_of("%.*s", (int)part.size, (const char *)part.bytes);
    }
    return text;
}

/* Whether a part is "NAME IDENTITY" of a file that the platform has now. */
static bool is_installed_file(json_t *files, const kiln_key_part *part)
{
    const char *name;
    json_t *identity;
    bool found = false;
    json_object_foreach(files, name, identity)
    {
        const char *text = json_string_value(identity);
        char *line = text_of("%s %s", name, text == NULL ? "" : text);
        found = found || (strlen(line) == part->size &&
                          memcmp(line, part->bytes, part->size) == 0);
        free(line);
    }
    return found;
}

/* Whether an entry's key has the very files of a platform. */
static bool has_files_of(const kiln_key *key, json_t *files)
{
    kiln_key_part part;
    size_t count = 0;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, "driver.file") != 0) {
            continue;
        }
        if (part.bytes == NULL || !is_installed_file(files, &part)) {
            return false;
        }
        count++;
    }
    return count == json_object_size(files);
}

/* Where a driver doesn't tell its files, nothing is told by what is missing there. */
static bool tells_files(json_t *files)
{
    const char *name;
    json_t *identity;
    json_object_foreach(files, name, identity)
    {
        if (!json_is_string(identity)) {
            return false;
        }
    }
    return json_object_size(files) > 0;
}

static enum verdict judge(const struct walk *walk, const kiln_key *key)
{
    enum verdict verdict = UNTOLD;
    char *wanted = only_text(key, "platform.name");
    size_t index;
    json_t *platform;
    json_array_foreach(walk->platforms, index, platform)
    {
        const char *name = json_string_value(json_object_get(platform, "name"));
        json_t *files = json_object_get(platform, "driver_files");
        if (wanted == NULL || name == NULL || strcmp(name, wanted) != 0) {
            continue;
        }
        if (!tells_files(files)) {
            verdict = UNTOLD;
            break;
        }
        verdict = STALE;
        if (has_files_of(key, files)) {
            verdict = IN_USE;
            break;
        }
    }
    free(wanted);
    return verdict;
}

static void remove_stale(struct walk *walk, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    const bool is_told = kiln_item_get_info(item, &info) == KILN_OK;
    const kiln_status status = walk->dry_run ? KILN_OK : kiln_item_remove(item);
    if (status == KILN_OK) {
        walk->count.stale++;
        walk->count.stale_bytes += is_told ? info.stored_bytes : 0;
    } else if (status != KILN_MISS && status != KILN_EXISTS) {
        walk->status = status;
    }
}

static int visit(void *user, kiln_item *item)
{
    struct walk *walk = user;
    kiln_entry *entry = NULL;
    if (kiln_item_read(item, &entry) != KILN_OK) {
        return 0; /* it went meanwhile, or is damaged: that is for others */
    }
    const enum verdict verdict =
        kiln_entry_kind_of(entry) == KILN_ENTRY_REQUEST ? IN_USE : judge(walk, kiln_entry_key(entry));
    kiln_entry_release(&entry);
    walk->count.untold += verdict == UNTOLD;
    if (verdict == STALE) {
        remove_stale(walk, item);
    }
    return 0;
}

kiln_status stale_remove(kiln_store *store, bool dry_run, struct stale_count *ret_count)
{
    struct walk walk = {.dry_run = dry_run, .platforms = installed_platforms()};
    const kiln_status status = kiln_store_each(store, visit, &walk);
    json_decref(walk.platforms);
    *ret_count = walk.count;
    return status == KILN_OK ? walk.status : status;
}
