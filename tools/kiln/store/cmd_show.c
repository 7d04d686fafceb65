/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <kiln/store_tools.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../dpcpp/dpcpp.h"
#include "../entry/shown_entry.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/output.h"
#include "../text/output_file.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln show [--dir DIR] [--key-file FILE] [--layout LAYOUT]\n"
    "                 [--json | --source | --log | --payload FILE | --answers FILE]\n"
    "                 DIGEST-PREFIX\n"
    "\n"
    "Prints where an entry came from, and the parts of its key. A prefix has at least 4 digits.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --layout LAYOUT  dpcpp: a cache that a SYCL runtime wrote; give an item's id or path\n"
    "  --json           one JSON object, with the texts of all parts and the log\n"
    "  --source         print only the source that the entry was built from\n"
    "  --log            print only the build log\n"
    "  --payload FILE   write the device code to a file; - for stdout\n"
    "  --answers FILE   the same for the recorded answers, in the device's own format\n";

/* Which part of the entry to print. If none is set, the overview is printed. */
typedef struct wanted_entry {
    bool json, source, log;
    const char *payload, *answers;
} wanted_entry;

static int print_source(const kiln_entry *entry)
{
    const kiln_key *key = kiln_entry_key(entry);
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, "source") == 0 && part.bytes != NULL) {
            print_text(part.bytes, part.size);
            return EXIT_OK;
        }
    }
    complain("the entry contains no source");
    return EXIT_NOTHING_FOUND;
}

static int print_log(const kiln_entry *entry)
{
    kiln_bytes log = kiln_entry_log(entry);
    print_text(log.data, log.size);
    return EXIT_OK;
}

static int write_bytes(const char *path, kiln_bytes bytes)
{
    output_file file;
    int exit_code = output_file_begin(path, &file);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    const bool is_complete =
        bytes.size == 0 || fwrite(bytes.data, 1, bytes.size, file.stream) == bytes.size;
    if (!is_complete) {
        complain("%s: %s", path, strerror(errno));
    }
    return output_file_end(&file, is_complete);
}

static int show_entry(const listed_item *item, const kiln_entry *entry, const wanted_entry *wanted)
{
    if (wanted->payload != NULL) {
        return write_bytes(wanted->payload, kiln_entry_payload(entry));
    }
    if (wanted->answers != NULL) {
        return write_bytes(wanted->answers, kiln_entry_answers(entry));
    }
    if (wanted->source) {
        return print_source(entry);
    }
    if (wanted->log) {
        return print_log(entry);
    }
    if (wanted->json) {
        json_print(stdout, entry_to_json(item, entry));
    } else {
        entry_print(item, entry);
    }
    return EXIT_OK;
}

static int show_item(kiln_store *store, const listed_item *item, const wanted_entry *wanted)
{
    kiln_entry *entry = NULL;
    kiln_status read = KILN_MISS;
    const kiln_status walked = walk_to_entry(store, item->digest, &read, &entry);
    const kiln_status status = walked == KILN_OK ? read : walked;
    if (status != KILN_OK) {
        complain("%s: %s", item->digest, kiln_status_text(status));
        return status == KILN_E_VERSION ? EXIT_NOTHING_FOUND : exit_code_of(status);
    }
    int exit_code = show_entry(item, entry, wanted);
    kiln_entry_release(&entry);
    return exit_code;
}

static int show_matching(const cache_directory *directory, const digest_prefix *prefix,
                         const wanted_entry *wanted)
{
    store_listing listing;
    kiln_status status = listing_read_matching(directory->store, prefix, &listing);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    int exit_code;
    const listed_item *item = listing_find(&listing, prefix, &exit_code);
    if (item != NULL) {
        exit_code = show_item(directory->store, item, wanted);
    }
    listing_free(&listing);
    return exit_code;
}

static void check_wanted(const char *command, const wanted_entry *wanted, bool has_layout)
{
    if (wanted->json + wanted->source + wanted->log + (wanted->payload != NULL) +
            (wanted->answers != NULL) >
        1) {
        options_wrong(command, "give only one of --json, --source, --log, --payload and --answers");
    }
    if (has_layout && (wanted->log || wanted->answers != NULL)) {
        options_wrong(command, "--log and --answers can't be combined with --layout dpcpp");
    }
}

int cmd_show(int argc, char **argv)
{
    wanted_entry wanted = {0};
    const char *layout = NULL;
    command_line line = {
        .usage = usage,
        .options = {{.name = "source", .flag = &wanted.source},
                    {.name = "log", .flag = &wanted.log},
                    {.name = "payload", .text = &wanted.payload},
                    {.name = "answers", .text = &wanted.answers},
                    {.name = "layout", .text = &layout}},
        .operands_min = 1,
        .operands_max = 1,
    };
    options_read(&line, argc, argv);
    wanted.json = line.json;
    check_wanted(argv[0], &wanted, layout != NULL);
    if (layout != NULL) {
        const dpcpp_request request = {argv[0], layout, line.directory, line.json};
        return dpcpp_show(&request, line.operands[0], wanted.payload, wanted.source);
    }
    const digest_prefix prefix = digest_prefix_parse(line.operands[0]);
    owned_directory directory = directory_open(line.directory, KILN_STORE_READONLY);
    return show_matching(&directory, &prefix, &wanted);
}
