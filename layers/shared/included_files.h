/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the contents of the files that a compiler included, so that `kiln replay` can repeat the
 * build when these files are gone, or on a different machine.
 */
#pragma once

#include <kiln/entry.h>

/* Keeps the files of a result, unless they are kept already, on a thread of its own: a compiler may
 * include hundreds of files. If the process has only one thread, this call keeps them. Does nothing
 * if the settings or the store do not allow it. A failure does no harm and is not reported. A file
 * that has changed by then is not kept.
 *
 * @reads         as kilni_reads_finish encodes them
 * @program_name  the name of the program, in whose folder some of the files may be; may be NULL */
void included_files_keep(kiln_bytes reads, const char *program_name);

/* Keeps what a program passed to a compiler, if the key has only its digest. Does so before it
 * returns; otherwise it is like included_files_keep. */
void included_files_keep_input(kiln_bytes content);

/* Waits until all files are kept, for at most 10 s. Called when the process ends. */
void included_files_drain(void);
