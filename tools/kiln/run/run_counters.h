/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters of one run: a file of its own, to which each process under the layer adds.
 */
#pragma once

#include <kiln/stats.h>

typedef struct counters_file {
    char *folder, *file;
} counters_file;

/* Makes a private folder for the file and names the file in KILN_STATS, for all that run from now
 * on. Returns 0, or -1 with errno. */
int run_counters_open(counters_file *ret_counters);

/* Reads what the run counted, and removes file and folder. What can't be read counts as nothing
 * and is named. Where this run is a part of another one, that one gets the counters too. */
void run_counters_close(counters_file *counters, const char *outer_file, kiln_stats *ret_stats);
