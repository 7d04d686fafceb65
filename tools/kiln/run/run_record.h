/* SPDX-License-Identifier: Apache-2.0
 *
 * What one run has used and built, from the events that its processes append to the file that
 * KILN_RECORD names.
 */
#pragma once

#include <stdbool.h>

/* Makes the processes that are started after this append their events to a file in a folder.
 *
 * @folder  exists; the caller removes it after run_record_close */
void run_record_open(const char *folder);

/* Reads the events, and removes the file. If this run is part of an outer run that records, adds
 * the events to the outer run's file.
 *
 * @output        the file to which a line is written for each entry that was used: digest and name;
 *                NULL: none
 * @lists_builds  whether to print a line on stderr for each build
 * @ret_built     [out] whether anything was built
 * Returns EXIT_OK. After a failure, which it has reported, returns the exit code. */
int run_record_close(const char *output, bool lists_builds, bool *ret_built);
