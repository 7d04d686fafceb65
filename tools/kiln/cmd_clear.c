/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <unistd.h>

#include "confirm.h"
#include "directory.h"
#include "options.h"
#include "other_layout.h"
#include "output.h"
#include "removal.h"
#include "tool.h"

static const char usage[] =
    "Usage: kiln clear [--dir DIR] [--key-file FILE] [--yes] [--json]\n"
    "\n"
    "Removes all entries, after asking. Entries of a newer format and files that Kiln did not\n"
    "make stay.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the key that the entries are signed with\n"
    "  --yes            don't ask; needed where stdin is no terminal\n"
    "  --json           one JSON object\n";

static bool ask(const struct directory *directory)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    if (directory->store == NULL || kiln_store_get_stat(directory->store, &stat) != KILN_OK) {
        return true;
    }
    char size[UNIT_TEXT_SIZE];
    format_size(stat.bytes, size);
    return confirmed("Remove %" PRIu64 " %s (%s) from %s?", stat.entries,
                     noun_of(stat.entries, "entry", "entries"), size, directory->path);
}

static int clear(const struct directory *directory, bool json)
{
    static const struct digest_prefix everything = {.length = 0};
    struct removal removal = {0};
    kiln_status status = directory->store == NULL
                             ? KILN_OK
                             : removal_run(directory->store, &everything, 1, &removal);
    /* For what writers that died left. */
    kiln_store_trim(directory->store, KILN_UNLIMITED, NULL);
    removal_print(&removal, json);
    if (status != KILN_OK) {
        complain("%s: %s", directory->path, kiln_status_text(status));
        return exit_code_of(status);
    }
    return removal.failed > 0 ? EXIT_IO : EXIT_OK;
}

int cmd_clear(int argc, char **argv)
{
    bool yes = false;
    struct command_line line = {.usage = usage, .options = {{.name = "yes", .flag = &yes}}};
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (!yes && !isatty(STDIN_FILENO)) {
        return options_wrong(argv[0], "nobody can be asked here: give --yes");
    }
    struct directory directory;
    exit_code = directory_open(line.directory, 0, &directory);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    if (other_layout_has_all(&directory)) {
        exit_code = EXIT_NOTHING_FOUND;
    } else if (yes || ask(&directory)) {
        exit_code = clear(&directory, line.json);
    } else {
        complain("nothing was removed");
    }
    directory_close(&directory);
    return exit_code;
}
