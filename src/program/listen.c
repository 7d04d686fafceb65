/* SPDX-License-Identifier: Apache-2.0
 *
 * Users' listeners on the maps of a context. The objects in the maps are internal structures. So a
 * listener gets the values that the public functions return for these objects.
 */
#include <stdlib.h>

#include "memory/notify.h"
#include "program/live_objects.h"

/* Owned by a listener of a map. */
typedef struct relay {
    kiln_program_listener_fn call;
    void *user;
} relay;

static kiln_program_event event_like(const kiln_event *event)
{
    return (kiln_program_event){
        .struct_size = sizeof(kiln_program_event), .kind = event->kind, .reason = event->reason};
}

static void relay_program(void *user, const kiln_event *event)
{
    const relay *to = user;
    const kilni_live_program *program = event->object;
    kiln_program_event relayed = event_like(event);
    if (program) {
        relayed.key = program->desc->key;
        relayed.name = program->desc->source.name;
        relayed.handle = program->handle;
        relayed.bytes = event->bytes;
    }
    to->call(to->user, &relayed);
}

static void relay_kernel(void *user, const kiln_event *event)
{
    const relay *to = user;
    const kilni_live_kernel *kernel = event->object;
    kiln_program_event relayed = event_like(event);
    if (kernel) {
        relayed.key = kernel->program->desc->key;
        relayed.name = kernel->name;
        relayed.handle = kernel->handle;
    }
    to->call(to->user, &relayed);
}

static kiln_status listen_to(kiln_cache *map, uint32_t events, kiln_listener_fn relay_event,
                             kiln_program_listener_fn listener, void *user, uint64_t *ret_id)
{
    if (!listener) {
        return KILN_E_INVALID;
    }
    relay *to = malloc(sizeof *to);
    if (!to) {
        return KILN_E_NO_MEMORY;
    }
    *to = (relay){.call = listener, .user = user};
    const kiln_status status = kilni_cache_listen_owning(map, events, relay_event, to, ret_id);
    if (status != KILN_OK) {
        free(to);
    }
    return status;
}

kiln_status kiln_program_context_listen_programs(kiln_program_context *context, uint32_t events,
                                                 kiln_program_listener_fn listener, void *user,
                                                 uint64_t *ret_id)
{
    return context ? listen_to(context->programs, events, relay_program, listener, user, ret_id)
                   : KILN_E_INVALID;
}

kiln_status kiln_program_context_listen_kernels(kiln_program_context *context, uint32_t events,
                                                kiln_program_listener_fn listener, void *user,
                                                uint64_t *ret_id)
{
    return context ? listen_to(context->kernels, events, relay_kernel, listener, user, ret_id)
                   : KILN_E_INVALID;
}

void kiln_program_context_unlisten_programs(kiln_program_context *context, uint64_t id)
{
    if (context) {
        kilni_cache_unlisten(context->programs, id, context->kernels);
    }
}

void kiln_program_context_unlisten_kernels(kiln_program_context *context, uint64_t id)
{
    if (context) {
        kilni_cache_unlisten(context->kernels, id, context->programs);
    }
}
