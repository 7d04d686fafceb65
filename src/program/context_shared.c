/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions on a context that all files of this folder call.
 */
#include <stdlib.h>

#include "memory/lifetime.h"
#include "memory/read_section.h"
#include "program/context.h"

/* ---- references ---- */

static void free_texts(kiln_program_context *context)
{
    const char *const texts[] = {context->replaced.compile, context->replaced.link,
                                 context->appended.compile, context->appended.link};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        free((void *)(uintptr_t)texts[i]);
    }
    free(context->library);
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

/* ---- the store ---- */

kilni_held_store *kilni_program_hold_store(kiln_program_context *context, bool may_open)
{
    const kiln_store_source *source = context->source;
    kilni_held_store *held = source ? source->hold(source->user, may_open) : NULL;
    return held ? held : &context->own;
}

void kilni_program_release_store(kiln_program_context *context, kilni_held_store *held)
{
    if (held != &context->own) {
        context->source->release(held);
    }
}

void kilni_program_count(kiln_program_context *context, const kiln_stats *more)
{
    kilni_held_store *held = kilni_program_hold_store(context, false);
    kilni_writer_count(held->writer, more);
    kilni_program_release_store(context, held);
}

void kilni_program_context_count_left(kiln_program_context *context, int change, uint64_t bytes)
{
    const uint64_t sign = change > 0 ? 1 : UINT64_MAX;
    atomic_fetch_add_explicit(&context->left_programs, sign, memory_order_relaxed);
    atomic_fetch_add_explicit(&context->left_bytes, sign * bytes, memory_order_relaxed);
}

/* ---- room ---- */

/* Evicts kernels before programs, because a program can be freed only after all of its kernels. If
 * other threads have evicted objects, waits until those objects have been freed. */
void kilni_program_make_room(kiln_program_context *context)
{
    kiln_cache *const maps[] = {context->kernels, context->programs};
    for (size_t i = 0; i < 2; i++) {
        kiln_cache_evict_bytes(maps[i], KILN_UNLIMITED, NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        kilni_departures_wait(maps[i]);
    }
}
