/* SPDX-License-Identifier: Apache-2.0 */
#include "program/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "face/environment/config.h"
#include "face/onednn/persistent.h"
#include "memory/memory.h"
#include "program/live.h"
#include "program/ops.h"

#define DEFAULT_MAX_PROGRAMS 1024u
#define DEFAULT_MAX_BYTES (UINT64_C(256) << 20)
#define DEFAULT_MAX_KERNELS 65536u
#define QUEUE_BYTES (UINT64_C(64) << 20)
#define DRAIN_NS UINT64_C(60000000000)

/* ---- devices ---- */

static kiln_status identify(const kiln_device_ops *ops, kilni_program_device *device)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kilni_ops_answer(ops, ops->identity(device->handle, builder), NULL);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &device->identity);
    }
    kiln_key_builder_free(&builder);
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

/* The first device that has the same programs as the one at @index. */
static size_t find_served(const kiln_program_context *context, size_t index)
{
    const kiln_device_ops *ops = context->ops;
    for (size_t i = 0; KILNI_OPS_HAVE(ops, interchangeable) && i < index; i++) {
        const bool is_first = context->devices[i].serves == i;
        if (is_first &&
            ops->interchangeable(context->devices[i].handle, context->devices[index].handle)) {
            return i;
        }
    }
    return index;
}

static kiln_status add_devices(kiln_program_context *context, void *const *handles, size_t count)
{
    context->devices = calloc(count, sizeof *context->devices);
    if (!context->devices) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        kilni_program_device *device = &context->devices[i];
        device->handle = handles[i];
        device->serves = find_served(context, i);
        if (device->serves != i) {
            device->is_shared = true;
            context->devices[device->serves].is_shared = true;
        } else {
            context->tells_devices_apart = i > 0;
            status = identify(context->ops, device);
        }
        context->device_count++;
    }
    return status;
}

/* ---- maps ---- */

/* A program that leaves takes its kernels along. */
static void follow_programs(void *user, const kiln_event *event)
{
    kiln_program_context *context = user;
    if (event->kind == KILN_EVENT_INSERTED) {
        atomic_fetch_add_explicit(&context->insertions, KILNI_INSERTION, memory_order_relaxed);
    } else {
        const kilni_live_program *program = event->object;
        kiln_cache_remove_group(context->kernels, program->number);
    }
}

static kiln_status make_maps(kiln_program_context *context,
                             const kiln_program_context_params *params)
{
    const kiln_cache_params programs = {
        .struct_size = sizeof programs,
        .max_bytes = params->max_bytes ? params->max_bytes : DEFAULT_MAX_BYTES,
        .max_entries = params->max_programs ? params->max_programs : DEFAULT_MAX_PROGRAMS,
        .policy = params->policy,
        .flags = params->flags,
        .destroy = kilni_live_program_destroy,
    };
    kiln_status status = kiln_cache_new(&programs, &context->programs);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_cache_params kernels = {
        .struct_size = sizeof kernels,
        .max_bytes = KILN_UNLIMITED,
        .max_entries = params->max_kernels ? params->max_kernels : DEFAULT_MAX_KERNELS,
        .policy = KILN_POLICY_LRU,
        .destroy = kilni_live_kernel_destroy,
    };
    status = kiln_cache_new(&kernels, &context->kernels);
    if (status != KILN_OK) {
        return status;
    }
    return kiln_cache_listen(context->programs, KILN_EVENT_INSERTED | KILN_EVENT_EVICTED,
                             follow_programs, context, &context->listener);
}

/* ---- life ---- */

static kiln_status copy_text(const char *text, const char **ret_copy)
{
    *ret_copy = text ? strdup(text) : NULL;
    return text && !*ret_copy ? KILN_E_NO_MEMORY : KILN_OK;
}

static kiln_status copy_texts(kiln_program_context *context,
                              const kiln_program_context_params *params)
{
    const char *library = NULL;
    kiln_status status = copy_text(params->library, &library);
    context->library = (char *)(uintptr_t)library;
    const kiln_build_options *const from[] = {&params->replaced, &params->appended};
    kiln_build_options *const to[] = {&context->replaced, &context->appended};
    for (size_t i = 0; i < 2 && status == KILN_OK; i++) {
        status = copy_text(from[i]->compile, &to[i]->compile);
        if (status == KILN_OK) {
            status = copy_text(from[i]->link, &to[i]->link);
        }
    }
    return status;
}

static void free_texts(kiln_program_context *context)
{
    const char *const texts[] = {context->replaced.compile, context->replaced.link,
                                 context->appended.compile, context->appended.link};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        free((void *)(uintptr_t)texts[i]);
    }
    free(context->library);
}

static bool are_usable(const kiln_program_context_params *params)
{
    return params->ops && kilni_ops_are_usable(params->ops) && params->devices &&
           params->device_count > 0 && params->rules <= KILN_RULES_SYCL &&
           (!params->engine_kind || kilni_engine_kind_is_known(params->engine_kind));
}

static kiln_status fill(kiln_program_context *context, const kiln_program_context_params *params)
{
    kiln_status status = make_maps(context, params);
    if (status == KILN_OK) {
        status = copy_texts(context, params);
    }
    if (status == KILN_OK) {
        status = kilni_writer_new(params->store, QUEUE_BYTES, &context->writer);
    }
    if (status == KILN_OK) {
        status = add_devices(context, params->devices, params->device_count);
    }
    if (status == KILN_OK && params->engine_kind && !params->store) {
        context->governed_kind = params->engine_kind;
        kilni_persistent_enter();
    }
    return status;
}

kiln_status kiln_program_context_new(const kiln_program_context_params *params,
                                     kiln_program_context **ret_context)
{
    kiln_program_context_params known;
    if (kilni_params_copy(params, &known, sizeof known) != KILN_OK || !ret_context ||
        !are_usable(&known)) {
        return KILN_E_INVALID;
    }
    kiln_program_context *context = calloc(1, sizeof *context);
    if (!context) {
        return KILN_E_NO_MEMORY;
    }
    atomic_init(&context->references, 1);
    context->ops = known.ops;
    context->rules = known.rules;
    context->store = known.store;
    context->min_stored_bytes = known.min_stored_bytes;
    context->max_stored_bytes = known.max_stored_bytes ? known.max_stored_bytes : KILN_UNLIMITED;
    const kiln_status status = fill(context, &known);
    if (status != KILN_OK) {
        kiln_program_context_free(&context);
        return status;
    }
    *ret_context = context;
    return KILN_OK;
}

kilni_request_context kilni_program_request_context(kiln_program_context *context,
                                                    kilni_governed_store **ret_held)
{
    kilni_request_context request = {
        .memory = context->programs, .store = context->store, .writer = context->writer};
    kilni_governed_store *held =
        context->governed_kind ? kilni_persistent_hold(context->governed_kind) : NULL;
    if (held) {
        request.store = kilni_governed_store_of(held);
        request.writer = kilni_governed_writer_of(held);
    }
    *ret_held = held;
    return request;
}

/* The store that governs, where it is open: none is made for what there is to count or to drain. */
static kilni_governed_store *hold_open(const kiln_program_context *context)
{
    return context->governed_kind ? kilni_persistent_hold_open(context->governed_kind) : NULL;
}

void kilni_program_count(const kiln_program_context *context, const kiln_stats *more)
{
    kilni_governed_store *held = hold_open(context);
    kilni_writer_count(held ? kilni_governed_writer_of(held) : context->writer, more);
    kilni_governed_release(&held);
}

/* Hits that took the short way, and that nobody has counted yet: where requests are counted. */
static void count_hits(kiln_program_context *context)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    kiln_cache_get_stats(context->programs, &stats);
    uint64_t counted = atomic_load_explicit(&context->counted_hits, memory_order_relaxed);
    while (counted < stats.hits &&
           !atomic_compare_exchange_weak_explicit(&context->counted_hits, &counted, stats.hits,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    if (counted < stats.hits) {
        const kiln_stats more = {.hits_memory = stats.hits - counted};
        kilni_program_count(context, &more);
    }
}

/* Empties a map and turns it off; what is left of it is there for those who ask. */
static void end_map(kiln_cache *map)
{
    if (map) {
        kiln_cache *ending = kilni_cache_retain(map);
        kiln_cache_free(&ending);
    }
}

kiln_program_context *kilni_program_context_retain(kiln_program_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void kilni_program_context_release(kiln_program_context *context)
{
    if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    kiln_cache *const maps[] = {context->programs, context->kernels};
    for (size_t i = 0; i < 2; i++) {
        if (maps[i]) {
            kilni_cache_release(maps[i]);
        }
    }
    for (size_t i = 0; i < context->device_count; i++) {
        kiln_key_release(&context->devices[i].identity);
    }
    free(context->devices);
    free_texts(context);
    free(context);
}

void kiln_program_context_free(kiln_program_context **context)
{
    if (!context || !*context) {
        return;
    }
    kiln_program_context *ending = *context;
    *context = NULL;
    if (ending->writer) {
        count_hits(ending);
    }
    if (ending->governed_kind) {
        kilni_persistent_leave();
        ending->governed_kind = 0;
    }
    /* In this order, as a clear. */
    end_map(ending->kernels);
    end_map(ending->programs);
    kilni_writer_free(&ending->writer, DRAIN_NS);
    ending->store = NULL;
    kilni_program_context_release(ending);
}

/* ---- use ---- */

kiln_status kiln_program_context_drain(kiln_program_context *context, uint64_t timeout_ns)
{
    if (!context) {
        return KILN_E_INVALID;
    }
    count_hits(context);
    kiln_status status = kilni_writer_drain(context->writer, timeout_ns);
    if (status == KILN_OK && context->governed_kind) {
        kilni_governed_store *held = hold_open(context);
        status = held ? kilni_writer_drain(kilni_governed_writer_of(held), timeout_ns) : KILN_OK;
        kilni_governed_release(&held);
    }
    return status;
}

/* Kernels whose program is held don't go with it. */
void kilni_program_make_room(kiln_program_context *context)
{
    kiln_cache_evict_bytes(context->programs, KILN_UNLIMITED, NULL);
    kiln_cache_evict_bytes(context->kernels, KILN_UNLIMITED, NULL);
}

kiln_status kiln_program_context_set_capacity(kiln_program_context *context, uint64_t max_bytes,
                                              uint64_t max_entries)
{
    return context ? kiln_cache_set_capacity(context->programs, max_bytes, max_entries)
                   : KILN_E_INVALID;
}

kiln_status kiln_program_context_get_capacity(kiln_program_context *context,
                                              uint64_t *ret_max_bytes, uint64_t *ret_max_entries)
{
    if (!context) {
        return KILN_E_INVALID;
    }
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    if (!kilni_cache_is_off(context->programs)) {
        kiln_cache_get_stats(context->programs, &stats);
    }
    if (ret_max_bytes) {
        *ret_max_bytes = stats.max_bytes;
    }
    if (ret_max_entries) {
        *ret_max_entries = stats.max_entries;
    }
    return KILN_OK;
}

void kiln_program_context_clear(kiln_program_context *context)
{
    if (context) {
        /* In this order the second has few kernels left to take along. */
        kiln_cache_clear(context->kernels);
        kiln_cache_clear(context->programs);
    }
}

size_t kiln_program_context_remove_image(kiln_program_context *context, uint64_t image)
{
    return context && image ? kiln_cache_remove_group(context->programs, image) : 0;
}

kiln_status kiln_program_context_get_program_stats(kiln_program_context *context,
                                                   kiln_cache_stats *ret_stats)
{
    return context ? kiln_cache_get_stats(context->programs, ret_stats) : KILN_E_INVALID;
}

kiln_status kiln_program_context_get_kernel_stats(kiln_program_context *context,
                                                  kiln_cache_stats *ret_stats)
{
    return context ? kiln_cache_get_stats(context->kernels, ret_stats) : KILN_E_INVALID;
}

/* ---- what the environment decides ---- */

kiln_status kiln_config_get_programs(const kiln_config *config, kiln_program_context_params *params)
{
    if (!config || !params) {
        return KILN_E_INVALID;
    }
    kiln_program_context_params filled;
    if (kilni_params_copy(params, &filled, sizeof filled) != KILN_OK) {
        return KILN_E_INVALID;
    }
    filled.max_programs = config->memory.max_entries;
    filled.max_bytes = config->memory.max_bytes;
    filled.policy = config->memory.policy;
    filled.flags = config->memory.flags;
    filled.min_stored_bytes = config->min_image_bytes;
    filled.max_stored_bytes = config->max_image_bytes;
    filled.replaced = (kiln_build_options){config->compile_options, config->link_options};
    filled.appended = (kiln_build_options){config->appended_compile, config->appended_link};
    if (config->profile == KILN_PROFILE_SYCL) {
        filled.rules = KILN_RULES_SYCL;
    }
    kilni_params_hand_out(params, &filled, sizeof filled);
    return KILN_OK;
}
