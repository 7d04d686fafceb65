/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/obtain.h"

/* The policy counts at most this many uses of an object, so further uses of a kernel need not be
 * noted. */
#define MOST_USES UINT64_C(15)
_Static_assert(MOST_USES < KILNI_INSERTION, "the number of noted uses is in the low bits");

struct kiln_kernel_desc {
    kiln_key *key;                 /* NULL: its program is in no map */
    kiln_program_context *context; /* the program's */
    kiln_program_desc *program;    /* one reference */
    _Atomic size_t references; /* increments are relaxed; decrements acquire and release, so that
                                  the decrement to 0 sees all earlier changes */
    char name[];
};

static kilni_live_kernel *live_of(const kiln_kernel *kernel)
{
    return kiln_pin_object((const kiln_pin *)kernel);
}

/* ---- descriptions ---- */

static kiln_status add_program(kiln_key_builder *builder, const kiln_program_desc *program)
{
    size_t size;
    const void *encoding = kiln_key_encoding(program->memory_key, &size);
    return kiln_key_builder_add(builder, "program", encoding, size);
}

/* Makes the key of a kernel. Its parts are the program, the name and, if the program serves several
 * devices, the device that the kernel runs on. */
static kiln_status make_key(const kiln_program_desc *program, size_t device, const char *name,
                            kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_key *whole = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_program(builder, program);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(builder, "kernel", name);
    }
    if (status == KILN_OK && program->context->devices[device].is_shared) {
        status = kiln_key_builder_add_number(builder, "device", device);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &whole);
    }
    if (status == KILN_OK) {
        status = kilni_desc_strip(whole, ret_key);
    }
    kiln_key_release(&whole);
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kiln_kernel_desc_new(const kiln_program_desc *desc, const char *name,
                                 kiln_kernel_desc **ret_desc)
{
    if (!desc || !name || !name[0] || !ret_desc) {
        return KILN_E_INVALID;
    }
    kiln_kernel_desc *made = calloc(1, sizeof *made + strlen(name) + 1);
    if (!made) {
        return KILN_E_NO_MEMORY;
    }
    atomic_init(&made->references, 1);
    strcpy(made->name, name);
    made->program = kiln_program_desc_retain(desc);
    made->context = desc->context;
    if (kilni_caching_of_desc(desc) == KILN_UNCACHED_NOT) {
        const kiln_status status = make_key(desc, desc->device_index, name, &made->key);
        if (status != KILN_OK) {
            kiln_kernel_desc_release(&made);
            return status;
        }
    }
    *ret_desc = made;
    return KILN_OK;
}

kiln_kernel_desc *kiln_kernel_desc_retain(const kiln_kernel_desc *desc)
{
    kiln_kernel_desc *held = (kiln_kernel_desc *)(uintptr_t)desc;
    if (held) {
        atomic_fetch_add_explicit(&held->references, 1, memory_order_relaxed);
    }
    return held;
}

void kiln_kernel_desc_release(kiln_kernel_desc **desc)
{
    if (!desc || !*desc) {
        return;
    }
    kiln_kernel_desc *held = *desc;
    *desc = NULL;
    if (atomic_fetch_sub_explicit(&held->references, 1, memory_order_acq_rel) == 1) {
        kiln_key_release(&held->key);
        kiln_program_desc_release(&held->program);
        free(held);
    }
}

/* ---- uses ---- */

__attribute__((noinline)) static void note_use(const kiln_program_desc *program)
{
    kiln_section section;
    kiln_section_enter(program->context->programs, &section);
    kiln_cache_peek(&section, program->memory_key);
    kiln_section_leave(&section);
}

/* The policy must know that a use of a kernel is also a use of its program. The recency of programs
 * changes only when a program enters the map, and their frequency is bounded. So a use is noted in
 * only two cases: a program has entered the map since a use was last noted, or fewer than MOST_USES
 * uses have been noted. */
static inline void note_program_use(const kiln_kernel_desc *desc, kilni_live_kernel *kernel)
{
    const uint64_t now = atomic_load_explicit(&desc->context->insertions, memory_order_relaxed);
    const uint64_t noted = atomic_load_explicit(&kernel->noted, memory_order_relaxed);
    if (noted != (now | MOST_USES)) {
        const uint64_t uses = noted & MOST_USES;
        atomic_store_explicit(&kernel->noted, now | (uses < MOST_USES ? uses + 1 : uses),
                              memory_order_relaxed);
        note_use(desc->program);
    }
}

/* ---- making ---- */

/* Returns true if the map contains this same program, and not only a program with an equal key. */
static bool is_in_map(const kilni_live_program *program)
{
    const kiln_program_desc *desc = program->desc;
    if (!desc || !desc->memory_key) {
        return false;
    }
    kiln_section section;
    kiln_section_enter(desc->context->programs, &section);
    const bool is_there = kiln_cache_peek(&section, desc->memory_key) == program;
    kiln_section_leave(&section);
    return is_there;
}

static void free_place(void *place)
{
    kilni_object_free(place);
}

/* Makes a kernel for this caller alone. */
static kiln_status make_alone(kilni_live_program *program, void *device, const char *name,
                              kiln_kernel **ret_kernel)
{
    kilni_object *place = NULL;
    kilni_live_kernel *kernel = NULL;
    kiln_status status = kilni_object_new(program->context->kernels, NULL, 0, &place);
    if (status != KILN_OK) {
        return status;
    }
    pthread_cleanup_push(free_place, place);
    status = kilni_live_kernel_new(program, device, name, &kernel);
    pthread_cleanup_pop(0);
    if (status != KILN_OK) {
        kilni_object_free(place);
        return status;
    }
    kilni_object_fill_alone(place, kernel, sizeof *kernel, 0);
    *ret_kernel = (kiln_kernel *)place;
    return KILN_OK;
}

/* Makes a kernel that all callers share. If that fails, each waiter tries again to make the kernel,
 * and so learns the reason from the device. Either the program has no such kernel, or the device
 * has no room. */
static kiln_status make_shared(kiln_ticket *ticket, kilni_live_program *program, void *device,
                               const char *name, kiln_kernel **ret_kernel)
{
    kilni_live_kernel *kernel = NULL;
    kiln_status status;
    pthread_cleanup_push(kilni_pass_ticket_on, &ticket);
    status = kilni_live_kernel_new(program, device, name, &kernel);
    pthread_cleanup_pop(0);
    if (status != KILN_OK) {
        kiln_ticket_abandon(&ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
        return status;
    }
    kiln_pin *pin = NULL;
    kiln_ticket_fulfil(&ticket, kernel, sizeof *kernel, 0, &pin);
    kilni_live_kernel_set_place(kernel, pin);
    /* A thread that removes a program from the map also removes the program's kernels. If a thread
     * did so after the caller's look-up and before this thread got the ticket, it did not find this
     * kernel. If a thread removes the program after this check, it finds the kernel. */
    if (!is_in_map(program)) {
        kiln_cache_remove_group(program->context->kernels, program->number);
    }
    *ret_kernel = (kiln_kernel *)pin;
    return KILN_OK;
}

static kiln_status find_or_make(kilni_live_program *program, const kiln_key *key, void *device,
                                const char *name, kiln_kernel **ret_kernel, kiln_error *error)
{
    const kiln_reserve_params params = {.struct_size = sizeof params, .group = program->number};
    kiln_reservation reservation;
    const kiln_status status =
        kiln_cache_reserve(program->context->kernels, key, &params, &reservation, error);
    if (status != KILN_OK) {
        return status;
    }
    if (reservation.outcome == KILN_OWNER) {
        return make_shared(reservation.ticket, program, device, name, ret_kernel);
    }
    kiln_kernel *found = (kiln_kernel *)reservation.pin;
    if (found && live_of(found)->program == program) {
        *ret_kernel = found;
        return KILN_OK;
    }
    /* Either the kernel is not kept, or it belongs to a different program with the same
     * description, which has just been removed from the map. */
    kiln_kernel_release(&found);
    return make_alone(program, device, name, ret_kernel);
}

static void release_key(void *key)
{
    kiln_key_release(key);
}

/* @key  NULL: this function makes the key, if the kernel has one */
static kiln_status get_of_program(kilni_live_program *program, const kiln_key *key, size_t device,
                                  const char *name, kiln_kernel **ret_kernel, kiln_error *error)
{
    kiln_key *own = NULL;
    void *handle = program->context->devices[device].handle;
    kiln_status status = KILN_OK;
    pthread_cleanup_push(release_key, &own);
    if (!is_in_map(program)) {
        status = make_alone(program, handle, name, ret_kernel);
    } else {
        if (!key) {
            status = make_key(program->desc, device, name, &own);
        }
        if (status == KILN_OK) {
            status = find_or_make(program, key ? key : own, handle, name, ret_kernel, error);
        }
    }
    pthread_cleanup_pop(1);
    if (status == KILN_MISS) {
        kilni_error_set(error, status, 0, "the program has no kernel \"%s\"", name);
    } else if (status != KILN_OK) {
        kilni_error_set(error, status, 0, "kernel \"%s\": %s", name, kiln_status_text(status));
    }
    return status;
}

/* ---- look-up ---- */

static void release_program(void *program)
{
    kiln_program_release(program);
}

__attribute__((noinline)) static kiln_status get_absent(const kiln_kernel_desc *desc,
                                                        kiln_kernel **ret_kernel, kiln_error *error)
{
    kiln_program *program = NULL;
    kiln_status status = kiln_program_get(desc->program, &program, NULL, error);
    pthread_cleanup_push(release_program, &program);
    if (status == KILN_OK) {
        status = get_of_program(kilni_program_live(program), desc->key, desc->program->device_index,
                                desc->name, ret_kernel, error);
    }
    pthread_cleanup_pop(1);
    return status;
}

kiln_status kiln_kernel_get(const kiln_kernel_desc *desc, kiln_kernel **ret_kernel,
                            kiln_error *error)
{
    if (!desc || !ret_kernel) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the description or the result pointer is NULL");
    }
    kiln_pin *pin = desc->key ? kilni_object_pin(desc->context->kernels, desc->key) : NULL;
    if (!pin) {
        return get_absent(desc, ret_kernel, error);
    }
    note_program_use(desc, kiln_pin_object(pin));
    *ret_kernel = (kiln_kernel *)pin;
    return KILN_OK;
}

kiln_status kiln_program_get_kernel(kiln_program *program, const char *name, size_t device,
                                    kiln_kernel **ret_kernel, kiln_error *error)
{
    kilni_live_program *live = program ? kilni_program_live(program) : NULL;
    if (!live || !name || !name[0] || device >= live->context->device_count || !ret_kernel ||
        live->context->devices[device].shares_with != live->shares_with) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the program, the name or the result pointer is NULL, or the device "
                               "is not the program's");
    }
    return get_of_program(live, NULL, device, name, ret_kernel, error);
}

void kiln_kernel_section_enter(kiln_program_context *context, kiln_section *ret_section)
{
    kiln_section_enter(context->kernels, ret_section);
}

void *kiln_kernel_peek(const kiln_section *section, const kiln_kernel_desc *desc)
{
    kilni_live_kernel *kernel = kiln_cache_peek(section, desc->key);
    if (!kernel) {
        return NULL;
    }
    note_program_use(desc, kernel);
    return kernel->handle;
}

/* ---- holds ---- */

void *kiln_kernel_handle(const kiln_kernel *kernel)
{
    return kernel ? live_of(kernel)->handle : NULL;
}

void *kiln_kernel_program_handle(const kiln_kernel *kernel)
{
    return kernel ? live_of(kernel)->program->handle : NULL;
}

void kiln_kernel_lock(kiln_kernel *kernel)
{
    if (kernel) {
        pthread_mutex_lock(&live_of(kernel)->lock);
    }
}

void kiln_kernel_unlock(kiln_kernel *kernel)
{
    if (kernel) {
        pthread_mutex_unlock(&live_of(kernel)->lock);
    }
}

kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel)
{
    return (kiln_kernel *)kiln_pin_retain((kiln_pin *)kernel);
}

void kiln_kernel_release(kiln_kernel **kernel)
{
    kiln_pin *pin = kernel ? (kiln_pin *)*kernel : NULL;
    if (pin) {
        *kernel = NULL;
        kiln_pin_release(&pin);
    }
}
