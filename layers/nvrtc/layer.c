/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer that the audit library calls instead of NVRTC and nvJitLink.
 */
#include <pthread.h>

#include "../shared/cancellation_guard.h"
#include "../shared/helper.h"
#include "../shared/included_files.h"
#include "../shared/session.h"
#include "../shared/trace.h"
#include "answers.h"
#include "compile.h"
#include "hooks.h"
#include "library.h"
#include "link_calls.h"
#include "links.h"
#include "programs.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED nvrtc_layer_entry kiln_nvrtc_layer_hooks;

/* ---- programs ---- */

static int create(nvrtc_library *library, kilni_nvrtc_program *program, const char *source,
                  const char *name, int header_count, const char *const *headers,
                  const char *const *header_names)
{
    const int result =
        library_real(library)->create(program, source, name, header_count, headers, header_names);
    if (result == KILNI_NVRTC_SUCCESS) {
        programs_add(library, *program, source, name, header_count, headers, header_names);
    }
    return result;
}

static int destroy(nvrtc_library *library, kilni_nvrtc_program *program)
{
    if (program && *program) {
        programs_remove(*program);
    }
    return library_real(library)->destroy(program);
}

static int compile(nvrtc_library *library, kilni_nvrtc_program program, int option_count,
                   const char *const *options)
{
    program_record *record = programs_find(program);
    if (record && record->state == PROGRAM_FRESH) {
        return compile_program(record, option_count, options);
    }
    if (record && record->state == PROGRAM_LOADED) {
        program_compile_late(record, "the program is compiled again");
        record->state = PROGRAM_NATIVE;
    }
    return runtime_compile(library_real(library), program, option_count, options);
}

/* NVRTC accepts no name expressions for a program that has been compiled. So the layer refuses them
 * for a program that was loaded from the cache. Versions of HIPRTC differ in what they do. */
static int add_name(nvrtc_library *library, kilni_nvrtc_program program, const char *expression)
{
    program_record *record = programs_find(program);
    if (record && record->state == PROGRAM_LOADED && expression) {
        if (library_runtime(library)->knows_errors) {
            return KILNI_NVRTC_NAMES_AFTER_COMPILATION;
        }
        program_compile_late(record, "a name expression is added after the compilation");
    }
    const int result = library_real(library)->add_name(program, expression);
    if (record && result == KILNI_NVRTC_SUCCESS) {
        program_add_expression(record, expression);
    }
    return result;
}

static int set_callback(nvrtc_library *library, kilni_nvrtc_program program,
                        kilni_nvrtc_flow_callback callback, void *payload)
{
    program_record *record = programs_find(program);
    if (record && record->state == PROGRAM_LOADED) {
        program_compile_late(record, "a callback was set for its next compilation");
    }
    const int result = library_real(library)->set_callback(program, callback, payload);
    if (record && result == KILNI_NVRTC_SUCCESS) {
        record->obstacle = "a callback that may cancel the compilation";
        record->is_at_nvrtc = 1; /* do not compile late, because that would call the callback */
    }
    return result;
}

/* An unknown function might query anything about a program that was loaded from the cache. It might
 * also change anything in a program that is not compiled yet. */
static void before_unknown(const void *const arguments[NVRTC_ARGUMENT_REGISTERS])
{
    for (size_t i = 0; i < NVRTC_ARGUMENT_REGISTERS; i++) {
        kilni_nvrtc_program handle = (kilni_nvrtc_program)(uintptr_t)arguments[i]; /* NOLINT */
        program_record *record = handle ? programs_find(handle) : NULL;
        if (record && record->state == PROGRAM_LOADED) {
            program_compile_late(record, "an unknown function of NVRTC was called");
        } else if (record && record->state == PROGRAM_FRESH) {
            record->obstacle = "an unknown function of NVRTC was called on the program";
        }
    }
}

static void before_hip_link(void)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed("hiprtcLinkComplete", "links of HIPRTC are not cached");
}

/* ---- start and end ---- */

static void before_fork(void)
{
    library_lock();
    programs_lock();
    linker_lock();
    links_lock();
}

static void after_fork(void)
{
    links_unlock();
    linker_unlock();
    programs_unlock();
    library_unlock();
}

static void after_fork_in_child(void)
{
    helper_forget();
    after_fork();
}

static const nvrtc_hooks hooks = {
    .version = NVRTC_HOOKS_VERSION,
    .attach = library_attach,
    .create = create,
    .destroy = destroy,
    .compile = compile,
    .add_name = add_name,
    .lowered_name = answer_lowered_name,
    .set_callback = set_callback,
    .size = answer_size,
    .get = answer_get,
    .before_unknown = before_unknown,
    .before_hip_link = before_hip_link,
    .action_begins = runtime_action_begins,
    .action_ends = runtime_action_ends,
    .attach_linker = linker_attach,
    .link_call = link_call,
};

/* Written once, by the function that once_started runs, and only read after that. */
static pthread_once_t once_started = PTHREAD_ONCE_INIT;
static int is_started;

static void start(void)
{
    is_started = session_start() == KILN_OK &&
                 pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
}

const nvrtc_hooks *kiln_nvrtc_layer_hooks(void)
{
    pthread_once(&once_started, start);
    return is_started ? &hooks : NULL;
}

static void drain(void *unused)
{
    (void)unused;
    included_files_drain();
    session_end();
    helper_process_ends();
}

/* Writes the queued entries when the process ends. */
__attribute__((destructor)) static void finish(void)
{
    run_without_cancellation(drain, NULL);
}
