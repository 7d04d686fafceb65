/* SPDX-License-Identifier: Apache-2.0 */
#include "program/live_objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "memory/lifetime.h"
#include "os/clock.h"
#include "program/device_ops.h"

/* ---- creation and release ---- */

static uint64_t next_number(void)
{
    static _Atomic uint64_t last; /* relaxed: only its value matters */
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

kiln_status kilni_live_program_new(kiln_program_context *context, const kiln_program_desc *desc,
                                   kilni_live_program **ret_program)
{
    kilni_live_program *program = calloc(1, sizeof *program);
    if (!program) {
        return KILN_E_NO_MEMORY;
    }
    atomic_init(&program->references, 1);
    pthread_mutex_init(&program->lock, NULL);
    program->context = kilni_program_context_retain(context);
    program->ops = context->ops;
    program->desc = kiln_program_desc_retain(desc);
    program->device = desc ? desc->device_handle : NULL;
    program->shares_with = desc ? context->devices[desc->device_index].shares_with : 0;
    program->number = next_number();
    *ret_program = program;
    return KILN_OK;
}

kilni_live_program *kilni_live_program_retain(kilni_live_program *program)
{
    atomic_fetch_add_explicit(&program->references, 1, memory_order_relaxed);
    return program;
}

void kilni_live_program_release(kilni_live_program *program)
{
    if (atomic_fetch_sub_explicit(&program->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (program->handle) {
        program->ops->release_program(program->device, program->handle);
    }
    if (program->is_left_to_kernels) {
        kilni_program_context_count_left(program->context, -1, program->bytes);
    }
    kiln_entry_release(&program->blob);
    kiln_program_desc_release(&program->desc);
    kilni_program_context_release(program->context);
    pthread_mutex_destroy(&program->lock);
    free(program);
}

/* Returns true if only the map holds a kernel. A kernel that is in no map must have a holder,
 * because it would not exist otherwise. */
static bool is_idle_locked(const kilni_live_kernel *kernel)
{
    return kernel->is_kept && kernel->place && !kilni_object_is_pinned(kernel->place);
}

/* Kernels in the map have references to their program, so the number of references does not show
 * whether the program is in use. If another thread holds the lock, the program is assumed to be in
 * use. After a fork, this other thread might be a thread of the parent process. */
int kilni_live_program_is_busy(void *user, const void *object)
{
    (void)user;
    kilni_live_program *program = (kilni_live_program *)(uintptr_t)object;
    if (pthread_mutex_trylock(&program->lock) != 0) {
        return 1;
    }
    const kilni_live_kernel *kernel = program->kernels;
    while (kernel && is_idle_locked(kernel)) {
        kernel = kernel->next;
    }
    pthread_mutex_unlock(&program->lock);
    return kernel != NULL;
}

void kilni_live_program_destroy(void *user, void *object)
{
    (void)user;
    kilni_live_program *program = object;
    program->is_left_to_kernels = true;
    kilni_program_context_count_left(program->context, 1, program->bytes);
    kilni_live_program_release(program);
}

void kilni_live_kernel_destroy(void *user, void *object)
{
    (void)user;
    kilni_live_kernel *kernel = object;
    kilni_live_program *program = kernel->program;
    pthread_mutex_lock(&program->lock);
    *kernel->link = kernel->next;
    if (kernel->next) {
        kernel->next->link = kernel->link;
    }
    pthread_mutex_unlock(&program->lock);
    program->ops->release_kernel(kernel->device, kernel->handle);
    kilni_live_program_release(program);
    pthread_mutex_destroy(&kernel->lock);
    free(kernel);
}

/* ---- building: if the device has no room, each step is tried once more ---- */

typedef kiln_status (*step_fn)(void *device, const kiln_program_source *source, void **ret_made,
                               char **ret_log);

/* Copies the log of a step to the text of @error, and frees the log. */
static kiln_status end_step(const kilni_live_program *program, kiln_status status, const void *made,
                            char *log, kiln_error *error)
{
    if (status == KILN_OK && !made) {
        status = kilni_error_set(error, KILN_E_INVALID, 0, "%s succeeded but returned no object",
                                 program->ops->name);
    } else if (status > KILN_OK) {
        status = kilni_ops_checked_status(program->ops, status, error);
    } else if (status != KILN_OK) {
        kilni_error_set(error, status, 0, "%s", log ? log : kiln_status_text(status));
    }
    free(log);
    return status;
}

static kiln_status run_step(const kilni_live_program *program, step_fn step,
                            const kiln_program_source *source, void **ret_made, kiln_error *error)
{
    char *log = NULL;
    kiln_status status = step(program->device, source, ret_made, &log);
    if (kilni_program_is_out_of_room(status)) {
        kilni_program_make_room(program->context);
        free(log);
        log = NULL;
        status = step(program->device, source, ret_made, &log);
    }
    return end_step(program, status, *ret_made, log, error);
}

/* Compiled objects that are not linked yet. */
typedef struct linked_objects {
    const kilni_live_program *program;
    size_t count;
    void *handles[]; /* NULL: not compiled yet */
} linked_objects;

static void free_objects(void *user)
{
    linked_objects *objects = user;
    const kilni_live_program *program = objects->program;
    for (size_t i = 0; i < objects->count; i++) {
        if (objects->handles[i]) {
            program->ops->release_program(program->device, objects->handles[i]);
        }
    }
    free(objects);
}

static kiln_status link_once(kilni_live_program *program, const linked_objects *objects,
                             char **ret_log)
{
    return program->ops->link(program->device, objects->handles, objects->count,
                              program->desc->source.options, &program->handle, ret_log);
}

static kiln_status link_all(kilni_live_program *program, const linked_objects *objects,
                            kiln_error *error)
{
    char *log = NULL;
    kiln_status status = link_once(program, objects, &log);
    if (kilni_program_is_out_of_room(status)) {
        kilni_program_make_room(program->context);
        free(log);
        log = NULL;
        status = link_once(program, objects, &log);
    }
    return end_step(program, status, program->handle, log, error);
}

static kiln_status compile_all(linked_objects *objects, kiln_error *error)
{
    const kilni_live_program *program = objects->program;
    for (size_t i = 0; i < objects->count; i++) {
        const kiln_program_source source = kilni_desc_compiled_source(program->desc->linked[i]);
        const kiln_status status =
            run_step(program, program->ops->compile, &source, &objects->handles[i], error);
        if (status != KILN_OK) {
            return status;
        }
    }
    return KILN_OK;
}

static kiln_status compile_and_link(kilni_live_program *program, kiln_error *error)
{
    if (!KILNI_OPS_HAVE(program->ops, compile) || !KILNI_OPS_HAVE(program->ops, link)) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s can't link programs",
                               program->ops->name);
    }
    const size_t count = program->desc->linked_count;
    linked_objects *objects = calloc(1, sizeof *objects + count * sizeof objects->handles[0]);
    if (!objects) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "%s",
                               kiln_status_text(KILN_E_NO_MEMORY));
    }
    objects->program = program;
    objects->count = count;
    kiln_status status;
    pthread_cleanup_push(free_objects, objects);
    status = compile_all(objects, error);
    if (status == KILN_OK) {
        status = link_all(program, objects, error);
    }
    pthread_cleanup_pop(1);
    return status;
}

kiln_status kilni_live_program_build(kilni_live_program *program, kiln_error *error)
{
    const kiln_program_desc *desc = program->desc;
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status status =
        desc->linked_count > 0
            ? compile_and_link(program, error)
            : run_step(program, program->ops->build, &desc->source, &program->handle, error);
    program->build_ns = kilni_clock_ns() - start_ns;
    return status;
}

/* Checks that the description still matches the present inputs. If an entry records its own inputs,
 * load has compared them with the present inputs. But the description might have been made from
 * older inputs. */
static kiln_status check_key(const kilni_live_program *program)
{
    if (!KILNI_OPS_HAVE(program->ops, revision)) {
        return KILN_OK;
    }
    /* The op load does not compare the revisions of linked sources. */
    const kiln_status status = kilni_desc_check(program->desc, program->desc->linked_count > 0);
    return status == KILN_E_UNSUPPORTED ? KILN_MISS : status;
}

static kiln_status load_once(kilni_live_program *program, const kiln_entry *entry)
{
    return program->ops->load(program->device, &program->desc->source, entry, &program->handle);
}

kiln_status kilni_live_program_load(kilni_live_program *program, const kiln_entry *entry)
{
    const kiln_device_ops *ops = program->ops;
    kiln_status status = load_once(program, entry);
    if (kilni_program_is_out_of_room(status)) {
        kilni_program_make_room(program->context);
        status = load_once(program, entry);
    }
    if (status != KILN_OK) {
        return status == KILN_MISS ? status : kilni_ops_checked_status(ops, status, NULL);
    }
    if (!program->handle) {
        return KILN_E_INVALID;
    }
    status = check_key(program);
    if (status != KILN_OK) {
        ops->release_program(program->device, program->handle);
        program->handle = NULL;
        return status;
    }
    program->build_ns = kiln_entry_provenance(entry).build_ns;
    program->matches_key = true;
    return KILN_OK;
}

uint64_t kilni_live_program_bytes(kilni_live_program *program)
{
    uint64_t bytes = 0;
    if (KILNI_OPS_HAVE(program->ops, program_bytes)) {
        bytes = program->ops->program_bytes(program->device, program->handle);
    }
    if (bytes == 0) {
        bytes = program->desc ? program->desc->code_bytes : 0;
    }
    program->bytes = program->blob ? bytes + kiln_entry_encoding(program->blob).size : bytes;
    return program->bytes;
}

kiln_status kilni_live_program_capture(const kilni_live_program *program, const kiln_key *key,
                                       uint32_t kind, const kiln_entry *replaces,
                                       kiln_entry **ret_entry)
{
    const char *name = program->desc->source.name;
    kiln_capture taken = {.replaces = replaces};
    kiln_status status = kilni_ops_checked_status(
        program->ops, program->ops->capture(program->device, program->handle, &taken), NULL);
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = kind,
            .provenance = {.struct_size = sizeof params.provenance,
                           .device = taken.device ? taken.device : program->ops->name,
                           .name = name ? name : taken.name,
                           .build_ns = program->build_ns},
            .answers = {taken.answers, taken.answers_size},
            .log = {taken.log, taken.log ? strlen(taken.log) : 0},
            .payload = {taken.payload, taken.payload_size},
        };
        status = kiln_entry_new(&params, ret_entry);
    }
    kiln_capture_done(&taken);
    return status;
}

/* ---- kernels ---- */

static kiln_status make_kernel(kilni_live_program *program, void *device, const char *name,
                               void **ret_handle)
{
    const kiln_device_ops *ops = program->ops;
    kiln_status status = ops->kernel(device, program->handle, name, ret_handle);
    if (kilni_program_is_out_of_room(status)) {
        kilni_program_make_room(program->context);
        status = ops->kernel(device, program->handle, name, ret_handle);
    }
    if (status == KILN_MISS) {
        return status;
    }
    return status == KILN_OK && !*ret_handle ? KILN_E_INVALID
                                             : kilni_ops_checked_status(ops, status, NULL);
}

static void add_kernel(kilni_live_program *program, kilni_live_kernel *kernel)
{
    pthread_mutex_lock(&program->lock);
    kernel->next = program->kernels;
    kernel->link = &program->kernels;
    if (kernel->next) {
        kernel->next->link = &kernel->next;
    }
    program->kernels = kernel;
    pthread_mutex_unlock(&program->lock);
}

void kilni_live_kernel_set_place(kilni_live_kernel *kernel, const kiln_pin *place)
{
    pthread_mutex_lock(&kernel->program->lock);
    kernel->place = place;
    pthread_mutex_unlock(&kernel->program->lock);
}

void kilni_live_kernel_set_kept(kilni_live_kernel *kernel, bool is_kept)
{
    pthread_mutex_lock(&kernel->program->lock);
    kernel->has_left = kernel->has_left || !is_kept;
    kernel->is_kept = !kernel->has_left;
    pthread_mutex_unlock(&kernel->program->lock);
}

kiln_status kilni_live_kernel_new(kilni_live_program *program, void *device, const char *name,
                                  kilni_live_kernel **ret_kernel)
{
    kilni_live_kernel *kernel = calloc(1, sizeof *kernel + strlen(name) + 1);
    if (!kernel) {
        return KILN_E_NO_MEMORY;
    }
    strcpy(kernel->name, name);
    kiln_status status;
    pthread_cleanup_push(free, kernel);
    status = make_kernel(program, device, name, &kernel->handle);
    pthread_cleanup_pop(0);
    if (status != KILN_OK) {
        free(kernel);
        return status;
    }
    pthread_mutex_init(&kernel->lock, NULL);
    kernel->program = kilni_live_program_retain(program);
    kernel->device = device;
    add_kernel(program, kernel);
    *ret_kernel = kernel;
    return KILN_OK;
}
