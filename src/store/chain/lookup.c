/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up entries. One tier after another is asked. If several keys are looked up, a tier gets all
 * keys that the tiers above it do not have, and a server gets them together.
 */
#include <string.h>

#include "os/clock.h"
#include "store/chain/chain.h"

/* Returns which of two statuses is to be reported. A defect of an entry takes precedence over a
 * miss, and a miss takes precedence over the failure to ask a tier. */
static kiln_status worse(kiln_status a, kiln_status b)
{
    static const kiln_status by_severity[] = {KILN_E_CORRUPT, KILN_E_UNAUTHENTICATED,
                                              KILN_E_VERSION, KILN_E_DENIED, KILN_MISS};
    for (size_t i = 0; i < sizeof by_severity / sizeof by_severity[0]; i++) {
        if (a == by_severity[i] || b == by_severity[i]) {
            return by_severity[i];
        }
    }
    return a;
}

/* Counts the damaged entries that a look-up skipped before a hit. The look-up's caller does not
 * count these. */
static void count_damaged(kilni_chain *chain, uint64_t count)
{
    atomic_fetch_add_explicit(&chain->store.counts.corrupt, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&chain->store.uncounted_corrupt, count, memory_order_relaxed);
}

/* Asks one tier. Measures only look-ups on servers, because reading the clock takes little time
 * compared with those. */
static kiln_status find_in(kilni_tier *tier, kiln_store *store, const kiln_key *key,
                           kiln_entry **ret_entry, bool *ret_first_use)
{
    const bool is_measured = store->capabilities & KILNI_STORE_SENDS;
    const uint64_t start_ns = is_measured ? kilni_clock_ns() : 0;
    const kiln_status status = kilni_store_get_from_tier(store, key, ret_entry, ret_first_use);
    const uint64_t bytes = status == KILN_OK ? kiln_entry_encoding(*ret_entry).size : 0;
    const uint64_t duration_ns = is_measured ? kilni_clock_ns() - start_ns : 0;
    kilni_tier_counts_note_get(&tier->counts, status, bytes, duration_ns);
    if (duration_ns >= KILNI_TIER_ANSWER_MIN_NS && (status == KILN_OK || status == KILN_MISS)) {
        kilni_tier_note_latency(tier, duration_ns);
    }
    return kilni_tier_note(tier, status);
}

static bool is_any_filled(const kilni_chain *chain, size_t from)
{
    for (size_t i = 0; i < from; i++) {
        if (kilni_tier_is_filled(&chain->tiers[i], &chain->tiers[from])) {
            return true;
        }
    }
    return false;
}

/* Returns the value to pass to chain_fill after a hit in tier @from; 0: there is nothing to do. */
static size_t fill_after(const kilni_chain *chain, size_t from, const kiln_key *key,
                         bool is_first_use)
{
    const bool is_copied = is_any_filled(chain, from) && !kilni_store_is_request(key);
    const size_t fill =
        (is_copied ? KILNI_FILL_COPIES : 0u) | (is_first_use ? KILNI_FILL_REPORTS : 0u);
    return fill > 0 ? fill | from : 0;
}

kiln_status kilni_chain_get_elsewhere(kiln_store *store, const kiln_key *key,
                                      const kiln_store *missed_in, kiln_entry **ret_entry,
                                      size_t *ret_fill)
{
    kilni_chain *chain = (kilni_chain *)store;
    kiln_status result = KILN_E_IO;
    uint64_t damaged = 0;
    for (size_t i = 0; i < chain->count; i++) {
        kiln_store *tier = kilni_tier_use(&chain->tiers[i]);
        if (!tier) {
            continue;
        }
        if (tier == missed_in) {
            result = worse(KILN_MISS, result);
            continue;
        }
        kiln_entry *entry = NULL;
        bool is_first_use = false;
        const kiln_status status = find_in(&chain->tiers[i], tier, key, &entry, &is_first_use);
        if (status == KILN_OK) {
            count_damaged(chain, damaged);
            *ret_fill = fill_after(chain, i, key, is_first_use);
            *ret_entry = entry;
            return KILN_OK;
        }
        if (status == KILN_E_NO_MEMORY) {
            return status;
        }
        damaged += status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED;
        result = worse(status, result);
    }
    return result;
}

kiln_status kilni_chain_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                            size_t *ret_fill)
{
    return kilni_chain_get_elsewhere(store, key, NULL, ret_entry, ret_fill);
}

kiln_status kilni_chain_read_digest(kiln_store *store, const kiln_digest *digest,
                                    kiln_entry **ret_entry)
{
    kilni_chain *chain = (kilni_chain *)store;
    kiln_status result = KILN_E_IO;
    for (size_t i = 0; i < chain->count; i++) {
        kiln_store *tier = kilni_tier_use(&chain->tiers[i]);
        if (!tier) {
            continue;
        }
        const kiln_status status =
            kilni_tier_note(&chain->tiers[i], tier->ops->read_digest(tier, digest, ret_entry));
        if (status == KILN_OK || status == KILN_E_NO_MEMORY || status == KILN_E_UNSUPPORTED) {
            return status;
        }
        result = worse(status, result);
    }
    return result;
}

kiln_status kilni_chain_contains(kiln_store *store, const kiln_key *key)
{
    kilni_chain *chain = (kilni_chain *)store;
    kiln_status result = KILN_E_IO;
    for (size_t i = 0; i < chain->count; i++) {
        kiln_store *tier = kilni_tier_use(&chain->tiers[i]);
        if (!tier) {
            continue;
        }
        kiln_status status = kilni_tier_note(&chain->tiers[i], kiln_store_contains(tier, key));
        if (status == KILN_OK) {
            return KILN_OK;
        }
        result = worse(status, result);
    }
    return result;
}

/* ---- several keys ---- */

/* Records the outcome of one call for several keys. The tier works if it answered for any key. */
static void note_many(kilni_tier *tier, const kiln_status *statuses, size_t count)
{
    kiln_status outcome = statuses[0];
    for (size_t i = 1; i < count; i++) {
        const bool is_failure = statuses[i] == KILN_E_IO || statuses[i] == KILN_E_DENIED ||
                                statuses[i] == KILN_E_NO_MEMORY;
        outcome = is_failure ? outcome : statuses[i];
    }
    kilni_tier_note(tier, outcome);
}

/* Counts a server's answers to one call. A call that failed for several keys is one failure. */
static void count_answers(kilni_tier *tier, const kilni_lookup *lookups, size_t count)
{
    bool has_failed = false;
    for (size_t i = 0; i < count; i++) {
        const kiln_status status = lookups[i].status;
        const bool is_failure = status == KILN_E_IO || status == KILN_E_DENIED;
        if (!is_failure || !has_failed) {
            const uint64_t bytes =
                status == KILN_OK ? kiln_entry_encoding(lookups[i].entry).size : 0;
            kilni_tier_counts_note_get(&tier->counts, status, bytes, 0);
        }
        has_failed |= is_failure;
    }
}

/* Asks a server for several keys. The duration is not measured, because it says little about a
 * single look-up. */
static void ask_server(kilni_tier *tier, kiln_store *store, kilni_lookup *lookups, size_t count)
{
    kiln_status statuses[KILNI_STORE_MANY];
    kilni_store_get_many_from_tier(store, lookups, count);
    count_answers(tier, lookups, count);
    for (size_t i = 0; i < count; i++) {
        statuses[i] = lookups[i].status;
    }
    note_many(tier, statuses, count);
}

/* Returns false if the tier must be skipped now. */
static bool find_many_in(kilni_tier *tier, kilni_lookup *lookups, size_t count)
{
    kiln_store *store = kilni_tier_use(tier);
    if (store && store->ops->get_many && count > 1) {
        ask_server(tier, store, lookups, count);
        return true;
    }
    for (size_t i = 0; store && i < count; i++) {
        bool is_first_use = false;
        lookups[i].status = find_in(tier, store, lookups[i].key, &lookups[i].entry, &is_first_use);
        lookups[i].fill = is_first_use;
    }
    return store != NULL;
}

/* Returns true if a look-up with this status does not ask further tiers. */
static bool has_ended(kiln_status status)
{
    return status == KILN_OK || status == KILN_E_NO_MEMORY;
}

/* Adds a tier's answer to what is known of a key.
 *
 * @damaged  [in, out] how many tiers above had a damaged entry */
static void take_answer(kilni_chain *chain, size_t tier, const kilni_lookup *answer,
                        kilni_lookup *known, uint64_t *damaged)
{
    const kiln_status status = answer->status;
    if (status == KILN_OK) {
        count_damaged(chain, *damaged);
        known->entry = answer->entry;
        known->fill = fill_after(chain, tier, known->key, answer->fill > 0);
    }
    *damaged += status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED;
    known->status = has_ended(status) ? status : worse(status, known->status);
}

void kilni_chain_get_many(kiln_store *store, kilni_lookup *lookups, size_t count)
{
    kilni_chain *chain = (kilni_chain *)store;
    uint64_t damaged[KILNI_STORE_MANY] = {0};
    for (size_t i = 0; i < count; i++) {
        lookups[i].status = KILN_E_IO;
    }
    for (size_t tier = 0; tier < chain->count; tier++) {
        kilni_lookup asked[KILNI_STORE_MANY];
        size_t places[KILNI_STORE_MANY], asked_count = 0;
        for (size_t i = 0; i < count; i++) {
            if (!has_ended(lookups[i].status)) {
                asked[asked_count] = (kilni_lookup){.key = lookups[i].key};
                places[asked_count++] = i;
            }
        }
        if (asked_count == 0 || !find_many_in(&chain->tiers[tier], asked, asked_count)) {
            continue;
        }
        for (size_t i = 0; i < asked_count; i++) {
            take_answer(chain, tier, &asked[i], &lookups[places[i]], &damaged[places[i]]);
        }
    }
}

/* Digests that are looked up in one tier after the other. */
typedef struct digest_search {
    kilni_digest_fn *visit;
    void *user;
    kiln_status results[KILNI_STORE_MANY];
    bool has_ended[KILNI_STORE_MANY];
    /* What the present tier is asked, and its answers. */
    size_t asked_count, places[KILNI_STORE_MANY];
    kiln_digest asked[KILNI_STORE_MANY];
    kiln_status answers[KILNI_STORE_MANY];
} digest_search;

static void choose_digests(digest_search *search, const kiln_digest *digests, size_t count)
{
    search->asked_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!search->has_ended[i]) {
            search->places[search->asked_count] = i;
            search->asked[search->asked_count++] = digests[i];
        }
    }
}

static void take_digest(void *user, size_t index, kiln_status status, const kiln_entry *entry)
{
    digest_search *search = user;
    const size_t place = search->places[index];
    search->answers[index] = status;
    if (has_ended(status) || status == KILN_E_UNSUPPORTED) {
        search->has_ended[place] = true;
        search->visit(search->user, place, status, entry);
    } else {
        search->results[place] = worse(status, search->results[place]);
    }
}

void kilni_chain_read_digests(kiln_store *store, const kiln_digest *digests, size_t count,
                              kilni_digest_fn *visit, void *user)
{
    kilni_chain *chain = (kilni_chain *)store;
    digest_search search = {.visit = visit, .user = user};
    for (size_t i = 0; i < count; i++) {
        search.results[i] = KILN_E_IO;
    }
    for (size_t i = 0; i < chain->count; i++) {
        choose_digests(&search, digests, count);
        kiln_store *tier = search.asked_count > 0 ? kilni_tier_use(&chain->tiers[i]) : NULL;
        if (tier) {
            kilni_store_read_digests(tier, search.asked, search.asked_count, take_digest, &search);
            note_many(&chain->tiers[i], search.answers, search.asked_count);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!search.has_ended[i]) {
            visit(user, i, search.results[i], NULL);
        }
    }
}

void kilni_chain_contains_many(kiln_store *store, const kiln_key *const *keys, size_t count,
                               kiln_status *ret_statuses)
{
    kilni_chain *chain = (kilni_chain *)store;
    for (size_t i = 0; i < count; i++) {
        ret_statuses[i] = KILN_E_IO;
    }
    for (size_t tier = 0; tier < chain->count; tier++) {
        const kiln_key *asked[KILNI_STORE_MANY];
        kiln_status answers[KILNI_STORE_MANY];
        size_t places[KILNI_STORE_MANY], asked_count = 0;
        for (size_t i = 0; i < count; i++) {
            if (ret_statuses[i] != KILN_OK) {
                asked[asked_count] = keys[i];
                places[asked_count++] = i;
            }
        }
        kiln_store *used = asked_count > 0 ? kilni_tier_use(&chain->tiers[tier]) : NULL;
        if (!used) {
            continue;
        }
        kiln_store_contains_many(used, asked, asked_count, answers);
        note_many(&chain->tiers[tier], answers, asked_count);
        for (size_t i = 0; i < asked_count; i++) {
            kiln_status *known = &ret_statuses[places[i]];
            *known = answers[i] == KILN_OK ? KILN_OK : worse(answers[i], *known);
        }
    }
}
