/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the files from which a device's programs were made when this process last compiled or
 * loaded these programs. The files distinguish a program in memory from the same program made from
 * different files.
 *
 * A program has a revision number, which stays the same as long as the files that it read are
 * unchanged. When the files change, the revision becomes a number that the process has never used
 * before, so no revision belongs to two states of the files. A thread that compiles asks for the
 * revision again afterwards. If the revision has changed, the thread does not share its result.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>

typedef struct kilni_known_reads kilni_known_reads;

/* @bytes_max  the approximate maximum number of bytes in use; if it is exceeded, the least recently
 *             used programs are forgotten, and later treated as new
 * @name       the name of all programs, as for kilni_reads_hold; copied; may be NULL
 * Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_known_reads_new(size_t bytes_max, const char *name,
                                  kilni_known_reads **ret_known);
void kilni_known_reads_free(kilni_known_reads **known);

/* Returns the revision of a program.
 *
 * @program  the digest of everything that affects the program's result, except the files
 * @ret_why  [out] on KILN_E_UNSUPPORTED, a static text with the reason
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the result of compiling these files cannot be kept;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_known_reads_get_revision(kilni_known_reads *known, const kiln_digest *program,
                                           uint64_t *ret_revision, const char **ret_why);

/* Records that a compilation of the program has ended.
 *
 * @reads  for kilni_reads_hold; copied; empty: the files are unknown, or changed during the
 *         compilation
 * @why    static text: why the result cannot be kept; NULL if it can
 * Returns KILN_OK; KILN_E_NO_MEMORY: the program now has a new revision. Threads: any. Blocks:
 * never. */
kiln_status kilni_known_reads_set(kilni_known_reads *known, const kiln_digest *program,
                                  kiln_bytes reads, const char *why);

/* Call this before you check the reads that an entry lists. Call kilni_known_reads_confirm
 * afterwards.
 *
 * @ret_mark  [out] for kilni_known_reads_confirm: identifies the present state of the program
 * Returns KILN_OK or KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_known_reads_begin_check(kilni_known_reads *known, const kiln_digest *program,
                                          uint64_t *ret_mark);

/* Records that the reads of an entry hold.
 *
 * @revision  the revision for which the caller checked the entry; 0: none
 * Returns KILN_OK; KILN_MISS: the reads belong to a different revision; KILN_BUSY: the files might
 * have changed in between, so this caller must check them again; KILN_E_NO_MEMORY. Returns
 * KILN_BUSY if the revision has changed since kilni_known_reads_begin_check, or if since then a
 * different caller has received the revision without knowing these reads. Threads: any. Blocks:
 * never. */
kiln_status kilni_known_reads_confirm(kilni_known_reads *known, const kiln_digest *program,
                                      uint64_t mark, uint64_t revision, kiln_bytes reads);
