/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/handle_map.h"
#include "target.h"

/* Guards the maps, and all fields that change in records. A thread that holds this lock must not
 * call the driver or take another lock. The only exception is a thread that forks: it takes this
 * lock and then the lock of the platforms. No thread takes them in the opposite order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle_map programs;
static handle_map kernels;

void records_lock(void)
{
    pthread_mutex_lock(&lock);
}

void records_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- loaded programs ---- */

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

kiln_status loaded_program_new(cl_program program, const char *options, cl_uint device_count,
                               const cl_device_id *devices, kilni_opencl_answers **answers,
                               loaded_program **ret_loaded)
{
    loaded_program *made = calloc(1, sizeof *made);
    cl_device_id *copied = calloc(device_count, sizeof *copied);
    char *copied_options = copy_text(options);
    if (!made || !copied || (options && !copied_options)) {
        free(made);
        free(copied);
        free(copied_options);
        return KILN_E_NO_MEMORY;
    }
    memcpy(copied, devices, device_count * sizeof *copied);
    made->program = program;
    made->options = copied_options;
    made->device_count = device_count;
    made->devices = copied;
    made->answers = answers;
    made->mode = kilni_floating_point_get();
    atomic_init(&made->holds, 1);
    *ret_loaded = made;
    return KILN_OK;
}

void loaded_program_release(loaded_program *held)
{
    if (!held || atomic_fetch_sub_explicit(&held->holds, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (!held->is_held_by_application) {
        layer_target()->clReleaseProgram(held->program);
    }
    for (cl_uint i = 0; i < held->device_count; i++) {
        kilni_opencl_answers_free(&held->answers[i]);
    }
    free(held->answers);
    free(held->devices);
    free(held->options);
    free(held);
}

static loaded_program *hold_loaded(loaded_program *loaded)
{
    if (loaded) {
        atomic_fetch_add_explicit(&loaded->holds, 1, memory_order_relaxed);
    }
    return loaded;
}

cl_uint loaded_program_find_device(const loaded_program *loaded, cl_device_id device)
{
    cl_uint place = 0;
    while (place < loaded->device_count && loaded->devices[place] != device) {
        place++;
    }
    return place;
}

/* ---- programs ---- */

static kiln_status add_program(cl_program program, cl_context context, program_origin origin,
                               loaded_program *made)
{
    program_record *record = calloc(1, sizeof *record);
    if (!record) {
        return KILN_E_NO_MEMORY;
    }
    record->program = program;
    record->context = context;
    record->platform = platform_of_context(context);
    record->origin = origin;
    record->holds = 1;
    record->references = 1;
    record->loaded = made;

    records_lock();
    const kiln_status status = handle_map_put(&programs, program, record);
    records_unlock();
    if (status != KILN_OK) {
        free(record);
    }
    return status;
}

void records_add_program(cl_program program, cl_context context, program_origin origin)
{
    add_program(program, context, origin, NULL);
}

void records_add_linked(cl_program program, cl_context context, loaded_program *made)
{
    made->is_held_by_application = 1;
    if (add_program(program, context, ORIGIN_LINKED, made) != KILN_OK) {
        loaded_program_release(made);
    }
}

program_record *records_hold(cl_program program)
{
    records_lock();
    program_record *record = handle_map_get(&programs, program);
    if (record) {
        record->holds++;
    }
    records_unlock();
    return record;
}

static void free_record(program_record *record)
{
    if (record) {
        kilni_opencl_constants_done(&record->constants);
        device_keys_done(&record->compiled);
        device_keys_done(&record->uncaptured);
        free(record);
    }
}

/* Called with the lock held. Drops one hold. If this was the last hold, returns the record, which
 * the caller must free after unlocking; otherwise returns NULL. */
static program_record *drop_hold(program_record *record)
{
    record->holds--;
    return record->holds == 0 ? record : NULL;
}

void records_release(program_record *record)
{
    if (!record) {
        return;
    }
    records_lock();
    program_record *unused = drop_hold(record);
    records_unlock();
    free_record(unused);
}

typedef struct held_records {
    program_record **items;
    size_t count;
} held_records;

static void hold_one(void *user, void *value)
{
    held_records *held = user;
    program_record *record = value;
    record->holds++;
    held->items[held->count++] = record;
}

program_record **records_hold_all(size_t *ret_count)
{
    records_lock();
    held_records held = {.items = calloc(programs.count + 1, sizeof *held.items)};
    if (held.items) {
        handle_map_each(&programs, hold_one, &held);
    }
    records_unlock();
    *ret_count = held.count;
    return held.items;
}

loaded_program *records_hold_loaded(program_record *record)
{
    if (!record) {
        return NULL;
    }
    records_lock();
    loaded_program *held = hold_loaded(record->loaded);
    records_unlock();
    return held;
}

loaded_program *records_hold_loaded_of(cl_program program)
{
    records_lock();
    const program_record *record = handle_map_get(&programs, program);
    loaded_program *held = record ? hold_loaded(record->loaded) : NULL;
    records_unlock();
    return held;
}

void records_set_loaded(program_record *record, loaded_program *made)
{
    records_lock();
    const int is_late = record->references == 0 || record->generation > 0;
    loaded_program *replaced = is_late ? made : record->loaded;
    record->loaded = is_late ? record->loaded : made;
    records_unlock();
    loaded_program_release(replaced);
}

void records_drop_loaded(program_record *record)
{
    records_lock();
    loaded_program *dropped = record->loaded;
    record->loaded = NULL;
    records_unlock();
    loaded_program_release(dropped);
}

void records_retain_program(cl_program program)
{
    records_lock();
    program_record *record = handle_map_get(&programs, program);
    if (record) {
        record->references++;
    }
    records_unlock();
}

/* Drops one reference on P. If it was the last reference, also removes the record from the map, and
 * releases the loaded program, which would otherwise keep the context alive. */
static void release_reference(program_record *record, int is_kernel_hold)
{
    loaded_program *dropped = NULL;
    program_record *unused = NULL;
    records_lock();
    record->kernel_holds -= is_kernel_hold ? 1 : 0;
    record->references--;
    if (record->references == 0) {
        dropped = record->loaded;
        record->loaded = NULL;
        handle_map_remove(&programs, record->program);
        unused = drop_hold(record);
    }
    records_unlock();
    loaded_program_release(dropped);
    free_record(unused);
}

void records_release_program(cl_program program)
{
    program_record *record = records_hold(program);
    if (record) {
        release_reference(record, 0);
        records_release(record);
    }
}

/* ---- what the driver itself builds and compiles ---- */

/* The lock is held. */
static device_keys take_keys(device_keys *keys)
{
    const device_keys taken = *keys;
    *keys = (device_keys){0};
    return taken;
}

unsigned records_begin_native(program_record *record)
{
    records_lock();
    const unsigned generation = ++record->generation;
    device_keys compiled = take_keys(&record->compiled);
    device_keys uncaptured = take_keys(&record->uncaptured);
    records_unlock();
    device_keys_done(&compiled);
    device_keys_done(&uncaptured);
    return generation;
}

int records_is_native(program_record *record)
{
    records_lock();
    const int is_native = record->generation > 0;
    records_unlock();
    return is_native;
}

int records_is_generation(program_record *record, unsigned generation)
{
    records_lock();
    const int is_same = record->generation == generation;
    records_unlock();
    return is_same;
}

build_phase records_start_building(program_record *record)
{
    records_lock();
    const build_phase phase = record->phase;
    if (phase == BUILD_NONE) {
        record->phase = BUILD_LOOKED_UP;
    }
    records_unlock();
    return phase;
}

void records_set_phase(program_record *record, build_phase phase)
{
    records_lock();
    record->phase = phase;
    records_unlock();
}

void records_hold_at_driver(program_record *record)
{
    records_lock();
    record->build_holds++;
    records_unlock();
    layer_target()->clRetainProgram(record->program);
}

void records_release_at_driver(program_record *record)
{
    records_lock();
    record->build_holds--;
    records_unlock();
    layer_target()->clReleaseProgram(record->program);
}

/* Stores keys in @place if the generation is still the same. Called with the lock held. Returns the
 * keys that the caller must free: the previous ones, or @keys if they were not stored. */
static device_keys replace_keys(const program_record *record, unsigned generation,
                                device_keys *place, device_keys keys)
{
    if (record->generation != generation) {
        return keys;
    }
    const device_keys replaced = *place;
    *place = keys;
    return replaced;
}

void records_set_compiled(program_record *record, unsigned generation, device_keys compiled)
{
    records_lock();
    device_keys unused = replace_keys(record, generation, &record->compiled, compiled);
    records_unlock();
    device_keys_done(&unused);
}

void records_set_uncaptured(program_record *record, unsigned generation, device_keys built,
                            uint64_t build_ns)
{
    records_lock();
    device_keys unused = replace_keys(record, generation, &record->uncaptured, built);
    record->uncaptured_ns = build_ns;
    record->uncaptured_mode = kilni_floating_point_get();
    records_unlock();
    device_keys_done(&unused);
}

int records_take_uncaptured(program_record *record, unsigned *ret_generation,
                            device_keys *ret_built, uint64_t *ret_build_ns)
{
    records_lock();
    *ret_generation = record->generation;
    *ret_built = take_keys(&record->uncaptured);
    *ret_build_ns = record->uncaptured_ns;
    const int is_of_this_mode =
        kilni_floating_point_equals(record->uncaptured_mode, kilni_floating_point_get());
    records_unlock();
    return ret_built->count > 0 && is_of_this_mode;
}

kiln_key *records_find_compiled(cl_program program, cl_context context, cl_device_id device)
{
    records_lock();
    const program_record *record = handle_map_get(&programs, program);
    const int is_of_context = record && record->context == context;
    kiln_key *key = is_of_context ? device_keys_find(&record->compiled, device) : NULL;
    records_unlock();
    return key;
}

/* ---- specialization constants ---- */

void records_set_constant(cl_program program, cl_uint id, size_t size, const void *value)
{
    records_lock();
    program_record *record = handle_map_get(&programs, program);
    if (record && kilni_opencl_constants_set(&record->constants, id, size, value) != KILN_OK) {
        record->has_lost_constants = 1;
    }
    device_keys outdated = {0};
    if (record) {
        outdated = take_keys(&record->compiled);
    }
    records_unlock();
    device_keys_done(&outdated);
}

kiln_status records_copy_constants(program_record *record, kilni_opencl_constants *ret_copy)
{
    records_lock();
    const kiln_status status = record->has_lost_constants
                                   ? KILN_E_UNSUPPORTED
                                   : kilni_opencl_constants_copy(&record->constants, ret_copy);
    records_unlock();
    return status;
}

/* ---- counts ---- */

static int counts_kernels(const program_record *record)
{
    return record->platform && record->platform->traits->counts_kernels;
}

int records_is_released(cl_program program)
{
    records_lock();
    const program_record *record = handle_map_get(&programs, program);
    const int is_released =
        record && record->references == record->kernel_holds && !counts_kernels(record);
    records_unlock();
    return is_released;
}

int records_any_released(cl_uint count, const cl_program *all)
{
    for (cl_uint i = 0; all && i < count; i++) {
        if (records_is_released(all[i])) {
            return 1;
        }
    }
    return 0;
}

/* If the driver does not count kernels as references, the record has the number that the
 * application must see. If the driver counts them, this number is the driver's count minus the
 * holds of builds in flight. */
cl_uint records_visible_references(cl_program program, cl_uint driver_count)
{
    cl_uint visible = driver_count;
    records_lock();
    const program_record *record = handle_map_get(&programs, program);
    if (record) {
        visible = counts_kernels(record) ? driver_count - record->build_holds
                                         : record->references - record->kernel_holds;
    }
    records_unlock();
    return visible;
}

typedef struct context_count {
    cl_context context;
    cl_uint loaded;
} context_count;

static void count_loaded(void *user, void *value)
{
    context_count *count = user;
    const program_record *record = value;
    const int counts_programs = record->platform && record->platform->traits->counts_programs;
    const int is_one_more = record->loaded && !record->loaded->is_held_by_application;
    if (record->context == count->context && is_one_more && counts_programs) {
        count->loaded++;
    }
}

cl_uint records_hidden_context_references(cl_context context)
{
    context_count count = {.context = context};
    records_lock();
    handle_map_each(&programs, count_loaded, &count);
    records_unlock();
    return count.loaded;
}

/* ---- kernels ---- */

int records_has_kernels(program_record *record)
{
    records_lock();
    const int has = record->kernel_holds > 0;
    records_unlock();
    return has;
}

/* Called with the lock held. Adds a kernel of a loaded program. */
static kiln_status add_kernel(cl_kernel kernel, kernel_record *made, program_record *record,
                              loaded_program *loaded)
{
    const kiln_status status = handle_map_put(&kernels, kernel, made);
    if (status == KILN_OK) {
        made->kernel = kernel;
        made->record = record;
        made->loaded = hold_loaded(loaded);
        made->references = 1;
        record->holds++;
        record->references += loaded->is_held_by_application ? 0 : 1;
        record->kernel_holds += loaded->is_held_by_application ? 0 : 1;
    }
    return status;
}

/* A kernel of a loaded program holds a reference on P, because the driver's own kernels of P also
 * hold one. */
static void retain_for_kernel(cl_program program, const loaded_program *loaded)
{
    if (!loaded->is_held_by_application) {
        layer_target()->clRetainProgram(program);
    }
}

static void release_for_kernel(cl_program program, const loaded_program *loaded)
{
    if (!loaded->is_held_by_application) {
        layer_target()->clReleaseProgram(program);
    }
}

kiln_status records_add_kernel(cl_kernel kernel, program_record *record, loaded_program *loaded)
{
    kernel_record *made = calloc(1, sizeof *made);
    if (!made) {
        return KILN_E_NO_MEMORY;
    }
    retain_for_kernel(record->program, loaded);
    records_lock();
    const kiln_status status = add_kernel(kernel, made, record, loaded);
    records_unlock();
    if (status != KILN_OK) {
        release_for_kernel(record->program, loaded);
        free(made);
    }
    return status;
}

kiln_status records_add_clone(cl_kernel clone, cl_kernel original)
{
    program_record *record = NULL;
    loaded_program *loaded = NULL;
    records_lock();
    const kernel_record *known = handle_map_get(&kernels, original);
    if (known) {
        record = known->record;
        record->holds++;
        loaded = hold_loaded(known->loaded);
    }
    records_unlock();
    const kiln_status status = record ? records_add_kernel(clone, record, loaded) : KILN_MISS;
    loaded_program_release(loaded);
    records_release(record);
    return status;
}

int records_find_kernel(cl_kernel kernel, cl_program *ret_program, loaded_program **ret_loaded)
{
    records_lock();
    const kernel_record *known = handle_map_get(&kernels, kernel);
    if (known) {
        *ret_program = known->record->program;
        *ret_loaded = hold_loaded(known->loaded);
    }
    records_unlock();
    return known != NULL;
}

void records_retain_kernel(cl_kernel kernel)
{
    records_lock();
    kernel_record *known = handle_map_get(&kernels, kernel);
    if (known) {
        known->references++;
    }
    records_unlock();
}

program_record *records_release_kernel(cl_kernel kernel)
{
    program_record *record = NULL;
    kernel_record *ended = NULL;
    records_lock();
    kernel_record *known = handle_map_get(&kernels, kernel);
    if (known && --known->references == 0) {
        handle_map_remove(&kernels, kernel);
        record = known->record;
        ended = known;
    }
    records_unlock();
    if (ended) {
        const int holds_itself = ended->loaded->is_held_by_application;
        loaded_program_release(ended->loaded);
        free(ended);
        if (holds_itself) {
            records_release(record);
            return NULL;
        }
    }
    return record;
}

void records_release_kernel_hold(program_record *record)
{
    cl_program program = record->program;
    release_reference(record, 1);
    records_release(record);
    layer_target()->clReleaseProgram(program);
}
