/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"

#include <stdatomic.h>

#include "device/hiprtc/compiler.h"
#include "device/hiprtc/functions.h"
#include "device/hiprtc/identity.h"
#include "device/nvrtc/compile_uncached.h"
#include "device/nvrtc/compiler.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/lasting_options.h"
#include "device/nvrtc/precompiled_headers.h"

static const char *refuse_nothing(int count, const char *const *options)
{
    (void)count, (void)options;
    return NULL;
}

static kiln_status prepare_nvrtc(kilni_reads *reads, int count, const char *const *options)
{
    if (kilni_nvrtc_precompiles_headers(count, options)) {
        kilni_reads_ignore(reads, kilni_nvrtc_is_precompiled_header, NULL);
    }
    return KILN_OK;
}

static int call_nvrtc(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                      int option_count, const char *const *options)
{
    return real->compile(program, option_count, options);
}

static void complete_nothing(kilni_reads *reads, const kilni_words *given)
{
    (void)reads, (void)given;
}

static const runtime nvrtc = {
    .door = "nvrtc",
    .call = "nvrtcCompileProgram",
    .compiler = &kilni_nvrtc_compiler_with_headers,
    .family = "NVRTC ",
    .shares_between_folders = true,
    .knows_errors = true,
    .contradiction = "NVRTC uses a different libnvrtc-builtins than the one that was found",
    .suffices = kilni_nvrtc_functions_suffice,
    .add_identity = kilni_nvrtc_add_identity,
    .add_environment = kilni_nvrtc_add_environment,
    .note_options = kilni_nvrtc_note_lasting_options,
    .call_compile = call_nvrtc,
    .refuse_lookup = refuse_nothing,
    .refuse_result = kilni_nvrtc_lasting_options_refusal,
    .compile = kilni_nvrtc_compile,
    .prepare_reads = prepare_nvrtc,
    .follow_headers = kilni_nvrtc_follow_precompiled_headers,
    .complete_reads = complete_nothing,
};

/* ---- HIPRTC ---- */

static const char *follow_nothing(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                                  const kilni_inputs *inputs, kilni_reads *reads,
                                  kilni_folds *folds)
{
    (void)real, (void)program, (void)inputs, (void)reads, (void)folds;
    return NULL;
}

static void note_hip_options(int count, const char *const *options)
{
    kilni_hiprtc_options_refusal(count, options);
}

/* comgr 2.4 sometimes makes different code if several threads use it at once, through HIPRTC or
 * otherwise. So no result of such a compilation is kept. A thread that begins an action increments
 * @running, then @begun. A compilation was alone if no action was running when it began, and all
 * actions that have begun since are its own: an action that increments @begun after the compilation
 * calls comgr after it. A call of HIPRTC counts as an action, too. If an exception or a
 * cancellation leaves an action, no later compilation counts as alone. */
static _Atomic unsigned running, begun;
static _Thread_local unsigned own;   /* actions that this thread has begun */
static _Thread_local bool was_alone; /* this thread's last compilation */

void runtime_action_begins(void)
{
    kilni_hiprtc_note_environment();
    atomic_fetch_add(&running, 1);
    atomic_fetch_add(&begun, 1);
    own++;
}

void runtime_action_ends(void)
{
    atomic_fetch_sub(&running, 1);
}

static int call_hip(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                    int option_count, const char *const *options)
{
    const unsigned begun_before = atomic_load(&begun), own_before = own;
    const bool is_first = atomic_load(&running) == 0;
    runtime_action_begins();
    const int result = real->compile(program, option_count, options);
    runtime_action_ends();
    const unsigned begun_since = atomic_load(&begun) - begun_before;
    /* If the only action is the call of HIPRTC, those of comgr are not observed. */
    was_alone = is_first && begun_since == own - own_before && begun_since > 1;
    return result;
}

static const char *refuse_hip_result(int count, const char *const *options)
{
    (void)count, (void)options;
    return was_alone ? kilni_hiprtc_result_refusal()
                     : "a different thread used the compiler at the same time";
}

static kiln_status compile_hip(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                               int option_count, const char *const *options, int *ret_result)
{
    note_hip_options(option_count, options);
    *ret_result = call_hip(real, program, option_count, options);
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
    .call_compile = call_hip,
    .refuse_lookup = kilni_hiprtc_options_refusal,
    .refuse_result = refuse_hip_result,
    .compile = compile_hip,
    .prepare_reads = kilni_hiprtc_prepare_reads,
    .follow_headers = follow_nothing,
    .complete_reads = kilni_hiprtc_complete_reads,
    .find_watched = kilni_hiprtc_find_watched,
};

int runtime_compile(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                    int option_count, const char *const *options)
{
    const runtime *of = runtime_of(real);
    of->note_options(option_count, options);
    return of->call_compile(real, program, option_count, options);
}

const runtime *runtime_of(const kilni_nvrtc_functions *real)
{
    return real->size[KILNI_HIPRTC_CODE] ? &hiprtc : &nvrtc;
}
