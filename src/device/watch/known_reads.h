/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device's programs read when they were last compiled in this process. This distinguishes a
 * program in memory from the same program with different files.
 *
 * A program has a revision, which stays the same as long as the files that it read are unchanged;
 * then it becomes a number that the process has never used before. So no revision stands for two
 * states of the files. A thread that compiles asks for the revision again afterwards, and if it has
 * changed, does not share its result.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>

typedef struct kilni_known_reads kilni_known_reads;

/* @bytes_max  about how many bytes are remembered; beyond it, the programs that were asked for
 *             least recently are forgotten and treated as new ones
 * @name       of all programs, as for kilni_reads_hold; copied; may be NULL
 * Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_known_reads_new(size_t bytes_max, const char *name,
                                  kilni_known_reads **ret_known);
void kilni_known_reads_free(kilni_known_reads **known);

/* Returns the revision of a program.
 *
 * @program  digest of everything that decides it except its files
 * @ret_why  [out] with KILN_E_UNSUPPORTED, static text
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the result of compiling these files cannot be kept;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_known_reads_get_revision(kilni_known_reads *known, const kiln_digest *program,
                                           uint64_t *ret_revision, const char **ret_why);

/* Records that a compilation of the program has ended.
 *
 * @reads  for kilni_reads_hold; copied; empty: unknown, or changed during the compilation
 * @why    why the result cannot be kept, static text; NULL: it can
 * Returns KILN_OK; KILN_E_NO_MEMORY: then the revision is a new one. Threads: any. Blocks:
 * never. */
kiln_status kilni_known_reads_set(kilni_known_reads *known, const kiln_digest *program,
                                  kiln_bytes reads, const char *why);

/* Called before the caller checks the reads that an entry lists; kilni_known_reads_confirm is
 * called afterwards.
 *
 * @ret_mark  [out] stands for the state of the program at this time
 * Returns KILN_OK or KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_known_reads_begin_check(kilni_known_reads *known, const kiln_digest *program,
                                          uint64_t *ret_mark);

/* Records that the reads of an entry hold.
 *
 * @revision  for which the caller checked the entry; 0: for none
 * Returns KILN_OK; KILN_MISS: they belong to a different revision; KILN_BUSY: a caller that did not
 * see the same reads received the revision meanwhile, so the files may have changed in between, and
 * the caller must check again; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_known_reads_confirm(kilni_known_reads *known, const kiln_digest *program,
                                      uint64_t mark, uint64_t revision, kiln_bytes reads);
