/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <unistd.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../text/confirm.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/units.h"
#include "other_layout.h"
#include "removal.h"

static const char usage[] =
    "Usage: kiln clear [--dir DIR] [--key-file FILE] [--newer] [--yes] [--json]\n"
    "\n"
    "Removes all entries, after asking. Entries of a newer format stay unless --newer is given.\n"
    "Files that Kiln did not make stay.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --newer          remove entries of a newer format too\n"
    "  --yes            don't ask; required if stdin is not a terminal\n"
    "  --json           one JSON object\n";

typedef struct request_count {
    uint64_t count, bytes;
} request_count;

static int count_request(void *user, kiln_item *item)
{
    request_count *requests = user;
    kiln_item_info info = {.struct_size = sizeof info};
    if (kiln_item_get_info(item, &info) == KILN_OK) {
        requests->count++;
        requests->bytes += info.stored_bytes;
    }
    return 0;
}

static bool ask(const cache_directory *directory, bool newer)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    if (directory->store == NULL || kiln_store_get_stat(directory->store, 0, &stat) != KILN_OK) {
        return true;
    }
    request_count requests = {0};
    kiln_store_each_request(directory->store, count_request, &requests);
    char size[UNIT_TEXT_SIZE];
    owned char *also = requests.count == 0
                           ? text_of("%s", "")
                           : text_of(" and %" PRIu64 " %s", requests.count,
                                     noun_of(requests.count, "request", "requests"));
    return confirmed("Remove %" PRIu64 " %s%s (%s)%s from %s?", stat.entries,
                     noun_of(stat.entries, "entry", "entries"), also,
                     format_size(stat.bytes + requests.bytes, size),
                     newer ? ", those of a newer format too," : "", directory->path);
}

/* Removes entries of a newer format. Requests among them are included in the bytes, but not in the
 * counts, since only their names are known. */
static kiln_status remove_newer(kiln_store *store, removal_work *removal)
{
    const kiln_trim_params params = {.struct_size = sizeof params,
                                     .flags = KILN_TRIM_BY_SIZE | KILN_TRIM_NEWER};
    kiln_trim_report report = {.struct_size = sizeof report};
    kiln_status status = kiln_store_trim(store, &params, &report);
    if (status != KILN_OK) {
        return status;
    }
    /* Removes entries that were stored meanwhile, and retries those that could not be removed. */
    entry_filter everything = {.takes_requests = true};
    removal_work rest = {0};
    status = removal_run(store, &everything, &rest);
    removal->removed += report.removed + rest.removed;
    removal->requests += rest.requests;
    removal->removed_bytes += report.removed_bytes + rest.removed_bytes;
    removal->newer = rest.newer;
    removal->failed = rest.failed;
    return status;
}

static kiln_status remove_all(kiln_store *store, bool newer, removal_work *ret_removal)
{
    entry_filter everything = {.takes_requests = true};
    kiln_status status = removal_run(store, &everything, ret_removal);
    if (status == KILN_OK && newer) {
        return remove_newer(store, ret_removal);
    }
    /* Removes temporary files of writers that ended before they had finished. */
    const kiln_trim_params nothing = {.struct_size = sizeof nothing};
    kiln_store_trim(store, &nothing, NULL);
    return status;
}

static int clear(const cache_directory *directory, bool newer, bool json)
{
    removal_work removal = {0};
    kiln_status status =
        directory->store == NULL ? KILN_OK : remove_all(directory->store, newer, &removal);
    removal_print(&removal, json);
    if (status != KILN_OK) {
        complain("%s: %s", directory->path,
                 status == KILN_BUSY ? "another process is trimming it" : kiln_status_text(status));
        return exit_code_of(status);
    }
    return removal.failed > 0 ? EXIT_IO : EXIT_OK;
}

int cmd_clear(int argc, char **argv)
{
    bool newer = false;
    bool yes = false;
    command_line line = {
        .usage = usage,
        .options = {{.name = "newer", .flag = &newer}, {.name = "yes", .flag = &yes}},
    };
    options_read(&line, argc, argv);
    if (!yes && !isatty(STDIN_FILENO)) {
        options_wrong(argv[0], "stdin is not a terminal, so this command cannot ask: give --yes");
    }
    owned_directory directory = directory_open(line.directory, 0);
    if (other_layout_has_all(&directory)) {
        return EXIT_NOTHING_FOUND;
    }
    if (yes || ask(&directory, newer)) {
        return clear(&directory, newer, line.json);
    }
    complain("nothing was removed");
    return EXIT_OK;
}
