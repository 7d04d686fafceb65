/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "dpcpp/dpcpp.h"

#include "options.h"
#include "tool.h"

static const char usage[] =
    "Usage: kiln trim --layout dpcpp [--dir DIR] [--max-size SIZE] [--older-than AGE] [--yes]\n"
    "                 [--grace SECONDS] [--json]\n"
    "\n"
    "Removes the items of a cache that a SYCL runtime wrote that were used least recently, and\n"
    "mends what verify finds. Without --yes, only says what it would do.\n"
    "\n"
    "  --dir DIR         the cache directory\n"
    "  --layout LAYOUT   dpcpp\n"
    "  --max-size SIZE   how much may stay: bytes, with a suffix K, M, G or T\n"
    "  --older-than AGE  what was not used for so long goes: days, or with a suffix d, h, m, s\n"
    "  --yes             alter the cache\n"
    "  --grace SECONDS   how old a lock is that nobody holds any more (600)\n"
    "  --json            one JSON object\n";

int cmd_trim(int argc, char **argv)
{
    const char *layout = NULL, *max_size = NULL, *older_than = NULL;
    struct dpcpp_permission permission = {0};
    struct command_line line = {
        .usage = usage,
        .options = {{.name = "layout", .text = &layout},
                    {.name = "max-size", .text = &max_size},
                    {.name = "older-than", .text = &older_than},
                    {.name = "yes", .flag = &permission.yes},
                    {.name = "grace", .text = &permission.grace}},
    };
    int exit_code;
    if (!options_read(&line, argc, argv, &exit_code)) {
        return exit_code;
    }
    if (layout == NULL) {
        return options_wrong(argv[0], "--layout is missing");
    }
    struct dpcpp_request request = {argv[0], layout, line.directory, line.json};
    return dpcpp_trim(&request, max_size, older_than, &permission);
}
