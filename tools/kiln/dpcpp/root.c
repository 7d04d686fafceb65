/* SPDX-License-Identifier: Apache-2.0 */
#include "root.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../command/location.h"
#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

#define DEFAULT_GRACE_S 600

/* Returns the path of the directory where the runtime keeps its cache; the caller frees it. NULL if
 * the runtime has no such directory. */
static char *default_path(void)
{
    static const char *const variables[][2] = {
        {"SYCL_CACHE_DIR", ""},
        {"XDG_CACHE_HOME", "/libsycl_cache"},
        {"HOME", "/.cache/libsycl_cache"},
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i][0]);
        if (value != NULL && value[0] != '\0') {
            return text_of("%s%s", value, variables[i][1]);
        }
    }
    return NULL;
}

cache_tree root_read(const dpcpp_request *request)
{
    if (strcmp(request->layout, "dpcpp") != 0) {
        options_wrong(request->command,
                      "--layout expects dpcpp, not '%s'; Kiln's own layouts are part of the "
                      "directory, as in --dir 'file:///DIRECTORY?layout=sycl'",
                      request->layout);
    }
    owned char *path =
        request->directory != NULL ? must(strdup(request->directory)) : default_path();
    if (path == NULL) {
        complain("no cache directory: give --dir, or set SYCL_CACHE_DIR or HOME");
        end_tool(EXIT_CONFIGURATION);
    }
    owned char *absolute = absolute_path(path);
    cache_tree tree;
    if (!tree_read(absolute, &tree)) {
        complain("%s: %s", absolute, strerror(errno));
        end_tool(EXIT_IO);
    }
    if (tree.root < 0) {
        complain("%s does not exist: nothing is cached there", absolute);
    }
    return tree;
}

inspection_rules rules_read(const dpcpp_request *request, const char *grace)
{
    uint64_t grace_s = DEFAULT_GRACE_S;
    if (grace != NULL && (!parse_number(grace, strlen(grace), &grace_s) || grace_s > INT32_MAX)) {
        options_wrong(request->command, "--grace expects a number of seconds, not '%s'", grace);
    }
    return (inspection_rules){.now_s = time(NULL), .grace_s = (int64_t)grace_s};
}
