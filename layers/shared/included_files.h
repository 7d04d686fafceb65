/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the contents of the files that a compiler included, so that `kiln replay` can repeat the
 * build when these files are gone, or on a different machine.
 */
#pragma once

#include <kiln/entry.h>

/* Keeps the files of a result, unless they are kept already. Does nothing if the settings or the
 * store do not allow it. A failure does no harm and is not reported. Blocks: on reading and writing
 * files.
 *
 * @reads         as kilni_reads_finish encodes them
 * @program_name  the name of the program, in whose folder some of the files may be; may be NULL */
void included_files_keep(kiln_bytes reads, const char *program_name);
