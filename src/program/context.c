/* SPDX-License-Identifier: Apache-2.0 */
#include "program/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/sized_struct.h"
#include "memory/evict.h"
#include "memory/lifetime.h"
#include "program/device_ops.h"
#include "program/live_objects.h"

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
        status = kilni_ops_checked_status(ops, ops->identity(device->handle, builder), NULL);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &device->identity);
    }
    kiln_key_builder_free(&builder);
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

/* Returns the index of the first device that shares its programs with the device at @index. */
static size_t find_shared(const kiln_program_context *context, size_t index)
{
    const kiln_device_ops *ops = context->ops;
    for (size_t i = 0; KILNI_OPS_HAVE(ops, interchangeable) && i < index; i++) {
        const bool is_first = context->devices[i].shares_with == i;
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
        device->shares_with = find_shared(context, i);
        if (device->shares_with != i) {
            device->is_shared = true;
            context->devices[device->shares_with].is_shared = true;
        } else {
            context->has_distinct_devices = i > 0;
            status = identify(context->ops, device);
        }
        context->device_count++;
    }
    return status;
}

/* ---- maps ---- */

static void on_kernel_event(void *user, const kiln_event *event)
{
    (void)user;
    const kilni_live_kernel *kernel = event->object;
    kilni_live_kernel_set_kept((kilni_live_kernel *)(uintptr_t)kernel,
                               event->kind == KILN_EVENT_INSERTED);
}

/* Counts programs that enter the map, and removes the kernels of a program that leaves it. */
static void on_program_event(void *user, const kiln_event *event)
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
        .is_busy = kilni_live_program_is_busy,
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
    const uint32_t events = KILN_EVENT_INSERTED | KILN_EVENT_EVICTED;
    uint64_t id; /* not used: the listeners exist as long as their maps */
    status = kiln_cache_listen(context->kernels, events, on_kernel_event, context, &id);
    if (status != KILN_OK) {
        return status;
    }
    return kiln_cache_listen(context->programs, events, on_program_event, context, &id);
}

/* ---- creation and release ---- */

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

static bool are_usable(const kiln_program_context_params *params)
{
    return params->ops && kilni_ops_are_usable(params->ops) && params->devices &&
           params->device_count > 0 && params->rules <= KILN_RULES_IMAGES;
}

static kiln_status fill(kiln_program_context *context, const kiln_program_context_params *params)
{
    kiln_status status = make_maps(context, params);
    if (status == KILN_OK) {
        status = copy_texts(context, params);
    }
    if (status == KILN_OK) {
        status = kilni_writer_new(params->store, QUEUE_BYTES, &context->own.writer);
    }
    if (status == KILN_OK) {
        status = add_devices(context, params->devices, params->device_count);
    }
    if (status == KILN_OK && params->store_source && !params->store) {
        context->source = params->store_source;
        context->source->enter(context->source->user);
    }
    return status;
}

kiln_status kiln_program_context_new(const kiln_program_context_params *params,
                                     kiln_program_context **ret_context)
{
    kiln_program_context_params known;
    if (kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK || !ret_context ||
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
    context->own.store = known.store;
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

/* Adds the hits that were found without a request to the store's counters. */
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

/* Empties and disables a map. The disabled map still exists until the last reference to the context
 * is released. */
static void end_map(kiln_cache *map)
{
    if (map) {
        kiln_cache *ending = kilni_cache_retain(map);
        kiln_cache_free(&ending);
    }
}

void kiln_program_context_free(kiln_program_context **context)
{
    if (!context || !*context) {
        return;
    }
    kiln_program_context *ending = *context;
    *context = NULL;
    if (ending->own.writer) {
        count_hits(ending);
    }
    if (ending->source) {
        ending->source->leave(ending->source->user);
        ending->source = NULL;
    }
    /* Kernels are removed first, as in kiln_program_context_clear. */
    end_map(ending->kernels);
    end_map(ending->programs);
    kilni_writer_free(&ending->own.writer, DRAIN_NS);
    ending->own.store = NULL;
    kilni_program_context_release(ending);
}

/* ---- use ---- */

kiln_status kiln_program_context_drain(kiln_program_context *context, uint64_t timeout_ns)
{
    if (!context) {
        return KILN_E_INVALID;
    }
    count_hits(context);
    kilni_held_store *held = kilni_program_hold_store(context, false);
    const kiln_status status = kilni_writer_drain(held->writer, timeout_ns);
    kilni_program_release_store(context, held);
    return status;
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
        /* Kernels are removed first. The second call removes programs, and also the kernels of each
         * program. Only a few kernels are left by then. */
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
    if (!context || !ret_stats || !kilni_sized_struct_is_valid(ret_stats)) {
        return KILN_E_INVALID;
    }
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    const kiln_status status = kiln_cache_get_stats(context->programs, &stats);
    if (status == KILN_OK) {
        /* The map does not count programs that only kernels keep. */
        stats.lingering_entries +=
            atomic_load_explicit(&context->left_programs, memory_order_relaxed);
        stats.lingering_bytes += atomic_load_explicit(&context->left_bytes, memory_order_relaxed);
        kilni_sized_struct_copy_out(ret_stats, &stats, sizeof stats);
    }
    return status;
}

kiln_status kiln_program_context_get_kernel_stats(kiln_program_context *context,
                                                  kiln_cache_stats *ret_stats)
{
    return context ? kiln_cache_get_stats(context->kernels, ret_stats) : KILN_E_INVALID;
}
