/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compiled program answers when it is asked: log, PTX, CUBIN and the like, and lowered
 * names. It is taken from the compiled program once, and given from there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/nvrtc/functions.h"

/* The answers of the two functions of one output. */
typedef struct kilni_nvrtc_answer {
    int is_known; /* 0: this NVRTC has no such functions */
    int size_result;
    uint64_t size; /* as the first said it */
    int get_result;
    kiln_bytes bytes; /* what the second wrote: as many as the first said, or none */
} kilni_nvrtc_answer;

/* The answer to one expression. */
typedef struct kilni_nvrtc_name {
    const char *expression;
    int result;
    const char *lowered; /* "" where that is no success */
} kilni_nvrtc_name;

/* Decoded; points into what it was decoded from. */
typedef struct kilni_nvrtc_outputs {
    kilni_nvrtc_answer answers[KILNI_NVRTC_OUTPUT_COUNT];
    kilni_nvrtc_name *names; /* owned */
    size_t name_count;
    kilni_text log; /* owned; what the log's answer points into where the folder may be in it */
} kilni_nvrtc_outputs;

/* Asks a program that was compiled.
 *
 * @name         the program's, whose folder may stand in its log; may be NULL
 * @may_move     whether it may be the same in another folder than that of the name
 * @expressions  that were added to it
 * @ret_encoded  [out] all of it, but for the code; kilni_text_done by the caller
 * @ret_code     [out] the code: CUBIN, LTO-IR, OptiX-IR, NVVM or PTX, the first that there is;
 *               kilni_text_done by the caller
 * @ret_moves    [out] whether nothing in it says where it was made, but the log, which is given
 *               back with the folder of who asks then
 * Returns KILN_OK; KILN_E_UNSUPPORTED: it did not answer; KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_outputs_take(const kilni_nvrtc_functions *nvrtc,
                                     kilni_nvrtc_program program, const char *name, bool may_move,
                                     size_t expression_count, const char *const *expressions,
                                     kilni_text *ret_encoded, kilni_text *ret_code,
                                     bool *ret_moves);

/* Takes that apart, for a program of that name; every length is checked, and that log and
 * PTX are closed by a zero byte. Given back with kilni_nvrtc_outputs_done. Returns KILN_OK;
 * KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_outputs_decode(kiln_bytes encoded, kiln_bytes code, const char *name,
                                       kilni_nvrtc_outputs *ret_outputs);
void kilni_nvrtc_outputs_done(kilni_nvrtc_outputs *outputs);

/* NULL where the expression wasn't added. */
const kilni_nvrtc_name *kilni_nvrtc_outputs_name(const kilni_nvrtc_outputs *outputs,
                                                 const char *expression);

/* Which output is the code; KILNI_NVRTC_LOG where there is none. */
kilni_nvrtc_output kilni_nvrtc_outputs_code(const kilni_nvrtc_outputs *outputs);
