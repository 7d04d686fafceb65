/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of a compiled program: log, PTX, CUBIN and so on, and lowered names. Kiln takes them
 * from the compiled program once, and afterwards returns them from this copy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/nvrtc/functions.h"

/* What the two functions of an output returned. */
typedef struct kilni_nvrtc_answer {
    int is_known; /* 0: this NVRTC has no functions for this output */
    int size_result;
    uint64_t size; /* as the first function reported it */
    int get_result;
    kiln_bytes bytes; /* what the second function wrote: as many bytes as the first reported, or
                       * none */
} kilni_nvrtc_answer;

/* What NVRTC returned for one expression. */
typedef struct kilni_nvrtc_name {
    const char *expression;
    int result;
    const char *lowered; /* "" unless result is success */
} kilni_nvrtc_name;

/* Decoded outputs. They point into the bytes from which they were decoded. */
typedef struct kilni_nvrtc_outputs {
    kilni_nvrtc_answer answers[KILNI_NVRTC_OUTPUT_COUNT];
    kilni_nvrtc_name *names; /* owned */
    size_t name_count;
    kilni_text log; /* owned; the log's answer points here if the log was stored in pieces */
} kilni_nvrtc_outputs;

/* Reads the outputs of a compiled program.
 *
 * @name         the program's name; the log might contain its folder; may be NULL
 * @may_move     true if the same program in a different folder might have the same result
 * @expressions  the name expressions that were added to the program
 * @ret_encoded  [out] everything except the code; freed by the caller, with kilni_text_done
 * @ret_code     [out] the code: the first of CUBIN, LTO-IR, OptiX-IR, NVVM and PTX that the program
 *                     has, or HIPRTC's code; freed by the caller, with kilni_text_done
 * @ret_moves    [out] true if @may_move is true and no output except the log reveals where the
 *                     program was compiled; the log is then decoded with the folder of the program
 *                     that uses the result
 * Returns KILN_OK; KILN_E_UNSUPPORTED: NVRTC returned an output that cannot be stored;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_outputs_take(const kilni_nvrtc_functions *nvrtc,
                                     kilni_nvrtc_program program, const char *name, bool may_move,
                                     size_t expression_count, const char *const *expressions,
                                     kilni_text *ret_encoded, kilni_text *ret_code,
                                     bool *ret_moves);

/* Decodes the outputs for a program whose name is @name. Checks every length. Also checks that the
 * log and the PTX end with a zero byte. Returns KILN_OK; KILN_E_CORRUPT; KILN_E_NO_MEMORY. After
 * KILN_OK, the caller must call kilni_nvrtc_outputs_done. */
kiln_status kilni_nvrtc_outputs_decode(kiln_bytes encoded, kiln_bytes code, const char *name,
                                       kilni_nvrtc_outputs *ret_outputs);
void kilni_nvrtc_outputs_done(kilni_nvrtc_outputs *outputs);

/* Returns NULL if the expression was not added to the program. */
const kilni_nvrtc_name *kilni_nvrtc_outputs_name(const kilni_nvrtc_outputs *outputs,
                                                 const char *expression);

/* Returns the output that is the code, or KILNI_NVRTC_LOG if there is none. */
kilni_nvrtc_output kilni_nvrtc_outputs_code(const kilni_nvrtc_outputs *outputs);
