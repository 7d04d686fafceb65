/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes each call of nvJitLink, with its arguments, to the function that serves it.
 */
#include "link_calls.h"

#include <stdint.h>

#include "../shared/cancellation_guard.h"
#include "device/nvjitlink/options.h"
#include "links.h"

/* A register that contains a pointer, or an integer of a shorter type, whose upper bits are then
 * unspecified. */
static void *pointer(const void *argument)
{
    return (void *)(uintptr_t)argument; /* NOLINT: the called function might write to it */
}

static uint32_t number(const void *argument)
{
    return (uint32_t)(uintptr_t)argument;
}

typedef struct waiting_call {
    link_record *record;
    const link_input *input; /* NULL: the link is completed */
    int *result;
    bool is_served;
} waiting_call;

static void serve_waiting(void *user)
{
    waiting_call *call = user;
    call->is_served = call->input ? link_add(call->record, call->input, call->result)
                                  : link_complete(call->record, call->result);
}

/* If this thread were cancelled during the call, the processes that wait for its result would wait
 * needlessly. */
static bool add_or_complete(link_record *record, const link_input *input, int *ret_result)
{
    waiting_call call = {.record = record, .input = input, .result = ret_result};
    run_without_cancellation(serve_waiting, &call);
    return call.is_served;
}

static bool serve(link_record *record, int action, const void *const *arguments, int *ret_result)
{
    switch (action) {
    case LINKER_ADD_DATA: {
        const link_input input = {.kind = (int)number(arguments[1]),
                                  .data = arguments[2],
                                  .size = (size_t)(uintptr_t)arguments[3],
                                  .name = arguments[4]};
        return add_or_complete(record, &input, ret_result);
    }
    case LINKER_ADD_FILE: {
        const link_input input = {
            .kind = (int)number(arguments[1]), .is_file = true, .name = arguments[2]};
        return add_or_complete(record, &input, ret_result);
    }
    case LINKER_COMPLETE:
        return add_or_complete(record, NULL, ret_result);
    default:
        return (action - LINKER_FIRST_OUTPUT) % 2 == 0
                   ? link_answer_size(record, linker_output(action), pointer(arguments[1]),
                                      ret_result)
                   : link_answer_get(record, linker_output(action), pointer(arguments[1]),
                                     ret_result);
    }
}

/* Passes a call to nvJitLink that the layer does not serve. A link that fails affects what is kept
 * of later ones, even if nothing would have been kept of it. */
static int pass(const linker_interface *interface, int action, const void *const *arguments)
{
    const kilni_nvjitlink_functions *real = &interface->real;
    kilni_nvjitlink_handle handle = pointer(arguments[0]);
    const int kind = (int)number(arguments[1]);
    const int result = action == LINKER_COMPLETE ? real->complete(handle)
                       : action == LINKER_ADD_FILE
                           ? real->add_file(handle, kind, arguments[2])
                           : real->add_data(handle, kind, arguments[2],
                                            (size_t)(uintptr_t)arguments[3], arguments[4]);
    if (result != KILNI_NVJITLINK_SUCCESS) {
        kilni_nvjitlink_note_failure();
    }
    return result;
}

/* An unknown function might do anything to a link. */
static void see_unknown(linker_library *library, const void *const *arguments)
{
    linker_set_opaque(library);
    for (size_t i = 0; i < NVRTC_ARGUMENT_REGISTERS; i++) {
        link_record *record = arguments[i] ? link_find(pointer(arguments[i])) : NULL;
        if (record) {
            link_give_up(record, "an unknown function of nvJitLink was called");
        }
    }
}

int link_call(linker_library *library, size_t function,
              const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result)
{
    const linker_interface *interface = NULL;
    const int action = linker_find(library, function, &interface);
    if (action == LINKER_UNKNOWN) {
        see_unknown(library, arguments);
        return 0;
    }
    if (action == LINKER_CREATE) {
        *ret_result = link_create(library, interface, pointer(arguments[0]), number(arguments[1]),
                                  arguments[2]);
        return 1;
    }
    if (action == LINKER_DESTROY) {
        *ret_result = link_destroy(interface, pointer(arguments[0]));
        return 1;
    }
    link_record *record = link_find(pointer(arguments[0]));
    if (record && !link_uses(record, interface)) {
        link_give_up(record, "functions of different releases are called");
    }
    if (record && serve(record, action, arguments, ret_result)) {
        return 1;
    }
    if (action == LINKER_ADD_DATA || action == LINKER_ADD_FILE || action == LINKER_COMPLETE) {
        *ret_result = pass(interface, action, arguments);
        return 1;
    }
    return 0;
}
