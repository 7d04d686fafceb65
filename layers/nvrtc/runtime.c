/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"

#include "device/hiprtc/compiler.h"
#include "device/hiprtc/functions.h"
#include "device/hiprtc/identity.h"
#include "device/nvrtc/compile_uncached.h"
#include "device/nvrtc/compiler.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/lasting_options.h"

static const char *refuse_nothing(int count, const char *const *options)
{
    (void)count, (void)options;
    return NULL;
}

static kiln_status prepare_nothing(kilni_reads *reads, int count, const char *const *options)
{
    (void)reads, (void)count, (void)options;
    return KILN_OK;
}

static const runtime nvrtc = {
    .door = "nvrtc",
    .call = "nvrtcCompileProgram",
    .compiler = &kilni_nvrtc_compiler,
    .shares_between_folders = true,
    .knows_errors = true,
    .contradiction = "NVRTC uses a different libnvrtc-builtins than the one that was found",
    .suffices = kilni_nvrtc_functions_suffice,
    .add_identity = kilni_nvrtc_add_identity,
    .add_environment = kilni_nvrtc_add_environment,
    .note_options = kilni_nvrtc_note_lasting_options,
    .refuse_lookup = refuse_nothing,
    .refuse_result = kilni_nvrtc_lasting_options_refusal,
    .compile = kilni_nvrtc_compile,
    .prepare_reads = prepare_nothing,
};

/* ---- HIPRTC ---- */

static void note_hip_options(int count, const char *const *options)
{
    kilni_hiprtc_options_refusal(count, options);
}

static const char *refuse_hip_result(int count, const char *const *options)
{
    (void)count, (void)options;
    return kilni_hiprtc_result_refusal();
}

static kiln_status compile_hip(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                               int option_count, const char *const *options, int *ret_result)
{
    note_hip_options(option_count, options);
    *ret_result = real->compile(program, option_count, options);
    return KILN_OK;
}

static const runtime hiprtc = {
    .door = "hiprtc",
    .call = "hiprtcCompileProgram",
    .compiler = &kilni_hiprtc_compiler,
    .contradiction = "HIPRTC uses different libraries than those that were found",
    .suffices = kilni_hiprtc_functions_suffice,
    .add_identity = kilni_hiprtc_add_identity,
    .add_environment = kilni_hiprtc_add_environment,
    .note_options = note_hip_options,
    .refuse_lookup = kilni_hiprtc_options_refusal,
    .refuse_result = refuse_hip_result,
    .compile = compile_hip,
    .prepare_reads = kilni_hiprtc_prepare_reads,
    .find_watched = kilni_hiprtc_find_watched,
};

const runtime *runtime_of(const kilni_nvrtc_functions *real)
{
    return real->size[KILNI_HIPRTC_CODE] ? &hiprtc : &nvrtc;
}
