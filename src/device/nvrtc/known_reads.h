/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs of a device read when NVRTC compiled them last in this process: by this a program
 * is told from the same one with other files.
 *
 * A program has a generation, which goes into its key. As long as what was read is as it was, that
 * stays; otherwise it becomes one that was never given before. So no key stands for two states of
 * the files: who compiles asks again afterwards, and keeps nothing where the generation is another
 * by then.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>

typedef struct kilni_nvrtc_known_reads kilni_nvrtc_known_reads;

kiln_status kilni_nvrtc_known_reads_new(kilni_nvrtc_known_reads **ret_known);
void kilni_nvrtc_known_reads_free(kilni_nvrtc_known_reads **known);

/* The generation of a program, by all that decides it but its files; 0 where it was not met.
 *
 * @ret_why  [out] with KILN_E_UNSUPPORTED, static text
 * Returns KILN_OK; KILN_E_UNSUPPORTED: what was compiled of these files can't be kept;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading. */
kiln_status kilni_nvrtc_known_reads_ask(kilni_nvrtc_known_reads *known, const kiln_digest *program,
                                        uint64_t *ret_generation, const char **ret_why);

/* A compilation of the program ended, or what one left was found.
 *
 * @reads  for kilni_nvrtc_reads_hold; copied; empty: they can't be told, or changed meanwhile
 * @why    why what was compiled can't be kept, static text; NULL: it can
 * Returns KILN_OK; KILN_E_NO_MEMORY: then the generation is another. Threads: any. Blocks: never.
 */
kiln_status kilni_nvrtc_known_reads_set(kilni_nvrtc_known_reads *known, const kiln_digest *program,
                                        kiln_bytes reads, const char *why);
