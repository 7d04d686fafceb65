/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/build.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/compile_uncached.h"
#include "device/nvrtc/context.h"
#include "device/nvrtc/description.h"
#include "device/nvrtc/lasting_options.h"
#include "device/nvrtc/log.h"
#include "device/nvrtc/request.h"
#include "device/watch/watch.h"

/* ---- compiling ---- */

/* If this returns KILN_E_BUILD, all callers that wait for the build get that status. So it is
 * returned only if the source or an option causes the failure. */
static kiln_status status_of_compilation(int result)
{
    switch (result) {
    case KILNI_NVRTC_SUCCESS:
        return KILN_OK;
    case KILNI_NVRTC_OUT_OF_MEMORY:
        return KILN_E_RESOURCES;
    case KILNI_NVRTC_INVALID_OPTION:
    case KILNI_NVRTC_COMPILATION:
        return KILN_E_BUILD;
    default:
        return KILN_E_IO;
    }
}

static kiln_status compile(const kiln_nvrtc_device *d, const kilni_inputs *inputs,
                           kilni_nvrtc_program program, char **ret_log)
{
    int result = KILNI_NVRTC_SUCCESS;
    for (size_t i = 0; i < inputs->expression_count && result == KILNI_NVRTC_SUCCESS; i++) {
        result = d->nvrtc.add_name(program, inputs->expressions[i]);
    }
    kiln_status status = KILN_OK;
    if (result == KILNI_NVRTC_SUCCESS) {
        status = kilni_nvrtc_compile(&d->nvrtc, program, (int)inputs->option_count, inputs->options,
                                     &result);
    }
    if (status == KILN_OK) {
        status = status_of_compilation(result);
    }
    if (status != KILN_OK) {
        *ret_log = kilni_nvrtc_log_copy(&d->nvrtc, program);
    }
    return status;
}

/* Compiles a program, takes all its outputs, and destroys the program. */
static kiln_status compile_and_take(const kiln_nvrtc_device *d, const kilni_inputs *inputs,
                                    kilni_nvrtc_compiled_program *built, char **ret_log)
{
    kilni_nvrtc_program program = NULL;
    bool moves = false;
    kiln_status status = status_of_compilation(
        d->nvrtc.create(&program, inputs->source, inputs->name, (int)inputs->header_count,
                        inputs->headers, inputs->header_names));
    if (status != KILN_OK) {
        return status;
    }
    status = compile(d, inputs, program, ret_log);
    if (status == KILN_OK) {
        status = kilni_nvrtc_outputs_take(&d->nvrtc, program, inputs->name, false,
                                          inputs->expression_count, inputs->expressions,
                                          &built->encoded, &built->code, &moves);
    }
    d->nvrtc.destroy(&program);
    return status == KILN_OK ? kilni_nvrtc_compiled_program_decode(built) : status;
}

/* ---- what it reads and folds ---- */

/* Records the files that the compilation read, for the next request. Does this even if the source
 * does not compile, because that failure is valid only while these files are unchanged. */
static kiln_status finish_reads(const kiln_nvrtc_device *d, kilni_nvrtc_request *r,
                                kilni_reads *reads, kilni_nvrtc_compiled_program *built)
{
    kiln_status status = kilni_reads_finish(reads, false, &r->words, &built->reads, &built->why);
    const bool changed = status == KILN_MISS;
    if (status == KILN_OK) {
        built->why = kilni_clock_words_refusal(&r->words);
    }
    if (status == KILN_E_NO_MEMORY || !r->key) {
        return status == KILN_E_NO_MEMORY ? status : KILN_OK;
    }
    const kiln_digest program = kiln_key_digest(r->key);
    return kilni_known_reads_set(d->known, &program,
                                 (kiln_bytes){built->reads.bytes, built->reads.length},
                                 changed ? NULL : built->why);
}

/* Nothing in this process needs to check the folded constants again, because the same functions
 * would fold them to the same values. */
static kiln_status finish_folds(kilni_folds *folds, kilni_nvrtc_compiled_program *built)
{
    const char *why = NULL;
    const kiln_status status = kilni_folds_finish(folds, &built->folds, &why);
    if (status == KILN_E_UNSUPPORTED) {
        built->why = built->why ? built->why : why;
    }
    return status == KILN_E_NO_MEMORY ? status : KILN_OK;
}

static kiln_status finish(const kiln_nvrtc_device *d, kilni_nvrtc_request *r, kilni_reads *reads,
                          kilni_folds *folds, kilni_nvrtc_compiled_program *built)
{
    kiln_status status = finish_reads(d, r, reads, built);
    if (status == KILN_OK) {
        status = finish_folds(folds, built);
    }
    if (!built->why) {
        built->why =
            kilni_nvrtc_lasting_options_refusal((int)r->inputs.option_count, r->inputs.options);
    }
    return status;
}

static kiln_status compile_watched(const kiln_nvrtc_device *d, const kilni_nvrtc_request *r,
                                   kilni_reads *reads, kilni_folds *folds,
                                   kilni_nvrtc_compiled_program *built, char **ret_log)
{
    kilni_watch watch;
    kiln_status status = kilni_watch_begin(&watch, d->watched, reads, folds);
    if (status == KILN_OK) {
        pthread_cleanup_push(kilni_watch_end, &watch);
        status = compile_and_take(d, &r->inputs, built, ret_log);
        pthread_cleanup_pop(1);
    }
    return status;
}

static kiln_status compile_request(const kiln_nvrtc_device *d, kilni_nvrtc_request *r,
                                   kilni_nvrtc_compiled_program *built, char **ret_log)
{
    kilni_reads *reads = NULL;
    kilni_folds *folds = NULL;
    if (!d->known) {
        built->why = "this NVRTC can't be watched";
        return compile_and_take(d, &r->inputs, built, ret_log);
    }
    kiln_status status = kilni_reads_new(KILNI_NVRTC_NO_NAME, &kilni_clock_words, &reads);
    if (status == KILN_OK) {
        status = kilni_folds_new(&folds);
    }
    if (status == KILN_OK) {
        status = compile_watched(d, r, reads, folds, built, ret_log);
    }
    if (folds && (status == KILN_OK || status == KILN_E_BUILD)) {
        const kiln_status finished = finish(d, r, reads, folds, built);
        status = finished == KILN_OK ? status : finished;
    }
    kilni_reads_free(&reads);
    kilni_folds_free(&folds);
    return status;
}

/* ---- the interface ---- */

static kiln_status build_request(const kiln_nvrtc_device *d, kilni_nvrtc_request *r,
                                 kilni_nvrtc_compiled_program *built, char **ret_log)
{
    kiln_status status =
        kilni_nvrtc_describe_device(&d->nvrtc, r->options.items, r->options.count, &built->device);
    if (status == KILN_OK) {
        status = compile_request(d, r, built, ret_log);
    }
    if (status == KILN_OK) {
        status = kilni_nvrtc_context_load(d, built);
    }
    /* If the driver refuses the code, the options ask for code for a different device. */
    return status == KILN_E_REFUSED ? KILN_E_BUILD : status;
}

kiln_status kilni_nvrtc_build(const kiln_nvrtc_device *device, const kiln_program_source *source,
                              kilni_nvrtc_compiled_program **ret_built, char **ret_log)
{
    kilni_nvrtc_request r;
    kilni_nvrtc_compiled_program *built = calloc(1, sizeof *built);
    if (!built) {
        return KILN_E_NO_MEMORY;
    }
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kilni_nvrtc_request_begin(device, source, &r, &error);
    if (status == KILN_OK) {
        status = build_request(device, &r, built, ret_log);
    } else if (status == KILN_E_BUILD) {
        *ret_log = strdup(error.text);
    }
    kilni_nvrtc_request_done(&r);
    if (status != KILN_OK) {
        kilni_nvrtc_compiled_program_free(device, built);
        return status;
    }
    *ret_built = built;
    return KILN_OK;
}
