/* SPDX-License-Identifier: Apache-2.0 */
#include "compile.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "../shared/cancellation_guard.h"
#include "../shared/helper.h"
#include "../shared/included_files.h"
#include "../shared/session.h"
#include "../shared/trace.h"
#include "../shared/upgrade.h"
#include "base/error.h"
#include "device/nvrtc/description.h"
#include "device/watch/read_files.h"
#include "device/watch/results.h"
#include "device/watch/watch.h"
#include "library.h"

/* One call of the function that compiles. */
typedef struct compile_call {
    program_record *record;
    const kilni_nvrtc_functions *real;
    const runtime *runtime;
    int option_count;
    const char *const *options;

    kiln_key *key;
    kilni_words words;  /* the words that were found in the texts that the program passed */
    kilni_reads *reads; /* what the compilation read; NULL: it did not run, or memory ran out */
    kilni_folds *folds; /* the constants that it folded; NULL in the same cases */
    int is_compiled;    /* NVRTC was called */
    int result;         /* what NVRTC returned */
} compile_call;

/* ---- the request's ops ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    compile_call *call = user;
    const char *const name = call->record->place;
    kilni_stored_result found;
    kilni_nvrtc_outputs outputs;
    const char *changed = NULL;
    kilni_watched *libraries[KILNI_WATCH_LIBRARIES_MAX];
    size_t count = 0;
    kiln_status status = library_find_watched(call->record->library, libraries, &count);
    if (status != KILN_OK) {
        return status == KILN_E_NO_MEMORY ? status : KILN_MISS;
    }
    status = kilni_results_find(entries[0], name, &found, &changed);
    if (status == KILN_OK) {
        status = kilni_nvrtc_outputs_decode(found.outputs, found.code, name, &outputs);
    }
    if (status == KILN_MISS && changed) {
        trace_changed(call->key, changed);
    }
    if (status != KILN_OK) {
        return status == KILN_E_CORRUPT ? KILN_E_REFUSED : status;
    }
    status = program_set_loaded(call->record, entries[0], found.reads, &outputs, call->option_count,
                                call->options);
    if (status != KILN_OK) {
        kilni_nvrtc_outputs_done(&outputs);
    }
    return status;
}

static void compile_at_nvrtc(compile_call *call)
{
    call->is_compiled = 1;
    call->record->state = PROGRAM_NATIVE;
    call->result =
        runtime_compile(call->real, call->record->handle, call->option_count, call->options);
}

/* Returns KILN_OK, or KILN_E_NO_MEMORY if NVRTC was not called because memory ran out. */
static kiln_status compile_to_keep(compile_call *call)
{
    call->record->state = PROGRAM_NATIVE;
    const kiln_status status = call->runtime->compile(
        call->real, call->record->handle, call->option_count, call->options, &call->result);
    call->is_compiled = status == KILN_OK;
    return status;
}

static bool begin_watch(compile_call *call, kilni_watch *watch)
{
    kilni_watched *libraries[KILNI_WATCH_LIBRARIES_MAX];
    size_t count = 0;
    kiln_status status = library_find_watched(call->record->library, libraries, &count);
    if (status == KILN_OK) {
        status = kilni_reads_new(call->record->place, call->runtime->compiler->words, &call->reads);
    }
    if (status == KILN_OK) {
        status = call->runtime->prepare_reads(call->reads, call->option_count, call->options);
    }
    if (status == KILN_OK) {
        status = kilni_folds_new(&call->folds);
    }
    if (status == KILN_OK) {
        status = kilni_watch_begin(watch, libraries[0], call->reads, call->folds);
    }
    for (size_t i = 1; i < count && status == KILN_OK; i++) {
        kilni_watch_add(watch, libraries[i]);
    }
    if (status != KILN_OK) {
        kilni_reads_free(&call->reads);
        kilni_folds_free(&call->folds);
    }
    return status == KILN_OK;
}

static kiln_status build(void *user, kiln_error *error)
{
    compile_call *call = user;
    kilni_watch watch;
    kiln_status status;
    if (begin_watch(call, &watch)) {
        pthread_cleanup_push(kilni_watch_end, &watch);
        status = compile_to_keep(call);
        pthread_cleanup_pop(1);
    } else {
        status = compile_to_keep(call);
    }
    if (status != KILN_OK) {
        return status;
    }
    return call->result == KILNI_NVRTC_SUCCESS
               ? KILN_OK
               : kilni_error_set(error, KILN_E_BUILD, 0, "%s returned error %d",
                                 call->runtime->call, call->result);
}

static kiln_status make_entry(const compile_call *call, const kilni_stored_result *made,
                              uint64_t build_ns, const kiln_entry *replaced, kiln_entry **ret_entry)
{
    kilni_text answers = {0}, payload = {0};
    kilni_nvrtc_description description = {0};
    kiln_status status = kilni_results_encode(made, replaced, &answers, &payload);
    if (status == KILN_OK) {
        status = kilni_nvrtc_describe(call->key, call->record->name, made, &description);
    }
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = call->key,
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance,
                           .tool = session_tool(),
                           .device = description.device.bytes,
                           .name = description.name.bytes,
                           .build_ns = build_ns},
            .answers = {answers.bytes, answers.length},
            .log = {description.log.bytes, description.log.length},
            .payload = {payload.bytes, payload.length},
        };
        status = kiln_entry_new(&params, ret_entry);
    }
    kilni_nvrtc_description_done(&description);
    kilni_text_done(&answers);
    kilni_text_done(&payload);
    return status;
}

/* Returns why the result cannot be stored; NULL if it can. */
static const char *finish_watched(compile_call *call, bool moves, kilni_text *ret_reads,
                                  kilni_text *ret_folds)
{
    const char *why = "the compiler cannot be watched, or there is no memory for that";
    if (call->reads) {
        call->runtime->complete_reads(call->reads, &call->words);
    }
    if (!call->reads || !call->folds ||
        kilni_reads_finish(call->reads, moves, &call->words, ret_reads, &why) != KILN_OK ||
        kilni_folds_finish(call->folds, ret_folds, &why) != KILN_OK) {
        return why;
    }
    why = call->runtime->compiler->refuse_words(&call->words);
    if (!why) {
        why = call->runtime->refuse_result(call->option_count, call->options);
    }
    return why || library_confirm(call->record->library) == KILN_OK ? why
                                                                    : call->runtime->contradiction;
}

/* Returns why the result cannot be stored; NULL if it can. */
static const char *follow_headers(const compile_call *call)
{
    const kilni_inputs inputs = program_inputs(call->record, call->option_count, call->options);
    return call->reads && call->folds
               ? call->runtime->follow_headers(call->real, call->record->handle, &inputs,
                                               call->reads, call->folds)
               : NULL;
}

static kiln_status take_outputs(const compile_call *call, kilni_text *outputs, kilni_text *code,
                                bool *ret_moves)
{
    const kilni_inputs inputs = program_inputs(call->record, call->option_count, call->options);
    const bool may_move =
        kilni_inputs_may_move(&inputs) && call->reads && !kilni_reads_mention_folder(call->reads);
    return kilni_nvrtc_outputs_take(call->real, call->record->handle, inputs.name, may_move,
                                    inputs.expression_count, inputs.expressions, outputs, code,
                                    ret_moves);
}

static bool names_folder(const compile_call *call, const kilni_text *outputs,
                         const kilni_text *code)
{
    return kilni_reads_text_names_folder(call->reads, outputs->bytes, outputs->length) ||
           kilni_reads_text_names_folder(call->reads, code->bytes, code->length);
}

static void trace_result_passed(const char *call, const char *why)
{
    char what[64];
    snprintf(what, sizeof what, "result of %s", call);
    trace_passed(what, why);
}

static kiln_status capture(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry)
{
    compile_call *call = user;
    kilni_text reads = {0}, folds = {0}, outputs = {0}, code = {0};
    bool moves = false;
    (void)index;
    const char *why = follow_headers(call);
    kiln_status status = why ? KILN_OK : take_outputs(call, &outputs, &code, &moves);
    if (!why && status == KILN_OK) {
        why = finish_watched(call, moves, &reads, &folds);
    }
    if (!why && status == KILN_OK && names_folder(call, &outputs, &code)) {
        why = "it contains the path of the compiler's temporary folder";
    }
    if (why) {
        trace_result_passed(call->runtime->call, why);
        status = KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        const kilni_stored_result made = {.reads = {reads.bytes, reads.length},
                                          .folds = {folds.bytes, folds.length},
                                          .outputs = {outputs.bytes, outputs.length},
                                          .code = {code.bytes, code.length}};
        status = make_entry(call, &made, build_ns, replaced, ret_entry);
    }
    if (status == KILN_OK) {
        included_files_keep((kiln_bytes){reads.bytes, reads.length}, call->record->name);
    }
    kilni_text_done(&reads);
    kilni_text_done(&folds);
    kilni_text_done(&outputs);
    kilni_text_done(&code);
    return status;
}

/* ---- outcomes of a call ---- */

static void pass_through(compile_call *call, const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed(call->runtime->call, reason);
    compile_at_nvrtc(call);
}

static void note_compiler(const compile_call *call)
{
    const char *path = library_path(call->record->library);
    if (path && call->runtime->family) {
        upgrade_note_build(call->key, call->runtime->family, path);
        helper_look_for_requests();
    }
}

static void request(compile_call *call)
{
    static const kilni_request_ops ops = {.load = load, .build = build, .capture = capture};
    const kilni_request wanted = {
        .ending = KILNI_KEEP_ENTRIES,
        .keys = (const kiln_key *const *)&call->key,
        .key_count = 1,
        .ops = &ops,
        .user = call,
    };
    kilni_request_result result = {0};
    const kiln_status status = kilni_request_run(session_requests(), &wanted, &result, NULL);
    if (!call->is_compiled && call->record->state != PROGRAM_LOADED) {
        compile_at_nvrtc(call);
    }
    if (status == KILN_OK && result.source == KILNI_FROM_BUILD) {
        note_compiler(call);
    }
    trace_request(call->runtime->door, call->key, &result, status);
}

static kiln_status make_key(compile_call *call, kiln_error *error)
{
    const kilni_inputs inputs = program_inputs(call->record, call->option_count, call->options);
    kiln_key_builder *builder = NULL;
    kiln_status status = library_begin_key(call->record->library, &builder, error);
    if (status == KILN_OK && !call->record->place && call->record->name) {
        status = kiln_key_builder_add_text(builder, "name", call->record->name);
    }
    if (status == KILN_OK) {
        status = kilni_inputs_add_to_key(&inputs, &call->words, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &call->key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

/* Returns 0 if NVRTC must refuse the arguments. */
static int is_well_formed(const compile_call *call)
{
    int is = call->option_count >= 0 && (call->option_count == 0 || call->options);
    for (int i = 0; is && i < call->option_count; i++) {
        is = call->options[i] != NULL;
    }
    return is;
}

static void look_up_or_compile(void *user)
{
    compile_call *call = user;
    if (session_is_forked()) {
        pass_through(call, "the process is a forked child");
        return;
    }
    if (call->record->obstacle || !session_requests()) {
        pass_through(call,
                     call->record->obstacle ? call->record->obstacle : "no memory for the cache");
        return;
    }
    const char *refusal = call->runtime->refuse_lookup(call->option_count, call->options);
    if (refusal) {
        pass_through(call, refusal);
        return;
    }
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = make_key(call, &error);
    if (status != KILN_OK) {
        pass_through(call, error.text[0] ? error.text : kiln_status_text(status));
        return;
    }
    request(call);
}

int compile_program(program_record *record, int option_count, const char *const *options)
{
    const runtime *of = library_runtime(record->library);
    compile_call call = {.record = record,
                         .real = library_real(record->library),
                         .runtime = of,
                         .option_count = option_count,
                         .options = options,
                         .words.list = of->compiler->words};
    if (!is_well_formed(&call)) {
        return of->call_compile(call.real, record->handle, option_count, options);
    }
    /* If this thread were cancelled during the call, the threads that wait for its result would
     * wait forever. */
    helper_build_starts();
    run_without_cancellation(look_up_or_compile, &call);
    helper_build_ends();
    kilni_reads_free(&call.reads);
    kilni_folds_free(&call.folds);
    kiln_key_release(&call.key);
    return call.result;
}
