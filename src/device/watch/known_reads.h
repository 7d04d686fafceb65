/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs of a device read when NVRTC compiled them last in this process: by this a program
 * in memory is told from the same one of other files.
 *
 * A program has a revision. As long as what it read is as it was, that stays; then it is a number
 * that was never given before, in the whole process. So no revision stands for two states of the
 * files: who compiles asks again afterwards, and shares nothing where it is another by then.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>

typedef struct kilni_known_reads kilni_known_reads;

/* @bytes_max  about so much is remembered: programs that nobody has asked for for the longest time
 *             are forgotten, and met as new ones
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_known_reads_new(size_t bytes_max, kilni_known_reads **ret_known);
void kilni_known_reads_free(kilni_known_reads **known);

/* The revision of a program.
 *
 * @program  digest of all that decides it but its files
 * @ret_why  [out] with KILN_E_UNSUPPORTED, static text
 * Returns KILN_OK; KILN_E_UNSUPPORTED: what is compiled of these files can't be kept;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading. */
kiln_status kilni_known_reads_ask(kilni_known_reads *known, const kiln_digest *program,
                                  uint64_t *ret_revision, const char **ret_why);

/* A compilation of the program ended.
 *
 * @reads  for kilni_reads_hold; copied; empty: they can't be told, or changed meanwhile
 * @why    why what was compiled can't be kept, static text; NULL: it can
 * Returns KILN_OK; KILN_E_NO_MEMORY: then the revision is another. Threads: any. Blocks: never. */
kiln_status kilni_known_reads_set(kilni_known_reads *known, const kiln_digest *program,
                                  kiln_bytes reads, const char *why);

/* Around a look at what an entry says that the program read, for kilni_known_reads_found.
 *
 * @ret_mark  [out] who was told what until now
 * Returns KILN_OK; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_known_reads_begin_look(kilni_known_reads *known, const kiln_digest *program,
                                         uint64_t *ret_mark);

/* The reads of an entry were as they had been.
 *
 * @revision  for which it was looked at; 0: for none
 * Returns KILN_OK; KILN_MISS: they are of another revision; KILN_BUSY: meanwhile somebody was told
 * the revision who did not see the same: look again, since the files may have changed in between;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_known_reads_found(kilni_known_reads *known, const kiln_digest *program,
                                    uint64_t mark, uint64_t revision, kiln_bytes reads);
