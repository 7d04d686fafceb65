/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <kiln/pack.h>
#include <kiln/store_tools.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../image/image.h"
#include "../image/labels.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "../text/units.h"
#include "listing.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln pack [--dir DIR] [--strip-keys] [--key-file FILE] [--oci [--base LAYOUT]]\n"
    "                 [--json] [FILTERS] OUT [DIGEST-PREFIX...]\n"
    "\n"
    "Writes entries to one file that never changes, which can be shipped with an application and\n"
    "used as pack:OUT. Without filters, writes all entries. A prefix selects all entries that it\n"
    "matches.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --strip-keys     store digests instead of sources and other long parts of keys\n"
    "  --key-file FILE  sign the entries with the key in this file; default: the cache's\n"
    "  --oci            write an OCI image layout to the folder OUT instead, with the pack in a "
    "layer\n"
    "  --base LAYOUT    put the layer on those of this layout, without entries that they have\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

typedef struct pack_job {
    entry_filter filter;
    kiln_pack_writer *writer;
    const char *path;    /* what the user named */
    oci_image *image;    /* NULL: a pack alone is written */
    kiln_store *base;    /* the entries of lower layers; NULL: there are none */
    image_labels labels; /* of the image */
    uint64_t added, damaged;
    uint64_t waiting;   /* requests whose results are not captured yet */
    kiln_status status; /* KILN_OK, or the error that ended the walk */
} pack_job;

static bool is_equal(kiln_bytes a, kiln_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Returns whether a lower layer has the same result. */
static bool is_in_base(const pack_job *packing, const kiln_entry *entry)
{
    kiln_entry *found = NULL;
    if (packing->base == NULL ||
        kiln_store_get(packing->base, kiln_entry_key(entry), &found) != KILN_OK) {
        return false;
    }
    const kiln_bytes ours = kiln_entry_payload(entry), theirs = kiln_entry_payload(found);
    const kiln_bytes answers = kiln_entry_answers(entry), others = kiln_entry_answers(found);
    const bool is_same = is_equal(ours, theirs) && is_equal(answers, others);
    kiln_entry_release(&found);
    return is_same;
}

static void add_entry(pack_job *packing, const kiln_entry *entry)
{
    packing->status = kiln_pack_writer_add(packing->writer, entry);
    packing->added += packing->status == KILN_OK;
    if (packing->image != NULL) {
        labels_add(&packing->labels, entry);
    }
}

/* Adds an entry. An entry that cannot be read is reported and left out. */
static void add(pack_job *packing, kiln_item *item, const char *digest)
{
    kiln_entry *entry = NULL;
    kiln_status status = kiln_item_read(item, &entry);
    if (status == KILN_OK) {
        if (!is_in_base(packing, entry)) {
            add_entry(packing, entry);
        }
    } else if (status != KILN_MISS) {
        packing->damaged++;
        complain("%s is left out: %s", digest, kiln_status_text(status));
    }
    kiln_entry_release(&entry);
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    pack_job *packing = user;
    progress_step("looked at");
    packing->waiting += info->kind == KILN_ENTRY_REQUEST;
    if (entry_filter_selects_item(&packing->filter, item, info)) {
        add(packing, item, digest);
    }
    return packing->status != KILN_OK;
}

/* @manifest  of the image; NULL: there is none */
static void print_report(const kiln_pack_report *report, const char *path, const blob *manifest,
                         bool json)
{
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "entries", json_number(report->entries));
        json_add(object, "bytes", json_number(report->bytes));
        if (manifest != NULL) {
            json_add(object, "digest", must(json_string(manifest->digest)));
        }
        json_print(stdout, object);
        return;
    }
    char size[UNIT_TEXT_SIZE];
    print_name(path);
    printf(": %" PRIu64 " %s, %s", report->entries, noun_of(report->entries, "entry", "entries"),
           format_size(report->bytes, size));
    printf(manifest == NULL ? "\n" : ", %s\n", manifest == NULL ? "" : manifest->digest);
}

static int complain_of(const kiln_error *error, kiln_status status)
{
    complain("%s", error_text(error, status));
    return exit_code_of(status);
}

static int finish(pack_job *packing, bool json)
{
    const bool all_match = entry_filter_check(&packing->filter);
    if (packing->added == 0) {
        kiln_pack_writer_abandon(&packing->writer);
        complain(packing->base == NULL ? "nothing to pack: no entry matches"
                                       : "nothing to pack: no entry matches that the base lacks");
        if (packing->waiting > 0) {
            complain("%" PRIu64 " %s to be captured: run 'kiln capture' first", packing->waiting,
                     noun_of(packing->waiting, "result waits", "results wait"));
        }
        return packing->damaged > 0 ? EXIT_DAMAGED : EXIT_NOTHING_FOUND;
    }
    kiln_pack_report report = {.struct_size = sizeof report};
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_pack_writer_finish(&packing->writer, &report, &error);
    if (status != KILN_OK) {
        return complain_of(&error, status);
    }
    blob manifest;
    if (packing->image != NULL) {
        const int exit_code =
            image_finish(packing->image, labels_object(&packing->labels), &manifest);
        if (exit_code != EXIT_OK) {
            return exit_code;
        }
    }
    print_report(&report, packing->path, packing->image == NULL ? NULL : &manifest, json);
    if (packing->damaged > 0) {
        return EXIT_DAMAGED;
    }
    return all_match ? EXIT_OK : EXIT_NOTHING_FOUND;
}

static int pack_into(pack_job *packing, const cache_directory *directory, const char *path,
                     const kiln_pack_params *params, bool json)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_pack_writer_open(path, params, &packing->writer, &error);
    if (status != KILN_OK) {
        return complain_of(&error, status);
    }
    walk_expect(directory);
    status = listing_choose(directory->store, &packing->filter);
    if (status == KILN_OK) {
        status = walk_items(directory->store, visit, packing);
        progress_end();
    }
    if (status != KILN_OK || packing->status != KILN_OK) {
        kiln_pack_writer_abandon(&packing->writer);
        const bool is_of_pack = packing->status != KILN_OK;
        status = is_of_pack ? packing->status : status;
        complain("%s: %s", is_of_pack ? packing->path : directory->path, kiln_status_text(status));
        return exit_code_of(status);
    }
    return finish(packing, json);
}

/* Adds the labels of an entry of a lower layer. */
static int label(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    (void)info;
    (void)digest;
    pack_job *packing = user;
    kiln_entry *entry = NULL;
    if (kiln_item_read(item, &entry) == KILN_OK) {
        labels_add(&packing->labels, entry);
    }
    kiln_entry_release(&entry);
    return 0;
}

/* Writes an image whose last layer holds the pack. */
static int pack_into_image(pack_job *packing, const cache_directory *directory, const char *base,
                           const kiln_pack_params *params, bool json)
{
    oci_image image;
    int exit_code = image_begin(packing->path, base, &image);
    kiln_error error = {.struct_size = sizeof error};
    const kiln_store_params lower = {.struct_size = sizeof lower, .flags = KILN_STORE_READONLY};
    if (exit_code == EXIT_OK && image.base != NULL) {
        const kiln_status status = kiln_store_open(image.base, &lower, &packing->base, &error);
        exit_code = status == KILN_OK ? EXIT_OK : complain_of(&error, status);
    }
    if (exit_code == EXIT_OK) {
        packing->image = &image;
        packing->labels = labels_new();
        /* An entry that is damaged only lacks its labels. */
        walk_items(packing->base, label, packing);
        exit_code = pack_into(packing, directory, image.pack, params, json);
        labels_done(&packing->labels);
    }
    kiln_store_close(&packing->base);
    image_done(&image);
    return exit_code;
}

int cmd_pack(int argc, char **argv)
{
    pack_job packing = {0};
    bool strip_keys = false;
    bool is_image = false;
    const char *key_file = NULL;
    const char *base = NULL;
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(packing.filter),
                    {.name = "strip-keys", .flag = &strip_keys},
                    {.name = "key-file", .text = &key_file},
                    {.name = "oci", .flag = &is_image},
                    {.name = "base", .text = &base}},
        .operands_min = 1,
        .operands_max = -1,
    };
    options_read(&line, argc, argv);
    if (base != NULL && !is_image) {
        options_wrong(argv[0], "--base needs --oci");
    }
    packing.path = line.operands[0];
    entry_filter_read(&packing.filter, argv[0], line.operands + 1);
    owned_directory directory = directory_open(line.directory, KILN_STORE_READONLY);
    owned char *key_path = key_file == NULL ? NULL : absolute_path(key_file);
    const kiln_pack_params params = {.struct_size = sizeof params,
                                     .flags = strip_keys ? KILN_PACK_STRIP_KEYS : 0,
                                     .key_file = key_path ? key_path : directory.key_file};
    const int exit_code = is_image
                              ? pack_into_image(&packing, &directory, base, &params, line.json)
                              : pack_into(&packing, &directory, packing.path, &params, line.json);
    entry_filter_done(&packing.filter);
    return exit_code;
}
