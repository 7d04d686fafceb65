/* SPDX-License-Identifier: Apache-2.0 */
#include "program/obtain.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "program/request.h"

/* ---- arrivals ---- */

kiln_status kilni_arrival_begin(kiln_program_context *context, const kiln_program_desc *desc,
                                kilni_arrival *ret_arrival)
{
    kiln_status status = kilni_live_program_new(context, desc, &ret_arrival->live);
    if (status == KILN_OK) {
        status = kilni_object_new(context->programs, NULL, 0, &ret_arrival->place);
    }
    if (status != KILN_OK) {
        kilni_arrival_cancel(ret_arrival);
    }
    return status;
}

void kilni_arrival_cancel(kilni_arrival *arrival)
{
    if (arrival->live) {
        kilni_live_program_release(arrival->live);
    }
    if (arrival->place) {
        kilni_object_free(arrival->place);
    }
    *arrival = (kilni_arrival){0};
}

kiln_program *kilni_arrival_end(kilni_arrival *arrival, kiln_pin *pin)
{
    if (!pin) {
        pin = arrival->place;
        kilni_object_fill_alone(arrival->place, arrival->live,
                                kilni_live_program_bytes(arrival->live), arrival->live->build_ns);
        *arrival = (kilni_arrival){0}; /* the pin owns both */
    }
    kilni_arrival_cancel(arrival);
    return (kiln_program *)pin;
}

/* ---- the ops of a request, which call the device's ops ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    return kilni_live_program_load(user, entries[0]);
}

static kiln_status build(void *user, kiln_error *error)
{
    return kilni_live_program_build(user, error);
}

/* If the inputs have changed during the build, the program does not match the key. */
static kiln_status check_key(void *user)
{
    kilni_live_program *program = user;
    const kiln_status status = kilni_desc_check(program->desc, true);
    program->matches_key = status == KILN_OK;
    return status;
}

static kiln_status capture(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry)
{
    (void)index;
    (void)build_ns; /* the program has measured the same time itself, for blobs too */
    const kilni_live_program *program = user;
    return kilni_live_program_capture(program, program->desc->key, KILN_ENTRY_PROGRAM, replaced,
                                      ret_entry);
}

static void *take_program(void *user, uint64_t *ret_bytes)
{
    *ret_bytes = kilni_live_program_bytes(user);
    return kilni_live_program_retain(user);
}

static const kilni_request_ops capturing_ops = {.load = load,
                                                .build = build,
                                                .check_key = check_key,
                                                .capture = capture,
                                                .take_program = take_program};
static const kilni_request_ops building_ops = {
    .load = load, .build = build, .check_key = check_key, .take_program = take_program};

/* ---- get ---- */

/* Builds for this caller alone, because the rules or the key do not allow the program to be kept.
 * The caller can still obtain the program's blob. */
static kiln_status build_uncached(kilni_live_program *live, kilni_request_result *result,
                                  kiln_error *error)
{
    const kiln_stats counted = {.passed_through = 1};
    kilni_program_count(live->context, &counted);
    result->source = KILNI_FROM_PRIVATE_BUILD;
    const kiln_status status = kilni_live_program_build(live, error);
    if (status == KILN_OK && live->desc->key && live->ops->capture_cost != KILN_CAPTURE_NEVER) {
        check_key(live);
    }
    return status;
}

typedef struct store_hold {
    kiln_program_context *context;
    kilni_held_store *held;
} store_hold;

static void release_store(void *hold)
{
    const store_hold *taken = hold;
    kilni_program_release_store(taken->context, taken->held);
}

/* @key  [out] the request's key; must live as long as the request, which points to it */
static kilni_request request_of(kilni_live_program *live, const kiln_key **key, uint64_t wait_ns)
{
    const kiln_program_desc *desc = live->desc;
    const bool is_captured = desc->context->ops->capture_cost == KILN_CAPTURE_CHEAP;
    *key = desc->key;
    return (kilni_request){
        .ending = KILNI_KEEP_PROGRAM,
        .keys = key,
        .key_count = 1,
        .memory_key = desc->memory_key,
        .group = desc->image,
        .wait_ns = wait_ns,
        .ops = is_captured ? &capturing_ops : &building_ops,
        .user = live,
    };
}

static kiln_status run_request(kilni_live_program *live, uint64_t wait_ns,
                               kilni_request_result *result, kiln_error *error)
{
    const kiln_program_desc *desc = live->desc;
    kiln_program_context *context = desc->context;
    const kiln_key *key;
    const kilni_request request = request_of(live, &key, wait_ns);
    store_hold hold = {context, kilni_program_hold_store(context, true)};
    const kilni_request_context with = {
        .memory = context->programs,
        .store = kilni_caching_has_storable_size(desc) ? hold.held->store : NULL,
        .writer = hold.held->writer,
    };
    kiln_status status;
    pthread_cleanup_push(release_store, &hold);
    status = kilni_request_run(&with, &request, result, error);
    pthread_cleanup_pop(1);
    if (status == KILN_OK && result->source == KILNI_FROM_MEMORY) {
        atomic_fetch_add_explicit(&context->counted_hits, 1, memory_order_relaxed);
    }
    return status;
}

/* The two enumerations have the same values. */
_Static_assert((int)KILN_PROGRAM_FROM_MEMORY == (int)KILNI_FROM_MEMORY &&
                   (int)KILN_PROGRAM_FROM_STORE == (int)KILNI_FROM_STORE &&
                   (int)KILN_PROGRAM_FROM_BUILD == (int)KILNI_FROM_BUILD &&
                   (int)KILN_PROGRAM_FROM_PRIVATE_BUILD == (int)KILNI_FROM_PRIVATE_BUILD,
               "where programs come from");

static void hand_out(const kilni_request_result *result, kiln_program_result *ret_result)
{
    const kiln_program_result known = {
        .struct_size = sizeof known,
        .from = result->source,
        .waited = result->waited,
        .build_ns = result->build_ns,
        .load_ns = result->load_ns,
        .wait_ns = result->wait_ns,
        .store = result->store,
    };
    if (ret_result) {
        kilni_sized_struct_copy_out(ret_result, &known, sizeof known);
    }
}

static void cancel_arrival(void *arrival)
{
    kilni_arrival_cancel(arrival);
}

static kiln_status make(kilni_live_program *live, uint64_t wait_ns, kilni_request_result *result,
                        kiln_error *error)
{
    const bool is_cached = kilni_caching_of_desc(live->desc) == KILN_UNCACHED_NOT;
    return is_cached ? run_request(live, wait_ns, result, error)
                     : build_uncached(live, result, error);
}

/* Not inlined, because it is called rarely. */
__attribute__((noinline)) static kiln_status get_absent(const kiln_program_desc *desc,
                                                        uint64_t wait_ns,
                                                        kiln_program **ret_program,
                                                        kiln_program_result *ret_result,
                                                        kiln_error *error)
{
    if (kilni_program_context_has_ended(desc->context)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the description's context has been freed");
    }
    kilni_arrival arrival = {0};
    if (kilni_arrival_begin(desc->context, desc, &arrival) != KILN_OK) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "%s",
                               kiln_status_text(KILN_E_NO_MEMORY));
    }
    kilni_request_result result = {0};
    kiln_status status;
    pthread_cleanup_push(cancel_arrival, &arrival);
    status = make(arrival.live, wait_ns, &result, error);
    if (status == KILN_OK) {
        *ret_program = kilni_arrival_end(&arrival, result.pin);
        hand_out(&result, ret_result);
    }
    pthread_cleanup_pop(status != KILN_OK);
    return status;
}

static kiln_pin *find_in_memory(const kiln_program_desc *desc)
{
    return desc->memory_key ? kilni_object_pin(desc->context->programs, desc->memory_key) : NULL;
}

kiln_status kiln_program_obtain(const kiln_program_desc *desc, const kiln_program_params *params,
                                kiln_program **ret_program, kiln_program_result *ret_result,
                                kiln_error *error)
{
    kiln_program_params known;
    if (!desc || !ret_program || !kilni_result_is_usable(ret_result) ||
        kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK) {
        return kilni_error_set(
            error, KILN_E_INVALID, 0,
            "the description or the result pointer is NULL, or a structure is not of this version");
    }
    kiln_pin *pin = find_in_memory(desc);
    if (!pin) {
        return get_absent(desc, known.wait_ns, ret_program, ret_result, error);
    }
    if (ret_result) {
        hand_out(&(kilni_request_result){.source = KILNI_FROM_MEMORY}, ret_result);
    }
    *ret_program = (kiln_program *)pin;
    return KILN_OK;
}

kiln_status kiln_program_get(const kiln_program_desc *desc, kiln_program **ret_program,
                             kiln_program_result *ret_result, kiln_error *error)
{
    return kiln_program_obtain(desc, NULL, ret_program, ret_result, error);
}

/* ---- prefetches ---- */

/* The programs that are looked up together. */
typedef struct program_batch {
    size_t count;
    kilni_live_program *lives[KILNI_REQUEST_KEYS_MAX];
    const kiln_key *keys[KILNI_REQUEST_KEYS_MAX];
    kilni_request requests[KILNI_REQUEST_KEYS_MAX];
} program_batch;

/* Adds a program, unless memory has it or no store keeps it. Returns KILN_OK; KILN_E_NO_MEMORY. */
static kiln_status add_to_batch(program_batch *batch, const kiln_program_desc *desc)
{
    if (kilni_caching_of_desc(desc) != KILN_UNCACHED_NOT ||
        !kilni_caching_has_storable_size(desc)) {
        return KILN_OK;
    }
    kiln_pin *pin = find_in_memory(desc);
    if (pin) {
        kiln_pin_release(&pin);
        return KILN_OK;
    }
    const size_t number = batch->count;
    const kiln_status status = kilni_live_program_new(desc->context, desc, &batch->lives[number]);
    if (status == KILN_OK) {
        batch->requests[number] =
            request_of(batch->lives[number], &batch->keys[number], KILN_NO_WAIT);
        batch->count++;
    }
    return status;
}

static void release_batch(void *released)
{
    program_batch *batch = released;
    for (size_t i = 0; i < batch->count; i++) {
        kilni_live_program_release(batch->lives[i]);
    }
}

static size_t load_batch(kiln_program_context *context, const program_batch *batch)
{
    size_t loaded = 0;
    store_hold hold = {context, kilni_program_hold_store(context, true)};
    const kilni_request_context with = {
        .memory = context->programs, .store = hold.held->store, .writer = hold.held->writer};
    pthread_cleanup_push(release_store, &hold);
    loaded = kilni_request_prefetch(&with, batch->requests, batch->count);
    pthread_cleanup_pop(1);
    return loaded;
}

static kiln_status prefetch_block(const kiln_program_desc *const *descs, size_t count,
                                  size_t *loaded)
{
    program_batch batch = {.count = 0};
    kiln_status status = KILN_OK;
    pthread_cleanup_push(release_batch, &batch);
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        status = add_to_batch(&batch, descs[i]);
    }
    if (batch.count > 0) {
        *loaded += load_batch(descs[0]->context, &batch);
    }
    pthread_cleanup_pop(1);
    return status;
}

static bool have_one_context(const kiln_program_desc *const *descs, size_t count)
{
    for (size_t i = 0; descs && i < count; i++) {
        if (!descs[i] || descs[i]->context != descs[0]->context) {
            return false;
        }
    }
    return descs && count > 0 && !kilni_program_context_has_ended(descs[0]->context);
}

kiln_status kiln_program_prefetch(const kiln_program_desc *const *descs, size_t count,
                                  size_t *ret_loaded)
{
    size_t loaded = 0;
    kiln_status status = KILN_OK;
    if (count > 0 && !have_one_context(descs, count)) {
        return KILN_E_INVALID;
    }
    for (size_t i = 0; i < count && status == KILN_OK; i += KILNI_REQUEST_KEYS_MAX) {
        const size_t left = count - i;
        status = prefetch_block(
            descs + i, left < KILNI_REQUEST_KEYS_MAX ? left : KILNI_REQUEST_KEYS_MAX, &loaded);
    }
    if (ret_loaded) {
        *ret_loaded = loaded;
    }
    return status;
}

/* ---- programs that are being built ---- */

/* Converts an answer of the map. If another thread abandoned its build, this thread might have got
 * the ticket. This thread does not build, so it passes the ticket on to the next waiting thread. */
static kiln_status program_of(kiln_reservation *answer, kiln_program **ret_program,
                              kiln_pending **ret_pending)
{
    switch (answer->outcome) {
    case KILN_HIT:
        *ret_program = (kiln_program *)answer->pin;
        return KILN_OK;
    case KILN_PENDING:
        *ret_pending = answer->pending;
        return KILN_BUSY;
    case KILN_OWNER:
        kilni_pass_ticket_on(&answer->ticket);
        break;
    case KILN_BYPASS:
        break;
    }
    return KILN_MISS;
}

kiln_status kiln_program_find(const kiln_program_desc *desc, kiln_program **ret_program,
                              kiln_pending **ret_pending, kiln_error *error)
{
    if (!desc || !ret_program || !ret_pending) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the description or a result pointer is NULL");
    }
    if (kilni_caching_of_desc(desc) != KILN_UNCACHED_NOT) {
        return KILN_MISS;
    }
    const kiln_reserve_params params = {.struct_size = sizeof params,
                                        .group = desc->image,
                                        .flags = KILN_RESERVE_PENDING | KILN_RESERVE_NO_TICKET};
    kiln_reservation answer = {0};
    const kiln_status status =
        kiln_cache_reserve(desc->context->programs, desc->memory_key, &params, &answer, error);
    return status == KILN_OK ? program_of(&answer, ret_program, ret_pending) : status;
}

kiln_status kiln_program_wait(kiln_pending *pending, uint64_t wait_ns, kiln_program **ret_program,
                              kiln_error *error)
{
    if (!pending || !ret_program) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the pending program or the result pointer is NULL");
    }
    kiln_reservation answer = {0};
    const kiln_status status = kiln_pending_wait(pending, wait_ns, &answer, error);
    return status == KILN_OK ? program_of(&answer, ret_program, NULL) : status;
}

/* A cleanup handler: the handle still belongs to the caller. */
static void cancel_adoption(void *arrival)
{
    kilni_arrival *adopted = arrival;
    adopted->live->handle = NULL;
    kilni_arrival_cancel(adopted);
}

kiln_status kiln_program_adopt(kiln_program_context *context, size_t device, void *handle,
                               kiln_program **ret_program)
{
    if (!context || device >= context->device_count || !handle || !ret_program) {
        return KILN_E_INVALID;
    }
    kilni_arrival arrival = {0};
    if (kilni_arrival_begin(context, NULL, &arrival) != KILN_OK) {
        return KILN_E_NO_MEMORY;
    }
    arrival.live->device = context->devices[device].handle;
    arrival.live->shares_with = context->devices[device].shares_with;
    arrival.live->handle = handle;
    pthread_cleanup_push(cancel_adoption, &arrival);
    *ret_program = kilni_arrival_end(&arrival, NULL);
    pthread_cleanup_pop(0);
    return KILN_OK;
}

/* ---- holds ---- */

void *kiln_program_handle(const kiln_program *program)
{
    return program ? kilni_program_live(program)->handle : NULL;
}

kiln_program *kiln_program_retain(kiln_program *program)
{
    return (kiln_program *)kiln_pin_retain((kiln_pin *)program);
}

void kiln_program_release(kiln_program **program)
{
    kiln_pin *pin = program ? (kiln_pin *)*program : NULL;
    if (pin) {
        *program = NULL;
        kiln_pin_release(&pin);
    }
}
