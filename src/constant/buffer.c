/* SPDX-License-Identifier: Apache-2.0 */
#include "constant/buffer.h"

#include <stdlib.h>

#include "base/sized_struct.h"
#include "constant/constants.h"

struct kiln_constant_buffer {
    /* All members are set before the cache gets the buffer, and do not change afterwards. */
    kiln_constant_memory memory;
    kiln_constant_fence fence; /* wait is NULL if there is no fence */
    void *data;
    size_t size;
};

static bool are_complete(const kiln_constant_memory *memory)
{
    return memory->allocate && memory->free && !memory->retain == !memory->release;
}

static void hold(kiln_constant_hold_fn function, const kiln_constant_memory *memory)
{
    if (function) {
        function(memory->engine, memory->allocator);
    }
}

/* Asks the backend for memory. If that fails, evicts constants from the cache. Then waits until
 * other threads have freed the constants that they evicted at the same time, and asks once more. It
 * asks again even if nothing was left to evict, because other threads might have freed memory
 * meanwhile. */
static void *allocate(const kiln_constant_memory *memory, size_t size, kiln_constant_cache *cache)
{
    void *data = memory->allocate(size, memory->engine, memory->allocator);
    if (data || !cache) {
        return data;
    }
    kiln_cache_evict_bytes(cache->memory, size, NULL);
    kilni_constants_settle(cache);
    return memory->allocate(size, memory->engine, memory->allocator);
}

kiln_status kiln_constant_buffer_new(const kiln_constant_memory *memory, size_t size,
                                     kiln_constant_cache *cache, kiln_constant_buffer **ret_buffer)
{
    kiln_constant_memory known;
    if (!memory || size == 0 || !ret_buffer ||
        kilni_sized_struct_copy(memory, &known, sizeof known) != KILN_OK || !are_complete(&known)) {
        return KILN_E_INVALID;
    }
    kiln_constant_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer) {
        return KILN_E_NO_MEMORY;
    }
    *buffer = (kiln_constant_buffer){.memory = known, .size = size};
    hold(known.retain, &known);
    buffer->data = allocate(&known, size, cache);
    if (!buffer->data) {
        hold(known.release, &known);
        free(buffer);
        return KILN_E_RESOURCES;
    }
    *ret_buffer = buffer;
    return KILN_OK;
}

void kiln_constant_buffer_free(kiln_constant_buffer **buffer)
{
    if (!buffer || !*buffer) {
        return;
    }
    kiln_constant_buffer *ending = *buffer;
    *buffer = NULL;
    const kiln_constant_memory *memory = &ending->memory;
    kiln_constant_buffer_wait(ending);
    memory->free(ending->data, memory->engine, memory->allocator);
    if (ending->fence.release) {
        ending->fence.release(ending->fence.event);
    }
    hold(memory->release, memory);
    free(ending);
}

void kilni_constant_buffer_destroy(void *user, void *object)
{
    (void)user;
    kiln_constant_buffer *buffer = object;
    kiln_constant_buffer_free(&buffer);
}

void kilni_constant_buffer_notify_evicted(void *user, const kiln_event *event)
{
    (void)user;
    const kiln_constant_buffer *buffer = event->object;
    if (buffer->memory.evicted) {
        buffer->memory.evicted(buffer->memory.user, buffer);
    }
}

void *kiln_constant_buffer_data(const kiln_constant_buffer *buffer)
{
    return buffer ? buffer->data : NULL;
}

size_t kiln_constant_buffer_size(const kiln_constant_buffer *buffer)
{
    return buffer ? buffer->size : 0;
}

kiln_constant_buffer *kiln_constant_buffer_of(const kiln_pin *pin)
{
    return kiln_pin_object(pin);
}

kiln_status kiln_constant_buffer_set_fence(kiln_constant_buffer *buffer,
                                           const kiln_constant_fence *fence)
{
    kiln_constant_fence known;
    if (!buffer || !fence || buffer->fence.wait ||
        kilni_sized_struct_copy(fence, &known, sizeof known) != KILN_OK || !known.wait) {
        return KILN_E_INVALID;
    }
    buffer->fence = known;
    return KILN_OK;
}

void *kiln_constant_buffer_event(const kiln_constant_buffer *buffer)
{
    return buffer ? buffer->fence.event : NULL;
}

void kiln_constant_buffer_wait(const kiln_constant_buffer *buffer)
{
    if (buffer && buffer->fence.wait) {
        buffer->fence.wait(buffer->fence.event);
    }
}
