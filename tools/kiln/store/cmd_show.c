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

/* What to print of the entry; if none is set, the overview. */
typedef struct wanted_entry {
    bool json, source, log;
    const char *payload, *answers;
} wanted_entry;

typedef struct entry_reading {
    const char *digest;
    kiln_entry *entry;
    kiln_status status;
} entry_reading;

static int read_if_wanted(void *user, kiln_item *item, const kiln_item_info *info,
                          const char *digest)
{
    (void)info;
    entry_reading *reading = user;
    if (strcmp(digest, reading->digest) != 0) {
        return 0;
    }
    reading->status = kiln_item_read(item, &reading->entry);
    return 1;
}

static kiln_status read_entry(kiln_store *store, const listed_item *item, kiln_entry **ret_entry)
{
    entry_reading reading = {.digest = item->digest, .status = KILN_MISS};
    kiln_status status = walk_items(store, read_if_wanted, &reading);
    if (status == KILN_OK) {
        status = reading.status;
    }
    if (status == KILN_OK) {
        *ret_entry = reading.entry;
    }
    return status;
}

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
    kiln_status status = read_entry(store, item, &entry);
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
    kiln_status status = listing_read(directory->store, &listing);
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
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    wanted.json = line.json;
    if (wanted.json + wanted.source + wanted.log + (wanted.payload != NULL) +
            (wanted.answers != NULL) >
        1) {
        return options_wrong(argv[0],
                             "give only one of --json, --source, --log, --payload and --answers");
    }
    if (layout != NULL) {
        dpcpp_request request = {argv[0], layout, line.directory, line.json};
        return wanted.log || wanted.answers != NULL
                   ? options_wrong(argv[0],
                                   "--log and --answers can't be combined with --layout dpcpp")
                   : dpcpp_show(&request, line.operands[0], wanted.payload, wanted.source);
    }
    digest_prefix prefix;
    if (!digest_prefix_parse(line.operands[0], &prefix)) {
        return EXIT_USAGE;
    }
    cache_directory directory;
    exit_code = directory_open(line.directory, KILN_STORE_READONLY, &directory);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    exit_code = show_matching(&directory, &prefix, &wanted);
    directory_close(&directory);
    return exit_code;
}
