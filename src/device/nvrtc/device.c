/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/compiled_program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "device/nvrtc/compiler.h"
#include "device/nvrtc/loader.h"

/* Enough for the reads of a few thousand programs that include all of CUB. If the reads of a
 * program are forgotten, the program gets a new revision. */
#define KNOWN_READS_BYTES_MAX ((size_t)256 << 20)

/* ---- making a device ---- */

/* Copies a list of texts and terminates it with NULL. */
static kiln_status copy_texts(const char *const *from, size_t count, char ***ret_texts)
{
    char **copied = calloc(count + 1, sizeof *copied);
    if (!copied) {
        return KILN_E_NO_MEMORY;
    }
    *ret_texts = copied;
    for (size_t i = 0; i < count; i++) {
        copied[i] = strdup(from[i]);
        if (!copied[i]) {
            return KILN_E_NO_MEMORY;
        }
    }
    return KILN_OK;
}

static size_t count_texts(const char *const *texts)
{
    size_t count = 0;
    while (texts && texts[count]) {
        count++;
    }
    return count;
}

static kiln_status copy_params(const kiln_nvrtc_device_params *params, kiln_nvrtc_device *made)
{
    kiln_status status = copy_texts(params->more, count_texts(params->more), &made->variables);
    if (status == KILN_OK) {
        status = copy_texts(params->headers, params->header_count, &made->headers);
    }
    if (status == KILN_OK) {
        status = copy_texts(params->header_names, params->header_count, &made->header_names);
    }
    made->header_count = params->header_count;
    if (status == KILN_OK && params->architecture) {
        made->architecture = strdup(params->architecture);
        status = made->architecture ? KILN_OK : KILN_E_NO_MEMORY;
    }
    return status;
}

/* Finds out the architecture of the context's device. */
static kiln_status find_architecture(kiln_nvrtc_device *made, kiln_error *error)
{
    const kilni_cuda_driver *driver = &made->driver;
    int device = 0, major = 0, minor = 0;
    kilni_cuda_context_handle unused;
    if (driver->push_context(made->context) != KILNI_CUDA_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "the driver does not know the context");
    }
    const int is_known =
        driver->get_device(&device) == KILNI_CUDA_SUCCESS &&
        driver->get_attribute(&major, KILNI_CUDA_CAPABILITY_MAJOR, device) == KILNI_CUDA_SUCCESS &&
        driver->get_attribute(&minor, KILNI_CUDA_CAPABILITY_MINOR, device) == KILNI_CUDA_SUCCESS;
    driver->pop_context(&unused);
    if (!is_known) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "the device does not report its architecture");
    }
    return asprintf(&made->architecture, "sm_%d%d", major, minor) < 0 ? KILN_E_NO_MEMORY : KILN_OK;
}

static kiln_status use_context(kiln_nvrtc_device *made, void *context, kiln_error *error)
{
    const kiln_status status = kilni_cuda_open(&made->driver, error);
    if (status != KILN_OK) {
        return status;
    }
    made->context = context;
    return made->architecture ? KILN_OK : find_architecture(made, error);
}

static kiln_status watch(kiln_nvrtc_device *made)
{
    const kiln_status status = kilni_watched_find_by_entry_point(
        &kilni_nvrtc_compiler, (const void *)made->nvrtc.compile, &made->watched);
    if (status == KILN_OK) {
        return kilni_known_reads_new(KNOWN_READS_BYTES_MAX, NULL, &made->known);
    }
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

static kiln_status fill(const kiln_nvrtc_device_params *params, kiln_nvrtc_device *made,
                        kiln_error *error)
{
    kiln_status status = copy_params(params, made);
    if (status == KILN_OK) {
        status = kilni_nvrtc_open(params->nvrtc, &made->nvrtc, error);
    }
    if (status == KILN_OK) {
        status = watch(made);
    }
    return status == KILN_OK && params->context ? use_context(made, params->context, error)
                                                : status;
}

static bool are_all_set(const char *const *texts, size_t count)
{
    bool all_set = texts || count == 0;
    for (size_t i = 0; all_set && i < count; i++) {
        all_set = texts[i] != NULL;
    }
    return all_set;
}

kiln_status kiln_nvrtc_device_new(const kiln_nvrtc_device_params *params,
                                  kiln_nvrtc_device **ret_device, kiln_error *error)
{
    kiln_nvrtc_device_params known;
    if (!ret_device || kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK ||
        !are_all_set(known.headers, known.header_count) ||
        !are_all_set(known.header_names, known.header_count)) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "invalid parameters for NVRTC's ops");
    }
    kiln_nvrtc_device *made = calloc(1, sizeof *made);
    const kiln_status status = made ? fill(&known, made, error) : KILN_E_NO_MEMORY;
    if (status == KILN_E_NO_MEMORY) {
        kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    if (status != KILN_OK) {
        kiln_nvrtc_device_free(&made);
        return status;
    }
    *ret_device = made;
    return KILN_OK;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; texts && i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

void kiln_nvrtc_device_free(kiln_nvrtc_device **device)
{
    if (!device || !*device) {
        return;
    }
    kiln_nvrtc_device *ending = *device;
    *device = NULL;
    free_texts(ending->headers, ending->header_count);
    free_texts(ending->header_names, ending->header_count);
    free_texts(ending->variables, count_texts((const char *const *)ending->variables));
    kilni_known_reads_free(&ending->known);
    free(ending->architecture);
    free(ending);
}

/* ---- results of a program ---- */

kiln_status kiln_nvrtc_get_output(const void *program, uint32_t output, kiln_bytes *ret_bytes)
{
    const kilni_nvrtc_compiled_program *built = program;
    if (!built || !ret_bytes || output >= KILNI_NVRTC_OUTPUT_COUNT) {
        return KILN_E_INVALID;
    }
    if (!built->outputs.answers[output].is_known) {
        return KILN_MISS;
    }
    *ret_bytes = built->outputs.answers[output].bytes;
    return KILN_OK;
}

kiln_status kiln_nvrtc_get_lowered_name(const void *program, const char *expression,
                                        const char **ret_name)
{
    const kilni_nvrtc_compiled_program *built = program;
    if (!built || !expression || !ret_name) {
        return KILN_E_INVALID;
    }
    const kilni_nvrtc_name *name = kilni_nvrtc_outputs_name(&built->outputs, expression);
    if (!name || name->result != KILNI_NVRTC_SUCCESS) {
        return KILN_MISS;
    }
    *ret_name = name->lowered;
    return KILN_OK;
}
