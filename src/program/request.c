/* SPDX-License-Identifier: Apache-2.0 */
#include "program/request.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/clock.h"
#include "store/store.h"

#define SECOND_NS UINT64_C(1000000000)

/* The minimum time to wait for a build in another process, the time to wait if the build's duration
 * is unknown, and the maximum time. */
#define LEASE_WAIT_MIN_NS (10 * SECOND_NS)
#define LEASE_WAIT_UNKNOWN_NS (60 * SECOND_NS)
#define LEASE_WAIT_MAX_NS (600 * SECOND_NS)

/* One distinct key of a request. It has an entry, or a ticket to make one. It has neither if memory
 * gave neither. */
typedef struct slot {
    const kiln_key *key;
    const kiln_key *memory_key;
    size_t index; /* of the key's first occurrence in the request */
    kiln_entry *entry;
    kiln_entry *outdated; /* the last entry that was set aside */
    kiln_ticket *ticket;
    kiln_lease *lease;
    uint64_t
        known_cost_ns;  /* of a build, recorded in an entry that could not be used; 0: unknown */
    kiln_status looked; /* the store's last answer */
    size_t fill;        /* the value for kilni_store_fill; 0: no tier needs a copy */
} slot;

typedef struct flight {
    const kilni_request_context *context;
    const kilni_request *request;
    kilni_request_result result;
    uint64_t lease_wait_ns; /* how long the request has waited for builds in other processes */
    kiln_stats counted;
    kiln_error error;        /* of the failed build, for the caller and for the waiters */
    unsigned times_outdated; /* how often entries were set aside */
    int cannot_load;         /* the device failed to load the entries, but they are sound */
    slot slots[KILNI_REQUEST_KEYS_MAX]; /* in the order of their digests */
    size_t slot_count;
    size_t slot_of[KILNI_REQUEST_KEYS_MAX]; /* the slot of each key of the request */
} flight;

void kilni_request_destroy_entry(void *user, void *entry)
{
    (void)user;
    kiln_entry *held = entry;
    kiln_entry_release(&held);
}

static int compare_keys(const kiln_key *a, const kiln_key *b)
{
    const kiln_digest first = kiln_key_digest(a), second = kiln_key_digest(b);
    return memcmp(first.bytes, second.bytes, sizeof first.bytes);
}

/* All requests take tickets and leases in the order of the keys' digests. So two requests that
 * share keys never wait for each other. */
static void collect_slots(flight *f)
{
    for (size_t i = 0; i < f->request->key_count; i++) {
        const kiln_key *key = f->request->keys[i];
        size_t place = 0;
        while (place < f->slot_count && compare_keys(f->slots[place].key, key) < 0) {
            place++;
        }
        const int known = place < f->slot_count && kiln_key_equals(f->slots[place].key, key);
        if (!known) {
            memmove(&f->slots[place + 1], &f->slots[place],
                    (f->slot_count - place) * sizeof f->slots[0]);
            const kiln_key *memory_key = f->request->memory_key;
            f->slots[place] =
                (slot){.key = key, .memory_key = memory_key ? memory_key : key, .index = i};
            f->slot_count++;
        }
    }
    for (size_t i = 0; i < f->request->key_count; i++) {
        size_t place = 0;
        while (!kiln_key_equals(f->slots[place].key, f->request->keys[i])) {
            place++;
        }
        f->slot_of[i] = place;
    }
}

/* ---- 1 memory ---- */

bool kilni_request_is_answer(kiln_status status)
{
    return status == KILN_E_BUILD || status == KILN_E_UNSUPPORTED || status == KILN_E_INVALID;
}

kiln_status kilni_request_reserve(kiln_cache *memory, const kiln_key *key, uint64_t group,
                                  uint64_t wait_ns, kiln_reservation *ret_reservation,
                                  kilni_request_result *result, kiln_error *error)
{
    kiln_reserve_params params = {
        .struct_size = sizeof params, .wait_ns = KILN_NO_WAIT, .group = group};
    kiln_status status = kiln_cache_reserve(memory, key, &params, ret_reservation, error);
    if (status != KILN_TIMEOUT || wait_ns == KILN_NO_WAIT) {
        return status;
    }

    const uint64_t start_ns = kilni_clock_ns();
    result->waited = 1;
    params.wait_ns = wait_ns;
    status = kiln_cache_reserve(memory, key, &params, ret_reservation, error);
    result->wait_ns += kilni_clock_ns() - start_ns;
    return status;
}

/* Returns true if a status that memory returned ends the request. This is so if the request waited
 * for a build that failed, or if the time to wait is over. If there was not enough memory to wait,
 * the request goes on. */
static bool is_of_build(const flight *f, kiln_status status)
{
    return f->request->ending == KILNI_KEEP_PROGRAM &&
           (status == KILN_TIMEOUT ||
            (status < 0 && (status != KILN_E_NO_MEMORY || f->result.waited)));
}

/* Returns KILN_OK if each slot has an entry or a ticket, or if the result has its pin. Returns
 * KILN_BUSY if memory gives neither, so that the caller must build privately. Any other status ends
 * the request. */
static kiln_status ask_memory(flight *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        slot *wanted = &f->slots[i];
        kiln_reservation reservation;
        const kiln_status status =
            kilni_request_reserve(f->context->memory, wanted->memory_key, f->request->group,
                                  f->request->wait_ns, &reservation, &f->result, &f->error);
        if (status != KILN_OK) {
            return is_of_build(f, status) ? status : KILN_BUSY;
        }
        if (reservation.outcome == KILN_BYPASS) {
            return KILN_BUSY;
        }
        if (reservation.outcome == KILN_OWNER) {
            wanted->ticket = reservation.ticket;
        } else if (f->request->ending == KILNI_KEEP_PROGRAM) {
            f->result.pin = reservation.pin;
        } else {
            wanted->entry = kiln_entry_retain(kiln_pin_object(reservation.pin));
            kiln_pin_release(&reservation.pin);
        }
    }
    return KILN_OK;
}

/* Takes the entries that memory has, but no tickets. */
static void look_in_memory(flight *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        kiln_pin *pin = NULL;
        if (kiln_cache_pin(f->context->memory, f->slots[i].memory_key, &pin) == KILN_OK) {
            f->slots[i].entry = kiln_entry_retain(kiln_pin_object(pin));
            kiln_pin_release(&pin);
        }
    }
}

/* ---- loading what was found ---- */

static int has_all_entries(const flight *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        if (!f->slots[i].entry) {
            return 0;
        }
    }
    return 1;
}

/* Returns the cost of building all entries. This is the highest cost that any of the entries
 * records, because one build made the entries of all devices. */
static uint64_t build_cost(const flight *f)
{
    uint64_t highest_ns = 0;
    for (size_t i = 0; i < f->slot_count; i++) {
        const uint64_t build_ns = kiln_entry_provenance(f->slots[i].entry).build_ns;
        highest_ns = build_ns > highest_ns ? build_ns : highest_ns;
    }
    return highest_ns;
}

/* Removes an entry from memory, if memory keeps entries. */
static void forget_in_memory(const flight *f, const slot *found)
{
    if (f->request->ending == KILNI_KEEP_ENTRIES) {
        kiln_cache_remove(f->context->memory, found->memory_key);
    }
}

/* Removes the entries that the device refused, because a device that refuses verified bytes will
 * refuse them again. If another process has replaced a refused entry in the meantime, the newer
 * entry stays. */
static void discard_entries(flight *f)
{
    f->result.store = KILN_E_REFUSED;
    f->counted.corrupt++;
    for (size_t i = 0; i < f->slot_count; i++) {
        slot *refused = &f->slots[i];
        if (!refused->entry) {
            continue;
        }
        refused->known_cost_ns = kiln_entry_provenance(refused->entry).build_ns;
        forget_in_memory(f, refused);
        kilni_store_remove_judged(f->context->store, refused->key, refused->entry);
        kiln_entry_release(&refused->entry);
        refused->fill = 0;
    }
}

/* Sets aside sound entries whose inputs have changed. They stay in the store until the result of
 * the new build replaces them. */
static void set_entries_aside(flight *f)
{
    f->result.store = KILN_MISS;
    f->times_outdated++;
    for (size_t i = 0; i < f->slot_count; i++) {
        slot *found = &f->slots[i];
        found->known_cost_ns = kiln_entry_provenance(found->entry).build_ns;
        found->looked = KILN_MISS;
        forget_in_memory(f, found);
        kiln_entry_release(&found->outdated);
        found->outdated = found->entry;
        found->entry = NULL;
        found->fill = 0;
    }
}

/* Returns KILN_OK; KILN_E_REFUSED: the entries were removed from memory and store; KILN_MISS: the
 * entries were set aside. Any other error concerns this caller alone. */
static kiln_status load_entries(flight *f)
{
    const kiln_entry *entries[KILNI_REQUEST_KEYS_MAX];
    for (size_t i = 0; i < f->request->key_count; i++) {
        entries[i] = f->slots[f->slot_of[i]].entry;
    }
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status status = f->request->ops->load(f->request->user, entries);
    f->result.load_ns = kilni_clock_ns() - start_ns;
    if (status == KILN_E_REFUSED) {
        discard_entries(f);
    } else if (status == KILN_MISS) {
        set_entries_aside(f);
    }
    f->cannot_load = status < 0 && status != KILN_E_REFUSED;
    return status;
}

/* Fulfils a ticket. The memory cache and the waiters get the ticket's object. */
static void fulfil(flight *f, slot *owned, uint64_t cost_ns)
{
    if (f->request->ending == KILNI_KEEP_PROGRAM) {
        uint64_t bytes = 0;
        void *program = f->request->ops->take_program(f->request->user, &bytes);
        kiln_ticket_fulfil(&owned->ticket, program, bytes, cost_ns, &f->result.pin);
    } else {
        kiln_entry *kept = kiln_entry_retain(owned->entry);
        kiln_ticket_fulfil(&owned->ticket, kept, kiln_entry_encoding(kept).size, cost_ns, NULL);
    }
}

/* Loads the entries if all entries of the request were found. Returns KILN_OK if the request is
 * done. Returns KILN_MISS if some entries were not found, or if the entries can't be used. */
static kiln_status serve_found(flight *f, kilni_source source)
{
    if (f->cannot_load || !has_all_entries(f)) {
        return KILN_MISS;
    }
    if (load_entries(f) != KILN_OK) {
        return KILN_MISS;
    }

    const uint64_t build_ns = build_cost(f);
    f->result.source = source;
    f->result.store = KILN_OK;
    f->counted.hits_memory += source == KILNI_FROM_MEMORY ? 1 : 0;
    f->counted.hits_store += source == KILNI_FROM_STORE ? 1 : 0;
    f->counted.saved_ns += build_ns > f->result.load_ns ? build_ns - f->result.load_ns : 0;
    for (size_t i = 0; i < f->slot_count; i++) {
        slot *found = &f->slots[i];
        if (found->ticket) {
            fulfil(f, found, f->result.load_ns);
        }
        kilni_writer_fill(f->context->writer, found->fill, found->key, found->entry);
    }
    return KILN_OK;
}

/* ---- 2 store ---- */

/* Notes the store's answer. A plain miss must not hide a more specific reason. */
static void note_look(flight *f, slot *wanted, kiln_status looked)
{
    wanted->looked = looked;
    if (looked != KILN_OK && (f->result.store == KILN_OK || looked != KILN_MISS)) {
        f->result.store = looked;
    }
}

static void take_lookup(flight *f, slot *wanted, const kilni_lookup *lookup)
{
    wanted->entry = lookup->entry;
    wanted->fill = lookup->fill;
    note_look(f, wanted, lookup->status);
}

/* Asks for all keys for which memory has no entry. */
static void ask_store(flight *f)
{
    kilni_lookup lookups[KILNI_REQUEST_KEYS_MAX];
    slot *asked[KILNI_REQUEST_KEYS_MAX];
    size_t count = 0;
    if (!f->context->store) {
        return;
    }
    for (size_t i = 0; i < f->slot_count; i++) {
        if (!f->slots[i].entry) {
            lookups[count].key = f->slots[i].key;
            asked[count++] = &f->slots[i];
        }
    }
    kilni_store_find_many(f->context->store, lookups, count, false);
    for (size_t i = 0; i < count; i++) {
        take_lookup(f, asked[i], &lookups[i]);
    }
}

/* ---- 3 lease ---- */

static uint64_t lease_wait_of(const slot *wanted)
{
    if (wanted->known_cost_ns == 0) {
        return LEASE_WAIT_UNKNOWN_NS;
    }
    if (wanted->known_cost_ns > LEASE_WAIT_MAX_NS / 2) {
        return LEASE_WAIT_MAX_NS;
    }
    const uint64_t twice_ns = 2 * wanted->known_cost_ns;
    return twice_ns > LEASE_WAIT_MIN_NS ? twice_ns : LEASE_WAIT_MIN_NS;
}

/* One limit applies to the total time for which a request waits for leases. */
static uint64_t lease_wait(const flight *f, const slot *wanted)
{
    const uint64_t own_ns = f->request->wait_ns;
    const bool is_limited = own_ns > 0 && own_ns < LEASE_WAIT_MAX_NS;
    const uint64_t most_ns = own_ns == KILN_NO_WAIT ? 0 : is_limited ? own_ns : LEASE_WAIT_MAX_NS;
    const uint64_t left_ns = f->lease_wait_ns < most_ns ? most_ns - f->lease_wait_ns : 0;
    const uint64_t wait_ns = lease_wait_of(wanted);
    return wait_ns < left_ns ? wait_ns : left_ns;
}

static bool is_outdated(const slot *found)
{
    if (!found->entry || !found->outdated) {
        return false;
    }
    const kiln_bytes now = kiln_entry_encoding(found->entry);
    const kiln_bytes before = kiln_entry_encoding(found->outdated);
    return now.size == before.size && memcmp(now.data, before.data, now.size) == 0;
}

/* Returns how long a build of this key will probably take; 0: unknown. */
static uint64_t likely_build_ns(const flight *f, const slot *wanted)
{
    return wanted->known_cost_ns > 0 ? wanted->known_cost_ns
                                     : kilni_writer_mean_build_ns(f->context->writer);
}

/* Looks in the store again after taking the lease or waiting for it. The last holder of the lease
 * might have stored the entry, or replaced an entry that could not be used. */
static void look_again(flight *f, slot *wanted)
{
    const bool was_counted =
        wanted->looked == KILN_E_CORRUPT || wanted->looked == KILN_E_UNAUTHENTICATED;
    note_look(f, wanted,
              kilni_store_find(f->context->store, wanted->key, wanted->lease, was_counted,
                               &wanted->entry, &wanted->fill));
    if (is_outdated(wanted)) {
        wanted->looked = KILN_MISS;
        kiln_entry_release(&wanted->entry);
        wanted->fill = 0;
    }
}

/* Takes the lease, and looks in the store again. Returns whether the thread had to wait for the
 * lease. */
static int take_once(flight *f, slot *wanted)
{
    kiln_store *store = f->context->store;
    const uint64_t build_ns = likely_build_ns(f, wanted);
    kiln_status status = kilni_store_lease(store, wanted->key, build_ns, 0, &wanted->lease);
    const int has_to_wait = status == KILN_BUSY;
    if (has_to_wait) {
        const uint64_t start_ns = kilni_clock_ns();
        f->result.waited = 1;
        status =
            kilni_store_lease(store, wanted->key, build_ns, lease_wait(f, wanted), &wanted->lease);
        f->lease_wait_ns += kilni_clock_ns() - start_ns;
    }
    if (has_to_wait || status == KILN_OK) {
        look_again(f, wanted);
    }
    return has_to_wait;
}

/* Makes this process the only builder, and looks in the store again. If the thread waited for the
 * lease too long, or the store has no leases, the thread builds for itself. A lease that is shared
 * does not make it the only builder. The thread gets one only after it has waited, so the limit of
 * all waits ends the loop. */
static void take_lease(flight *f, slot *wanted)
{
    int has_to_wait = take_once(f, wanted);
    while (!wanted->entry && wanted->lease && wanted->lease->is_shared) {
        kiln_lease_release(&wanted->lease);
        has_to_wait |= take_once(f, wanted);
    }
    /* If builds are not captured, all threads that waited can continue at the same time, because
     * the driver's own cache has the build by now. */
    if (wanted->entry || (has_to_wait && !f->request->ops->capture)) {
        kiln_lease_release(&wanted->lease);
    }
}

static void take_leases(flight *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        if (f->slots[i].ticket && !f->slots[i].entry) {
            take_lease(f, &f->slots[i]);
        }
    }
}

/* ---- 4 build ---- */

static kiln_status build(flight *f, kilni_source source)
{
    const kilni_request *request = f->request;
    f->result.source = source;
    f->counted.builds++;
    f->counted.misses++;

    f->error.text[0] = '\0';
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status status = request->ops->build(request->user, &f->error);
    f->result.build_ns = kilni_clock_ns() - start_ns;
    f->counted.build_ns += f->result.build_ns;
    f->counted.failures += status == KILN_OK || status == KILN_E_UNSUPPORTED ? 0 : 1;
    return status;
}

/* ---- 5 publish ---- */

/* Makes the entry of one key from the built program. */
static kiln_status capture(flight *f, slot *owned)
{
    if (!f->request->ops->capture) {
        return KILN_E_UNSUPPORTED;
    }
    const bool is_merged =
        owned->outdated && kilni_store_may_merge(f->context->store, owned->outdated);
    return f->request->ops->capture(f->request->user, owned->index, f->result.build_ns,
                                    is_merged ? owned->outdated : NULL, &owned->entry);
}

/* Queues the entry for the store. The writer's thread keeps the lease until the entry is stored. */
static kiln_status store_entry(flight *f, slot *owned)
{
    if (!f->context->store) {
        return KILN_OK;
    }
    return kilni_writer_put(f->context->writer, owned->entry, &owned->lease);
}

/* Returns the approximate cost, in nanoseconds, of a miss in memory if a store has the entry. This
 * is the cost of reading the entry. */
static uint64_t reload_cost(const kiln_entry *entry)
{
    return UINT64_C(100000) + kiln_entry_encoding(entry).size;
}

/* Waiters get the shared bytes, so the capture comes first. If the capture fails, the waiters build
 * for themselves. */
static void publish_entry(flight *f, slot *owned)
{
    kiln_status status = capture(f, owned);
    if (status == KILN_OK) {
        if (owned->ticket) {
            fulfil(f, owned, f->context->store ? reload_cost(owned->entry) : f->result.build_ns);
        }
        status = store_entry(f, owned);
    } else {
        f->counted.dropped += f->request->ops->capture ? 1 : 0;
        kiln_ticket_abandon(&owned->ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
    }
    f->result.kept = f->result.kept == KILN_OK ? status : f->result.kept;
}

/* An entry that was found stays in the store, even if the device could not load it this time. */
static kiln_status keep_on_disk(flight *f, slot *owned)
{
    if (owned->entry) {
        return KILN_OK;
    }
    const kiln_status status = capture(f, owned);
    return status == KILN_OK ? store_entry(f, owned) : status;
}

static kiln_status check_key(const flight *f)
{
    const kilni_request_ops *ops = f->request->ops;
    return ops->check_key ? ops->check_key(f->request->user) : KILN_OK;
}

/* Waiters share this program, so they get it before it is captured. */
static void publish_program(flight *f, slot *owned)
{
    const kiln_status status = check_key(f);
    if (status != KILN_OK) {
        kiln_ticket_abandon(&owned->ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
        f->result.source = KILNI_FROM_PRIVATE_BUILD;
        f->result.kept = status;
        return;
    }
    if (owned->ticket) {
        fulfil(f, owned, f->result.build_ns);
    }
    f->result.kept = keep_on_disk(f, owned);
}

static void publish(flight *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        slot *owned = &f->slots[i];
        if (f->request->ending == KILNI_KEEP_PROGRAM) {
            publish_program(f, owned);
        } else if (!owned->entry) {
            publish_entry(f, owned);
        } else if (owned->ticket) {
            fulfil(f, owned, reload_cost(owned->entry));
        }
    }
}

/* Records the keys that the store did not have, for users who ask why a program was built. */
static void note_misses(const flight *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        if (f->slots[i].looked != KILN_OK) {
            kiln_store_note_miss(f->context->store, f->slots[i].key);
        }
    }
}

/* ---- the end of a request ---- */

/* Ends the tickets of a failed build. If memory holds entries, each waiter builds a separate
 * program of the application, and the application expects that build to fail. So every waiter
 * builds for itself. */
static void abandon(flight *f, kiln_status status)
{
    kiln_abandonment how = KILN_ABANDON_UNSHAREABLE;
    if (f->request->ending == KILNI_KEEP_PROGRAM) {
        const int is_answer = kilni_request_is_answer(status) && check_key(f) == KILN_OK;
        how = is_answer ? KILN_ABANDON_FAILED : KILN_ABANDON_TRANSIENT;
    }
    for (size_t i = 0; i < f->slot_count; i++) {
        kiln_ticket_abandon(&f->slots[i].ticket, how, status,
                            f->error.text[0] ? f->error.text : NULL);
    }
}

/* Notes what the request found or built, for the journal. Hits from memory are only counted. One
 * build made the entries of all devices, so only one of the events has its count and its times. A
 * hit has no names, because its entry and the event of its build have them. */
static void note_events(const flight *f, kiln_status status)
{
    const bool is_hit = f->result.source == KILNI_FROM_STORE;
    const bool is_build =
        f->result.source == KILNI_FROM_BUILD || f->result.source == KILNI_FROM_PRIVATE_BUILD;
    for (size_t i = 0; (is_hit || is_build) && i < f->slot_count; i++) {
        const slot *noted = &f->slots[i];
        const kiln_entry *entry = noted->entry ? noted->entry : noted->outdated;
        const kiln_provenance known = kiln_entry_provenance(entry);
        kiln_journal_event event = {
            .kind = is_hit              ? KILN_JOURNAL_HIT
                    : status == KILN_OK ? KILN_JOURNAL_BUILD
                                        : KILN_JOURNAL_FAILURE,
            .digest = kiln_key_digest(noted->key),
            .store = f->result.store,
            .kept = f->result.kept,
            .device = is_hit ? "" : known.device,
            .name = is_hit ? "" : known.name,
        };
        if (i == 0) {
            event.count = 1;
            event.build_ns = f->result.build_ns;
            event.load_ns = f->result.load_ns;
            event.wait_ns = f->result.wait_ns;
            event.saved_ns = f->counted.saved_ns;
        }
        kilni_writer_note(f->context->writer, &event);
    }
}

static void finish(flight *f, kiln_status status, kilni_request_result *ret_result)
{
    f->result.wait_ns += f->lease_wait_ns;
    note_events(f, status);
    for (size_t i = 0; i < f->slot_count; i++) {
        kiln_ticket_abandon(&f->slots[i].ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
        kiln_lease_release(&f->slots[i].lease);
        kiln_entry_release(&f->slots[i].entry);
        kiln_entry_release(&f->slots[i].outdated);
    }
    f->counted.waits += f->result.waited ? 1 : 0;
    kilni_writer_count(f->context->writer, &f->counted);
    *ret_result = f->result;
}

/* A cleanup handler, called if a device op throws an exception or ends its thread. No thread must
 * be left waiting for a result that will never come. */
static void abandon_on_exit(void *unfinished)
{
    flight *f = unfinished;
    abandon(f, KILN_E_IO);
    kiln_pin_release(&f->result.pin);
    kilni_request_result given_up;
    finish(f, KILN_E_IO, &given_up);
}

/* Entries that other processes have stored since the first look can be outdated too, because those
 * processes might have read different files. In this case, the lease must be taken again. */
static kiln_status look_up_leased(flight *f)
{
    unsigned before;
    do {
        before = f->times_outdated;
        take_leases(f);
        if (serve_found(f, KILNI_FROM_STORE) == KILN_OK) {
            return KILN_OK;
        }
    } while (f->times_outdated != before);
    return KILN_MISS;
}

static kiln_status look_up(flight *f)
{
    if (serve_found(f, KILNI_FROM_MEMORY) == KILN_OK) {
        return KILN_OK;
    }
    ask_store(f);
    if (serve_found(f, KILNI_FROM_STORE) == KILN_OK) {
        return KILN_OK;
    }
    if (f->request->is_alone) {
        return KILN_MISS;
    }
    return look_up_leased(f);
}

/* Called if memory keeps nothing for this caller. With KILNI_KEEP_PROGRAM, the request still uses
 * the store. The request takes no lease, because callers that come here at the same time might
 * differ in ways that no key records. */
static kiln_status run_beside_memory(flight *f)
{
    abandon(f, KILN_BUSY);
    if (f->request->ending == KILNI_KEEP_ENTRIES) {
        return build(f, KILNI_FROM_PRIVATE_BUILD);
    }
    ask_store(f);
    if (serve_found(f, KILNI_FROM_STORE) == KILN_OK) {
        return KILN_OK;
    }
    const kiln_status status = build(f, KILNI_FROM_PRIVATE_BUILD);
    if (status == KILN_OK) {
        publish(f);
    }
    note_misses(f);
    return status;
}

static kiln_status run(flight *f)
{
    kiln_status status = KILN_OK;
    if (f->request->is_alone) {
        look_in_memory(f);
    } else {
        status = ask_memory(f);
    }
    if (status == KILN_BUSY) {
        return run_beside_memory(f);
    }
    if (status != KILN_OK) {
        return status;
    }
    if (f->result.pin) {
        f->result.source = KILNI_FROM_MEMORY;
        f->counted.hits_memory++;
        return KILN_OK;
    }
    if (look_up(f) == KILN_OK) {
        return KILN_OK;
    }

    status = build(f, KILNI_FROM_BUILD);
    if (status == KILN_OK) {
        publish(f);
    } else {
        abandon(f, status);
    }
    note_misses(f);
    return status;
}

kiln_status kilni_request_run(const kilni_request_context *context, const kilni_request *request,
                              kilni_request_result *ret_result, kiln_error *error)
{
    if (!context || !request || !ret_result || request->key_count == 0 ||
        request->key_count > KILNI_REQUEST_KEYS_MAX) {
        return KILN_E_INVALID;
    }
    if (request->ending == KILNI_KEEP_PROGRAM && (request->key_count != 1 || request->is_alone)) {
        return KILN_E_INVALID;
    }

    flight f = {.context = context, .request = request, .error.struct_size = sizeof f.error};
    collect_slots(&f);
    kiln_status status;
    pthread_cleanup_push(abandon_on_exit, &f);
    status = run(&f);
    pthread_cleanup_pop(0);
    if (status != KILN_OK) {
        kilni_error_set(error, status, f.error.system_error, "%s",
                        f.error.text[0] ? f.error.text : kiln_status_text(status));
    }
    finish(&f, status, ret_result);
    return status;
}

/* ---- prefetches ---- */

typedef struct prefetch {
    flight *flights;
    size_t count;
} prefetch;

/* Gets a ticket for a program that memory lacks. Returns false if memory has the program or gives
 * no ticket, for example because another thread is building the program. */
static bool take_ticket(flight *f)
{
    slot *wanted = &f->slots[0];
    const kiln_reserve_params params = {
        .struct_size = sizeof params, .wait_ns = KILN_NO_WAIT, .group = f->request->group};
    kiln_reservation reservation = {0};
    if (kiln_cache_reserve(f->context->memory, wanted->memory_key, &params, &reservation, NULL) !=
        KILN_OK) {
        return false;
    }
    if (reservation.outcome == KILN_HIT) {
        kiln_pin_release(&reservation.pin);
    }
    if (reservation.outcome == KILN_OWNER) {
        wanted->ticket = reservation.ticket;
    }
    return wanted->ticket != NULL;
}

static void begin_flights(prefetch *work, const kilni_request_context *context,
                          const kilni_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        flight *f = &work->flights[work->count];
        *f = (flight){
            .context = context, .request = &requests[i], .error.struct_size = sizeof f->error};
        collect_slots(f);
        work->count += take_ticket(f);
    }
}

/* Looks all programs up. The ticket of a program that the store does not have passes to a thread
 * that waits for it. */
static void find_all(prefetch *work, kiln_store *store)
{
    kilni_lookup lookups[KILNI_REQUEST_KEYS_MAX];
    for (size_t i = 0; i < work->count; i++) {
        lookups[i].key = work->flights[i].slots[0].key;
    }
    kilni_store_find_many(store, lookups, work->count, false);
    for (size_t i = 0; i < work->count; i++) {
        flight *f = &work->flights[i];
        take_lookup(f, &f->slots[0], &lookups[i]);
        if (!f->slots[0].entry) {
            abandon(f, KILN_BUSY);
        }
    }
}

/* Returns whether the program was loaded. */
static bool end_flight(flight *f)
{
    const kiln_status status = serve_found(f, KILNI_FROM_STORE);
    kilni_request_result result;
    abandon(f, KILN_BUSY);
    kiln_pin_release(&f->result.pin);
    finish(f, status, &result);
    return status == KILN_OK;
}

/* A cleanup handler, like abandon_on_exit. */
static void abandon_all(void *unfinished)
{
    prefetch *work = unfinished;
    while (work->count > 0) {
        abandon_on_exit(&work->flights[--work->count]);
    }
    free(work->flights);
}

size_t kilni_request_prefetch(const kilni_request_context *context, const kilni_request *requests,
                              size_t count)
{
    size_t loaded = 0;
    prefetch work = {.flights = context->store ? calloc(count, sizeof *work.flights) : NULL};
    if (!work.flights) {
        return 0;
    }
    pthread_cleanup_push(abandon_all, &work);
    begin_flights(&work, context, requests, count);
    find_all(&work, context->store);
    while (work.count > 0) {
        loaded += end_flight(&work.flights[work.count - 1]);
        work.count--;
    }
    pthread_cleanup_pop(1);
    return loaded;
}
