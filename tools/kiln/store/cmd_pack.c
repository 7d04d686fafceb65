/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include <kiln/pack.h>
#include <kiln/store_tools.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/location.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "../text/units.h"
#include "listing.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln pack [--dir DIR] [--strip-keys] [--key-file FILE] [--json] [FILTERS]\n"
    "                 OUT [DIGEST-PREFIX...]\n"
    "\n"
    "Writes entries to one file that never changes, which can be shipped with an application and\n"
    "used as pack:OUT. Without filters, writes all entries. A prefix selects all entries that it\n"
    "matches.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --strip-keys     store digests instead of sources and other long parts of keys\n"
    "  --key-file FILE  sign the entries with the key in this file; default: the cache's\n"
    "  --json           one JSON object\n" ENTRY_FILTER_USAGE;

typedef struct pack_job {
    entry_filter filter;
    kiln_pack_writer *writer;
    uint64_t added, damaged;
    kiln_status status; /* KILN_OK, or the error that ended the walk */
} pack_job;

/* Adds an entry. An entry that cannot be read is reported and left out. */
static void add(pack_job *packing, kiln_item *item, const char *digest)
{
    kiln_entry *entry = NULL;
    kiln_status status = kiln_item_read(item, &entry);
    if (status == KILN_OK) {
        packing->status = kiln_pack_writer_add(packing->writer, entry);
        packing->added += packing->status == KILN_OK;
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
    if (entry_filter_selects_item(&packing->filter, item, info)) {
        add(packing, item, digest);
    }
    return packing->status != KILN_OK;
}

static void print_report(const kiln_pack_report *report, const char *path, bool json)
{
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "entries", json_number(report->entries));
        json_add(object, "bytes", json_number(report->bytes));
        json_print(stdout, object);
        return;
    }
    char size[UNIT_TEXT_SIZE];
    print_name(path);
    printf(": %" PRIu64 " %s, %s\n", report->entries, noun_of(report->entries, "entry", "entries"),
           format_size(report->bytes, size));
}

static int complain_of(const kiln_error *error, kiln_status status)
{
    complain("%s", error_text(error, status));
    return exit_code_of(status);
}

static int finish(pack_job *packing, const char *path, bool json)
{
    const bool all_match = entry_filter_check(&packing->filter);
    if (packing->added == 0) {
        kiln_pack_writer_abandon(&packing->writer);
        complain("nothing to pack: no entry matches");
        return packing->damaged > 0 ? EXIT_DAMAGED : EXIT_NOTHING_FOUND;
    }
    kiln_pack_report report = {.struct_size = sizeof report};
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_pack_writer_finish(&packing->writer, &report, &error);
    if (status != KILN_OK) {
        return complain_of(&error, status);
    }
    print_report(&report, path, json);
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
        complain("%s: %s", is_of_pack ? path : directory->path, kiln_status_text(status));
        return exit_code_of(status);
    }
    return finish(packing, path, json);
}

int cmd_pack(int argc, char **argv)
{
    pack_job packing = {0};
    bool strip_keys = false;
    const char *key_file = NULL;
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(packing.filter),
                    {.name = "strip-keys", .flag = &strip_keys},
                    {.name = "key-file", .text = &key_file}},
        .operands_min = 1,
        .operands_max = -1,
    };
    options_read(&line, argc, argv);
    entry_filter_read(&packing.filter, argv[0], line.operands + 1);
    owned_directory directory = directory_open(line.directory, KILN_STORE_READONLY);
    owned char *key_path = key_file == NULL ? NULL : absolute_path(key_file);
    const kiln_pack_params params = {.struct_size = sizeof params,
                                     .flags = strip_keys ? KILN_PACK_STRIP_KEYS : 0,
                                     .key_file = key_path ? key_path : directory.key_file};
    const int exit_code = pack_into(&packing, &directory, line.operands[0], &params, line.json);
    entry_filter_done(&packing.filter);
    return exit_code;
}
