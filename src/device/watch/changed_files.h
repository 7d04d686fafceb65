/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether files have changed since a compilation read them. read_files.h records these
 * files. The result of a compilation is used only if everything is still as the compilation found
 * it.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

/* Checks, for a program whose name is @name, whether everything is still as the compilation found
 * it.
 *
 * @encoded      from kilni_reads_finish
 * @ret_changed  [out] on KILN_MISS: a path that has changed, or the only folder in which the result
 *                     is valid; a path in the program's folder is given relative to that folder;
 *                     points into @encoded; may be NULL
 * Returns KILN_OK; KILN_MISS: something has changed or cannot be checked; KILN_E_CORRUPT;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_reads_hold(kiln_bytes encoded, const char *name, const char **ret_changed);

/* Visits each read. If the result is valid only in the folder of the program's name, visits that
 * folder first.
 *
 * @name  the program's name; NULL: unknown
 * Returns KILN_OK; KILN_E_CORRUPT, possibly after some visits; KILN_E_NO_MEMORY. Threads: any.
 * Blocks: on reading files. */
kiln_status kilni_reads_each(kiln_bytes encoded, const char *name, kiln_read_fn visit, void *user);
