/* SPDX-License-Identifier: Apache-2.0 */
#include "run_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../text/memory.h"
#include "../text/output.h"

static char *make_folder(const char *parent)
{
    char *folder = text_of("%s/kiln-run-XXXXXX", parent);
    if (mkdtemp(folder) == NULL) {
        free(folder);
        return NULL;
    }
    return folder;
}

int run_counters_open(counters_file *ret_counters)
{
    const char *parent = getenv("TMPDIR");
    char *folder = NULL;
    if (parent != NULL && parent[0] == '/') {
        folder = make_folder(parent);
    }
    if (folder == NULL) {
        folder = make_folder("/tmp");
    }
    if (folder == NULL) {
        return -1;
    }
    *ret_counters = (counters_file){.folder = folder, .file = text_of("%s/stats", folder)};
    must_succeed(setenv("KILN_STATS", ret_counters->file, 1));
    const char *trace = getenv("KILN_TRACE");
    if (trace == NULL || trace[0] == '\0') {
        ret_counters->trace = text_of("%s/trace", folder);
        must_succeed(setenv("KILN_TRACE", ret_counters->trace, 1));
    }
    return 0;
}

void run_counters_close(counters_file *counters, const char *outer_file, kiln_stats *ret_stats)
{
    kiln_stats stats = {0};
    kiln_status status = kiln_stats_read_file(counters->file, &stats);
    if (status != KILN_OK && status != KILN_MISS) {
        complain("the counters of this run can't be read: %s", kiln_status_text(status));
    }
    if (status == KILN_OK && outer_file != NULL) {
        kiln_stats_add_to_file(outer_file, &stats);
    }
    unlink(counters->file);
    if (counters->trace != NULL) {
        unlink(counters->trace);
    }
    rmdir(counters->folder);
    free(counters->trace);
    free(counters->file);
    free(counters->folder);
    *ret_stats = stats;
}
