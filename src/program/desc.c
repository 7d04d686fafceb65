/* SPDX-License-Identifier: Apache-2.0 */
#include "program/desc.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "key/builder.h"
#include "program/device_ops.h"
#include "program/obtain.h"
#include "program/options.h"

/* In the keys of the maps, digests replace parts that are longer than this, as in the IDs of blobs.
 */
#define LONG_PART_BYTES 64u

/* ---- copies of the parameters ---- */

static int compare_constants(const void *a, const void *b)
{
    const kiln_spec_constant *first = a, *second = b;
    return first->id < second->id ? -1 : first->id > second->id;
}

static bool are_distinct(const kiln_spec_constant *constants, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (constants[i - 1].id == constants[i].id) {
            return false;
        }
    }
    return true;
}

static void *copy_bytes(const void *bytes, size_t size)
{
    void *copy = malloc(size > 0 ? size : 1);
    if (copy && size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

static kiln_status copy_constants(kiln_program_desc *desc, const kiln_program_desc_params *params,
                                  kiln_error *error)
{
    if (params->constant_count == 0) {
        return KILN_OK;
    }
    desc->constants = calloc(params->constant_count, sizeof *desc->constants);
    if (!desc->constants) {
        return KILN_E_NO_MEMORY;
    }
    desc->source.constants = desc->constants;
    for (size_t i = 0; i < params->constant_count; i++) {
        const kiln_spec_constant *given = &params->constants[i];
        if (!given->value.data && given->value.size > 0) {
            return kilni_error_set(error, KILN_E_INVALID, 0, "constant %u has no value",
                                   (unsigned)given->id);
        }
        void *value = copy_bytes(given->value.data, given->value.size);
        if (!value) {
            return KILN_E_NO_MEMORY;
        }
        desc->constants[i] = (kiln_spec_constant){given->id, {value, given->value.size}};
        desc->source.constant_count++;
    }
    qsort(desc->constants, params->constant_count, sizeof *desc->constants, compare_constants);
    return are_distinct(desc->constants, params->constant_count)
               ? KILN_OK
               : kilni_error_set(error, KILN_E_INVALID, 0, "a constant has two values");
}

static kiln_status copy_code(kiln_program_desc *desc, const kiln_program_desc_params *params)
{
    desc->source.form = params->form;
    desc->source.code.data = copy_bytes(params->code.data, params->code.size);
    desc->source.code.size = params->code.size;
    desc->source.name = params->name ? strdup(params->name) : NULL;
    desc->code_bytes = params->code.size;
    const bool is_copied = desc->source.code.data && (!params->name || desc->source.name);
    return is_copied ? KILN_OK : KILN_E_NO_MEMORY;
}

static kiln_status hold_linked(kiln_program_desc *desc, const kiln_program_desc_params *params,
                               kiln_error *error)
{
    if (params->linked_count == 0) {
        return KILN_OK;
    }
    desc->linked = calloc(params->linked_count, sizeof(kiln_program_desc *));
    if (!desc->linked) {
        return KILN_E_NO_MEMORY;
    }
    for (size_t i = 0; i < params->linked_count; i++) {
        const kiln_program_desc *linked = params->linked[i];
        if (!linked || linked->linked_count > 0 || linked->context != desc->context ||
            linked->device_handle != desc->device_handle) {
            return kilni_error_set(error, KILN_E_INVALID, 0,
                                   "a linked program must be compiled, and be of the same context "
                                   "and device");
        }
        desc->linked[desc->linked_count++] = kiln_program_desc_retain(linked);
        desc->code_bytes += linked->code_bytes;
    }
    return KILN_OK;
}

static kiln_status combine_options(kiln_program_desc *desc, const kiln_program_desc_params *params)
{
    const kiln_program_context *context = desc->context;
    const kiln_build_options *image = &params->image_options, *caller = &params->options;
    kiln_status status =
        kilni_options_combine(image->compile, context->replaced.compile, context->appended.compile,
                              caller->compile, &desc->compile_options);
    if (status == KILN_OK) {
        status = kilni_options_combine(image->link, context->replaced.link, context->appended.link,
                                       caller->link, &desc->link_options);
    }
    char *options = NULL;
    if (status == KILN_OK) {
        const char *compile = desc->linked_count > 0 ? NULL : desc->compile_options;
        status = kilni_options_join(compile, desc->link_options, &options);
    }
    desc->source.options = options;
    return status;
}

/* ---- keys ---- */

static kiln_status add_text(kiln_key_builder *builder, const char *name, const char *text)
{
    return text ? kiln_key_builder_add_text(builder, name, text) : KILN_OK;
}

static kiln_status add_constants(const kiln_program_desc *desc, kiln_key_builder *builder)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < desc->source.constant_count; i++) {
        const kiln_spec_constant *constant = &desc->constants[i];
        status = kiln_key_builder_add_number(builder, "constant", constant->id);
        if (status == KILN_OK) {
            status = kiln_key_builder_add(builder, "constant.value", constant->value.data,
                                          constant->value.size);
        }
    }
    return status;
}

/* The key of a linked program contains the keys of the programs that are linked into it. */
static kiln_status add_linked(const kiln_program_desc *desc, kiln_key_builder *builder,
                              kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < desc->linked_count; i++) {
        kiln_key *input = NULL;
        status = kilni_desc_make_key(desc->linked[i], &input, error);
        if (status == KILN_OK) {
            size_t size;
            const void *encoding = kiln_key_encoding(input, &size);
            status = kiln_key_builder_add(builder, "input", encoding, size);
        }
        kiln_key_release(&input);
    }
    return status;
}

static kiln_status describe(const kiln_program_desc *desc, kiln_key_builder *builder,
                            kiln_error *error)
{
    const kiln_device_ops *ops = desc->ops;
    return kilni_ops_checked_status(
        ops, ops->describe(desc->device_handle, &desc->source, builder, error), error);
}

static kiln_status add_inputs(const kiln_program_desc *desc, kiln_key_builder *builder,
                              kiln_error *error)
{
    kiln_status status = kilni_key_parts_add(desc->device->identity, builder);
    if (status == KILN_OK) {
        status = add_text(builder, "library", desc->context->library);
    }
    if (status == KILN_OK) {
        status = desc->linked_count > 0 ? add_linked(desc, builder, error)
                                        : describe(desc, builder, error);
    }
    if (status == KILN_OK) {
        status = add_constants(desc, builder);
    }
    if (status == KILN_OK) {
        status = add_text(builder, "compile_options", desc->compile_options);
    }
    return status == KILN_OK ? add_text(builder, "link_options", desc->link_options) : status;
}

kiln_status kilni_desc_make_key(const kiln_program_desc *desc, kiln_key **ret_key,
                                kiln_error *error)
{
    if (!desc->device->identity) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "the inputs of builds by %s are unknown", desc->ops->name);
    }
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_inputs(desc, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kilni_desc_strip(const kiln_key *key, kiln_key **ret_stripped)
{
    return kiln_key_strip(key, LONG_PART_BYTES, ret_stripped);
}

/* Adds the revision of the source, or the revisions of all linked sources.
 *
 * @ret_last  [out] the last revision that was added */
static kiln_status add_revisions(const kiln_program_desc *desc, kiln_key_builder *builder,
                                 uint64_t *ret_last, kiln_error *error)
{
    const kiln_device_ops *ops = desc->ops;
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < desc->linked_count; i++) {
        status = add_revisions(desc->linked[i], builder, ret_last, error);
    }
    if (status != KILN_OK || desc->linked_count > 0) {
        return status;
    }
    status = kilni_ops_checked_status(
        ops, ops->revision(desc->device_handle, &desc->source, ret_last, error), error);
    return status == KILN_OK ? kiln_key_builder_add_number(builder, "revision", *ret_last) : status;
}

/* Asks for revisions even if the program is not kept, because a caller might obtain the program's
 * blob. */
static kiln_status make_revisions(const kiln_program_desc *desc, kiln_key **ret_revisions,
                                  uint64_t *ret_last, kiln_error *error)
{
    if (!KILNI_OPS_HAVE(desc->ops, revision)) {
        return KILN_OK;
    }
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_revisions(desc, builder, ret_last, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_revisions);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status add_memory_parts(const kiln_program_desc *desc, kiln_key_builder *builder)
{
    const kiln_program_context *context = desc->context;
    kiln_status status = kilni_key_parts_add(desc->key, builder);
    if (status == KILN_OK && context->has_distinct_devices) {
        status = kiln_key_builder_add_number(builder, "on",
                                             context->devices[desc->device_index].shares_with);
    }
    return status == KILN_OK && desc->revisions ? kilni_key_parts_add(desc->revisions, builder)
                                                : status;
}

/* Makes the key in memory. It has the parts of the key in stores and, if needed, the device and the
 * revisions. The device is needed because devices with equal keys in stores can have separate
 * programs in memory. The revisions are needed because a program in memory does not record its
 * inputs. An entry in a store records them. */
static kiln_status make_memory_key(kiln_program_desc *desc)
{
    if (!desc->context->has_distinct_devices && !desc->revisions) {
        return kilni_desc_strip(desc->key, &desc->memory_key);
    }
    kiln_key *whole = NULL;
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_memory_parts(desc, builder);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &whole);
    }
    if (status == KILN_OK) {
        status = kilni_desc_strip(whole, &desc->memory_key);
    }
    kiln_key_release(&whole);
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status try_keys(kiln_program_desc *desc, kiln_error *error)
{
    kiln_status status = kilni_desc_make_key(desc, &desc->key, error);
    uint64_t last = 0;
    if (status == KILN_OK) {
        status = make_revisions(desc, &desc->revisions, &last, error);
    }
    desc->source.revision = desc->linked_count > 0 ? 0 : last;
    const bool is_cached = kilni_caching_of_desc(desc) == KILN_UNCACHED_NOT;
    return status == KILN_OK && is_cached ? make_memory_key(desc) : status;
}

static kiln_status make_keys(kiln_program_desc *desc, kiln_error *error)
{
    const kiln_status status = try_keys(desc, error);
    if (status != KILN_E_UNSUPPORTED) {
        return status;
    }
    kiln_key_release(&desc->key);
    desc->uncached = desc->device->identity ? KILN_UNCACHED_INPUTS : KILN_UNCACHED_DEVICE;
    memcpy(desc->uncached_text, error->text, sizeof desc->uncached_text);
    return KILN_OK;
}

static bool is_equal(const kiln_key *key, const kiln_key *again)
{
    return key && again ? kiln_key_equals(key, again) : key == again;
}

kiln_status kilni_desc_check(const kiln_program_desc *desc, bool with_revision)
{
    kiln_key *key = NULL, *revisions = NULL;
    /* The backend's function describe might require an error structure. */
    kiln_error ignored = {.struct_size = sizeof ignored};
    kiln_status status = kilni_desc_make_key(desc, &key, &ignored);
    if (status == KILN_OK && !is_equal(desc->key, key)) {
        status = KILN_E_UNSUPPORTED;
    }
    uint64_t last = 0;
    if (status == KILN_OK && with_revision) {
        status = make_revisions(desc, &revisions, &last, &ignored);
        if (status == KILN_OK && !is_equal(desc->revisions, revisions)) {
            status = KILN_E_UNSUPPORTED;
        }
    }
    kiln_key_release(&key);
    kiln_key_release(&revisions);
    return status;
}

/* ---- creation and end ---- */

static bool is_usable(const kiln_program_context *context, const kiln_program_desc_params *params)
{
    const bool has_code = params->form == KILN_SOURCE_TEXT || params->form == KILN_SOURCE_IL;
    const bool is_link = params->linked_count > 0;
    if (is_link) {
        return params->linked && params->form == 0 && params->code.size == 0 &&
               params->constant_count == 0 && params->origin <= KILN_ORIGIN_SOURCE &&
               params->device < context->device_count;
    }
    return has_code && (params->code.data || params->code.size == 0) &&
           (params->constants || params->constant_count == 0) &&
           params->origin <= KILN_ORIGIN_SOURCE && params->device < context->device_count;
}

static uint32_t origin_of(const kiln_program_desc_params *params)
{
    if (params->origin != KILN_ORIGIN_OF_FORM) {
        return params->origin;
    }
    return params->form == KILN_SOURCE_IL ? KILN_ORIGIN_IMAGE : KILN_ORIGIN_SOURCE;
}

/* @error  never NULL; its text stays empty if the failure has no message */
static kiln_status fill(kiln_program_desc *desc, const kiln_program_desc_params *params,
                        kiln_error *error)
{
    kiln_status status = copy_code(desc, params);
    if (status == KILN_OK) {
        status = copy_constants(desc, params, error);
    }
    if (status == KILN_OK) {
        status = hold_linked(desc, params, error);
    }
    if (status == KILN_OK) {
        status = combine_options(desc, params);
    }
    return status == KILN_OK ? make_keys(desc, error) : status;
}

kiln_status kiln_program_desc_new(kiln_program_context *context,
                                  const kiln_program_desc_params *params,
                                  kiln_program_desc **ret_desc, kiln_error *error)
{
    kiln_program_desc_params known;
    if (!context || !params || kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK ||
        !ret_desc || !is_usable(context, &known)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "a description needs a context, one of its devices, and code or "
                               "programs to link");
    }
    kiln_program_desc *desc = calloc(1, sizeof *desc);
    if (!desc) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "%s",
                               kiln_status_text(KILN_E_NO_MEMORY));
    }
    pthread_mutex_init(&desc->lock, NULL);
    atomic_init(&desc->references, 1);
    desc->context = kilni_program_context_retain(context);
    desc->ops = context->ops;
    desc->device_index = known.device;
    desc->device = &context->devices[context->devices[known.device].shares_with];
    desc->device_handle = desc->device->handle;
    desc->image = known.image;
    desc->origin = origin_of(&known);
    desc->source.struct_size = sizeof desc->source;
    kiln_error own = {.struct_size = sizeof own};
    const kiln_status status = fill(desc, &known, &own);
    if (status != KILN_OK) {
        kiln_program_desc_release(&desc);
        return kilni_error_set(error, status, own.system_error, "%s",
                               own.text[0] ? own.text : kiln_status_text(status));
    }
    *ret_desc = desc;
    return KILN_OK;
}

kiln_program_desc *kiln_program_desc_retain(const kiln_program_desc *desc)
{
    kiln_program_desc *held = (kiln_program_desc *)(uintptr_t)desc;
    if (held) {
        atomic_fetch_add_explicit(&held->references, 1, memory_order_relaxed);
    }
    return held;
}

static void destroy(kiln_program_desc *desc)
{
    for (size_t i = 0; i < desc->linked_count; i++) {
        kiln_program_desc_release(&desc->linked[i]);
    }
    free(desc->linked);
    for (size_t i = 0; i < desc->source.constant_count; i++) {
        free((void *)(uintptr_t)desc->constants[i].value.data);
    }
    free(desc->constants);
    free((void *)(uintptr_t)desc->source.code.data);
    free((void *)(uintptr_t)desc->source.options);
    free((void *)(uintptr_t)desc->source.name);
    free(desc->compile_options);
    free(desc->link_options);
    kiln_key_release(&desc->key);
    kiln_key_release(&desc->revisions);
    kiln_key_release(&desc->memory_key);
    kiln_key_release(&desc->blob_key);
    kilni_program_context_release(desc->context);
    pthread_mutex_destroy(&desc->lock);
    free(desc);
}

void kiln_program_desc_release(kiln_program_desc **desc)
{
    if (!desc || !*desc) {
        return;
    }
    kiln_program_desc *held = *desc;
    *desc = NULL;
    if (atomic_fetch_sub_explicit(&held->references, 1, memory_order_acq_rel) == 1) {
        destroy(held);
    }
}

const kiln_key *kiln_program_desc_key(const kiln_program_desc *desc)
{
    return desc ? desc->key : NULL;
}

kiln_program_source kilni_desc_compiled_source(const kiln_program_desc *desc)
{
    kiln_program_source source = desc->source;
    source.options = desc->compile_options;
    return source;
}
