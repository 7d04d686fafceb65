/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters of one run. They are in a file, to which each process with a layer adds its
 * counters.
 */
#pragma once

#include <kiln/stats.h>

typedef struct counters_file {
    char *folder, *file;
    char *trace; /* the trace of this run; NULL: the user has named one */
} counters_file;

/* Creates a private folder for the file, and sets KILN_STATS to the file's path, so that processes
 * that are started after this use the file. Does the same with a trace, unless KILN_TRACE is set.
 * Returns 0, or -1 with errno. */
int run_counters_open(counters_file *ret_counters);

/* Reads the counters, and removes the files and the folder. If the counters cannot be read, reports
 * this and sets them to 0. If this run is part of an outer run, also adds the counters to
 * @outer_file. */
void run_counters_close(counters_file *counters, const char *outer_file, kiln_stats *ret_stats);
