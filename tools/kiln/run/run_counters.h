/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters of one run, in a file to which each process with a layer adds its own.
 */
#pragma once

#include <kiln/stats.h>

typedef struct counters_file {
    char *folder, *file;
} counters_file;

/* Creates a private folder for the file, and sets KILN_STATS to the file for all processes started
 * from now on. Returns 0, or -1 with errno. */
int run_counters_open(counters_file *ret_counters);

/* Reads the counters, and removes file and folder. Counters that cannot be read are reported and
 * count as zero. If this run is part of an outer one, also adds them to @outer_file. */
void run_counters_close(counters_file *counters, const char *outer_file, kiln_stats *ret_stats);
