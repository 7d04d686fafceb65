/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
#include "listing.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln pack [--dir DIR] [--device TEXT] [--name TEXT] [--strip-keys] [--key-file FILE]\n"
    "                 [--json] OUT [DIGEST-PREFIX...]\n"
    "\n"
    "Writes entries to one file that never changes, which can be shipped with an application and\n"
    "used as pack:OUT. Without filters, writes all entries. A prefix selects all entries that it\n"
    "matches.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --device TEXT    only entries whose device contains this text, in upper or lower case\n"
    "  --name TEXT      only entries whose name contains this text, in upper or lower case\n"
    "  --strip-keys     store digests instead of sources and other long parts of keys\n"
    "  --key-file FILE  sign the entries with the key in this file; default: the cache's\n"
    "  --json           one JSON object\n";

typedef struct pack_job {
    const char *device, *name;
    digest_prefix *prefixes;
    uint64_t *matches; /* how many entries each prefix matches */
    size_t prefix_count;
    kiln_pack_writer *writer;
    uint64_t added, damaged;
    kiln_status status; /* KILN_OK, or the error that ended the walk */
} pack_job;

static bool holds(const char *text, const char *wanted)
{
    return wanted == NULL || strcasestr(text, wanted) != NULL;
}

static bool is_wanted(pack_job *packing, const kiln_item_info *info, const char *digest)
{
    if (info->kind == KILN_ENTRY_REQUEST || !holds(info->device, packing->device) ||
        !holds(info->name, packing->name)) {
        return false;
    }
    bool is_named = packing->prefix_count == 0;
    for (size_t i = 0; i < packing->prefix_count; i++) {
        const bool matches = digest_prefix_matches(&packing->prefixes[i], digest);
        packing->matches[i] += matches;
        is_named = is_named || matches;
    }
    return is_named;
}

/* Adds an entry. One that cannot be read is reported and left out. */
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
    if (is_wanted(packing, info, digest)) {
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
    format_size(report->bytes, size);
    print_name(path);
    printf(": %" PRIu64 " %s, %s\n", report->entries, noun_of(report->entries, "entry", "entries"),
           size);
}

static int complain_of(const kiln_error *error, kiln_status status)
{
    complain("%s", error_text(error, status));
    return exit_code_of(status);
}

/* Returns whether each prefix matches an entry. Reports those that do not. */
static bool check_prefixes(const pack_job *packing)
{
    bool all_match = true;
    for (size_t i = 0; i < packing->prefix_count; i++) {
        if (packing->matches[i] == 0) {
            complain("no selected entry begins with '%s'", packing->prefixes[i].text);
            all_match = false;
        }
    }
    return all_match;
}

static int finish(pack_job *packing, const char *path, bool json)
{
    const bool all_match = check_prefixes(packing);
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
    status = walk_items(directory->store, visit, packing);
    if (status != KILN_OK || packing->status != KILN_OK) {
        kiln_pack_writer_abandon(&packing->writer);
        const bool is_of_pack = packing->status != KILN_OK;
        status = is_of_pack ? packing->status : status;
        complain("%s: %s", is_of_pack ? path : directory->path, kiln_status_text(status));
        return exit_code_of(status);
    }
    return finish(packing, path, json);
}

static bool read_prefixes(const command_line *line, pack_job *packing)
{
    packing->prefixes = must(calloc((size_t)line->operand_count, sizeof *packing->prefixes));
    packing->matches = must(calloc((size_t)line->operand_count, sizeof *packing->matches));
    for (int i = 1; i < line->operand_count; i++) {
        if (!digest_prefix_parse(line->operands[i], &packing->prefixes[packing->prefix_count++])) {
            return false;
        }
    }
    return true;
}

static void free_prefixes(pack_job *packing)
{
    free(packing->prefixes);
    free(packing->matches);
}

int cmd_pack(int argc, char **argv)
{
    pack_job packing = {0};
    bool strip_keys = false;
    const char *key_file = NULL;
    command_line line = {
        .usage = usage,
        .options = {{.name = "device", .text = &packing.device},
                    {.name = "name", .text = &packing.name},
                    {.name = "strip-keys", .flag = &strip_keys},
                    {.name = "key-file", .text = &key_file}},
        .operands_min = 1,
        .operands_max = -1,
    };
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (!read_prefixes(&line, &packing)) {
        free_prefixes(&packing);
        return EXIT_USAGE;
    }
    cache_directory directory;
    exit_code = directory_open(line.directory, KILN_STORE_READONLY, &directory);
    if (exit_code == EXIT_OK) {
        char *key_path = key_file == NULL ? NULL : absolute_path(key_file);
        const kiln_pack_params params = {.struct_size = sizeof params,
                                         .flags = strip_keys ? KILN_PACK_STRIP_KEYS : 0,
                                         .key_file = key_path ? key_path : directory.key_file};
        exit_code = pack_into(&packing, &directory, line.operands[0], &params, line.json);
        free(key_path);
        directory_close(&directory);
    }
    free_prefixes(&packing);
    return exit_code;
}
