/* SPDX-License-Identifier: Apache-2.0 */
#include "store/chain/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "entry/entry.h"
#include "os/clock.h"
#include "store/last_miss.h"

static kilni_chain *chain_of(kiln_store *store)
{
    return (kilni_chain *)store;
}

/* ---- counters ---- */

/* Returns true if this tier might contain the chain's counters. */
static bool has_totals(const kilni_tier *tier)
{
    return (kilni_tier_capabilities(tier) & KILNI_STORE_TOTALS) &&
           tier->where.options.write != KILNI_WRITE_NONE;
}

/* Returns true if the chain adds its counters to this tier. */
static bool takes_counters(const kilni_tier *tier)
{
    return has_totals(tier) && kilni_tier_is_written(tier);
}

/* Passes the number of damaged entries to the tier that keeps the totals. That tier writes this
 * number together with the next change of its totals, or when it is closed. */
static void pass_damage_down(kilni_chain *chain)
{
    _Atomic uint64_t *uncounted = &chain->store.uncounted_corrupt;
    bool is_any = atomic_load_explicit(uncounted, memory_order_relaxed) > 0;
    for (size_t i = 0; is_any && i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = takes_counters(tier) ? kilni_tier_peek(tier) : NULL;
        if (asked) {
            uint64_t corrupt = atomic_exchange_explicit(uncounted, 0, memory_order_relaxed);
            atomic_fetch_add_explicit(&asked->uncounted_corrupt, corrupt, memory_order_relaxed);
            return;
        }
    }
}

/* ---- putting ---- */

/* Adds a tier's evictions to the evictions of the chain, because callers read only the chain's
 * number. */
static void take_counts(kilni_chain *chain, kiln_store *tier)
{
    kiln_stats counts;
    kilni_store_take_counts(tier, &counts);
    atomic_fetch_add_explicit(&chain->store.counts.evicted, counts.evicted, memory_order_relaxed);
}

/* Puts an entry into a tier. Returns KILN_MISS if the tier must be skipped now; else as
 * kiln_store_put. */
static kiln_status put_into(kilni_chain *chain, kilni_tier *tier, const kiln_entry *entry)
{
    kiln_store *store = kilni_tier_use(tier);
    if (!store) {
        return KILN_MISS;
    }
    const kiln_status status = kilni_tier_note(tier, kiln_store_put(store, entry));
    kilni_tier_counts_note_put(&tier->counts, status);
    take_counts(chain, store);
    return status;
}

/* Puts an entry of a lower tier into a tier. The entry is put in the form that a directory stores:
 * uncompressed and with the whole key. */
static kiln_status copy_into(kilni_chain *chain, kilni_tier *tier, const kiln_key *key,
                             const kiln_entry *entry)
{
    kiln_entry *plain = NULL;
    kiln_status status = kilni_entry_make_plain(entry, key, &plain);
    if (status == KILN_OK) {
        status = put_into(chain, tier, plain);
        kiln_entry_release(&plain);
    }
    return status;
}

/* Returns true if a fill does not copy the entry to this tier, but may tell the tier of the use. */
static bool is_told(size_t tier, size_t fill)
{
    return fill > 0 && tier >= fill % KILNI_CHAIN_MAX_TIERS;
}

/* Returns the store of a tier that has to be told when an entry was used; NULL: there is none. */
static kiln_store *told_store(kilni_tier *tier)
{
    kiln_store *store = kilni_tier_is_written(tier) ? kilni_tier_peek(tier) : NULL;
    return store && store->ops->fill ? store : NULL;
}

static size_t chain_tier_count(const kiln_store *store)
{
    return ((const kilni_chain *)store)->count;
}

static uint32_t chain_tier_capabilities(const kiln_store *store, size_t tier)
{
    return kilni_tier_capabilities(&((const kilni_chain *)store)->tiers[tier]);
}

static kilni_tier_task chain_tier_task(kiln_store *store, size_t number, size_t fill,
                                       const kiln_key *key)
{
    kilni_chain *chain = chain_of(store);
    kilni_tier *tier = &chain->tiers[number];
    if (is_told(number, fill)) {
        return (fill & KILNI_FILL_REPORTS) && told_store(tier) ? KILNI_TIER_TASK_ALWAYS
                                                               : KILNI_TIER_TASK_NONE;
    }
    const kilni_tier *source = fill > 0 ? &chain->tiers[fill % KILNI_CHAIN_MAX_TIERS] : NULL;
    if ((fill > 0 && !(fill & KILNI_FILL_COPIES)) || !kilni_tier_is_filled(tier, source)) {
        return KILNI_TIER_TASK_NONE;
    }
    /* A capture request is served only once, so one tier is enough. */
    return tier->where.options.write == KILNI_WRITE_FIRST || kilni_store_is_request(key)
               ? KILNI_TIER_TASK_IF_NOT_STORED
               : KILNI_TIER_TASK_ALWAYS;
}

static kiln_status chain_write_to_tier(kiln_store *store, size_t number, size_t fill,
                                       const kiln_key *key, const kiln_entry *entry)
{
    kilni_chain *chain = chain_of(store);
    kilni_tier *tier = &chain->tiers[number];
    if (is_told(number, fill)) {
        kiln_store *told = told_store(tier);
        if (told) {
            kilni_store_fill(told, 1, key, entry);
        }
        return KILN_OK;
    }
    if (fill > 0) {
        return copy_into(chain, tier, key, entry);
    }
    pass_damage_down(chain);
    return put_into(chain, tier, entry);
}

/* Does all tiers' parts of a put or a fill, one after the other. Returns KILN_OK: a tier has done
 * its part; KILN_EXISTS: no tier has stored the entry, and one has the entry in a newer format.
 * Otherwise returns the failure of the first tier that was asked, or KILN_E_IO if no tier was
 * asked.
 */
static kiln_status write_to_tiers(kiln_store *store, size_t fill, const kiln_key *key,
                                  const kiln_entry *entry)
{
    kiln_status result = KILN_E_IO;
    bool was_asked = false;
    for (size_t i = 0; i < chain_of(store)->count; i++) {
        const kilni_tier_task task = chain_tier_task(store, i, fill, key);
        if (task == KILNI_TIER_TASK_NONE ||
            (task == KILNI_TIER_TASK_IF_NOT_STORED && result == KILN_OK)) {
            continue;
        }
        const kiln_status status = chain_write_to_tier(store, i, fill, key, entry);
        if (status == KILN_MISS) {
            continue;
        }
        if (!was_asked || status == KILN_OK || (status == KILN_EXISTS && result != KILN_OK)) {
            result = status;
        }
        was_asked = true;
    }
    return result;
}

static kiln_status chain_put(kiln_store *store, const kiln_entry *entry)
{
    return write_to_tiers(store, 0, kiln_entry_key(entry), entry);
}

static void chain_fill(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry)
{
    write_to_tiers(store, fill, key, entry);
}

static void chain_note_drop(kiln_store *store, size_t tier)
{
    kilni_tier_counts_note_drop(&chain_of(store)->tiers[tier].counts);
}

/* ---- removing ---- */

/* Removes an entry from all writable tiers. Returns the status of a tier that fails or keeps the
 * entry. If there is no such tier, but a tier had the entry, the status is KILN_OK. */
static kiln_status chain_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged)
{
    kilni_chain *chain = chain_of(store);
    kiln_status result = KILN_MISS;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *written = kilni_tier_is_written(tier) ? kilni_tier_use(tier) : NULL;
        if (!written) {
            continue;
        }
        const kiln_status removed =
            kilni_tier_note(tier, kilni_store_remove_judged(written, key, judged));
        result = kilni_store_worse_removal(result, removed);
    }
    return result;
}

/* ---- all tiers ---- */

/* The first tier that accepts the counters gets them. */
static kiln_status chain_add_stats(kiln_store *store, const kiln_stats *delta)
{
    kilni_chain *chain = chain_of(store);
    kiln_status result = KILN_E_IO;
    pass_damage_down(chain);
    kilni_chain_save_counts(chain);
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = takes_counters(tier) ? kilni_tier_use(tier) : NULL;
        result = asked ? kilni_tier_note(tier, kiln_store_add_stats(asked, delta)) : result;
        if (asked && result == KILN_OK) {
            return KILN_OK;
        }
    }
    return result;
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return kilni_u64_add(a, b, &sum) ? sum : KILN_UNLIMITED;
}

/* Adds up the sizes of all tiers. The totals are taken from the first tier that keeps totals. If
 * that tier is read-only, chain_add_stats adds counters to a later tier, so the totals do not
 * include them. The limits of tiers without totals are not added. */
static kiln_status chain_stat(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat)
{
    kilni_chain *chain = chain_of(store);
    kiln_store_stat sum = {0};
    kiln_status result = KILN_E_IO;
    bool totals_are_known = false;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = kilni_tier_use(tier);
        kiln_store_stat stat = {.struct_size = sizeof stat};
        if (!asked || kilni_tier_note(tier, kiln_store_get_stat(asked, flags, &stat)) != KILN_OK) {
            continue;
        }
        result = KILN_OK;
        sum.entries = sum_of(sum.entries, stat.entries);
        sum.bytes = sum_of(sum.bytes, stat.bytes);
        if (!has_totals(tier)) {
            continue;
        }
        sum.max_bytes = sum_of(sum.max_bytes, stat.max_bytes);
        if (!totals_are_known) {
            sum.totals = stat.totals;
            totals_are_known = true;
        }
    }
    *ret_stat = sum;
    return result;
}

static void add_report(kiln_trim_report *sum, const kiln_trim_report *report)
{
    sum->removed += report->removed;
    sum->removed_bytes += report->removed_bytes;
    sum->entries += report->entries;
    sum->bytes += report->bytes;
}

/* Returns the parameters for trimming a tier. In any case a tier is trimmed to its own maximum
 * size. */
static kiln_trim_params trim_params_of(const kilni_tier *tier, const kiln_trim_params *params)
{
    kiln_trim_params wanted = *params;
    uint64_t size = tier->where.options.max_bytes;
    wanted.struct_size = sizeof wanted; /* the caller's struct can be longer */
    if (size > 0 && size < wanted.max_bytes) {
        wanted.max_bytes = size;
    }
    return wanted;
}

/* Trims each writable tier separately, except servers, which remove entries themselves. A dry run
 * includes tiers that are read-only. */
static kiln_status chain_trim(kiln_store *store, const kiln_trim_params *params,
                              kiln_trim_report *ret_report)
{
    kilni_chain *chain = chain_of(store);
    kiln_trim_report sum = {0};
    kiln_status result = KILN_OK;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        bool is_asked = has_totals(tier) &&
                        ((params->flags & KILN_TRIM_DRY_RUN) || kilni_tier_is_written(tier));
        kiln_store *asked = is_asked ? kilni_tier_use(tier) : NULL;
        if (!asked) {
            continue;
        }
        kiln_trim_params wanted = trim_params_of(tier, params);
        kiln_trim_report report = {.struct_size = sizeof report};
        kiln_status status = kilni_tier_note(tier, kiln_store_trim(asked, &wanted, &report));
        take_counts(chain, asked);
        result = result == KILN_OK ? status : result;
        add_report(&sum, &report);
    }
    *ret_report = sum;
    return result;
}

/* ---- the last miss, which is kept where the counters are ---- */

/* Makes the tier record the key in @miss. The tier makes a new entry that records the key. It signs
 * this entry if it has a signing key. */
static kiln_status pass_miss_on(kiln_store *tier, const kiln_entry *miss)
{
    kiln_key *key = NULL;
    kiln_status status = kilni_last_miss_key_of(miss, &key);
    if (status == KILN_OK) {
        kiln_store_note_miss(tier, key);
    }
    kiln_key_release(&key);
    return status;
}

static kiln_status chain_note_miss(kiln_store *store, const kiln_entry *miss)
{
    kilni_chain *chain = chain_of(store);
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = takes_counters(tier) ? kilni_tier_peek(tier) : NULL;
        if (asked) {
            return pass_miss_on(asked, miss);
        }
    }
    return KILN_E_IO;
}

static kiln_status chain_last_miss(kiln_store *store, kiln_entry **ret_miss)
{
    kilni_chain *chain = chain_of(store);
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = takes_counters(tier) ? kilni_tier_use(tier) : NULL;
        if (asked && asked->ops->last_miss) {
            return kilni_tier_note(tier, asked->ops->last_miss(asked, ret_miss));
        }
    }
    return KILN_MISS;
}

/* ---- the uses of devices, which the servers keep ---- */

static void chain_note_device(kiln_store *store, size_t number, const kiln_entry *used)
{
    kilni_tier *tier = &chain_of(store)->tiers[number];
    kilni_store_note_device(kilni_tier_is_written(tier) ? kilni_tier_peek(tier) : NULL, 0, used);
}

/* A failure takes precedence over a miss, because the server that failed may know of a use. A use
 * that is known takes precedence over a miss. */
static kiln_status chain_device_use(kiln_store *store, const kiln_key *key, int64_t *ret_last_s)
{
    kilni_chain *chain = chain_of(store);
    kiln_status result = KILN_E_UNSUPPORTED;
    int64_t latest_s = INT64_MIN;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        if (!(kilni_tier_capabilities(tier) & KILNI_STORE_SENDS)) {
            continue;
        }
        kiln_store *asked = kilni_tier_use(tier);
        int64_t last_s = INT64_MIN;
        const kiln_status status =
            asked ? kilni_tier_note(tier, asked->ops->device_use(asked, key, &last_s)) : KILN_E_IO;
        if (status != KILN_OK && status != KILN_MISS) {
            return status;
        }
        result = status == KILN_OK || result != KILN_OK ? status : result;
        latest_s = last_s > latest_s ? last_s : latest_s;
    }
    if (result == KILN_OK) {
        *ret_last_s = latest_s;
    }
    return result;
}

/* ---- the known drivers, which are kept where the counters are ---- */

static bool chain_is_new_driver(kiln_store *store, uint64_t driver)
{
    kilni_chain *chain = chain_of(store);
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = takes_counters(tier) ? kilni_tier_peek(tier) : NULL;
        if (asked && asked->ops->is_new_driver) {
            return asked->ops->is_new_driver(asked, driver);
        }
    }
    return false;
}

/* ---- the journal, which is kept where the counters are ---- */

static kiln_status chain_journal_append(kiln_store *store, const void *records, size_t size)
{
    kilni_chain *chain = chain_of(store);
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = takes_counters(tier) ? kilni_tier_peek(tier) : NULL;
        if (asked) {
            return kilni_store_append_to_journal(asked, records, size);
        }
    }
    return KILN_E_IO;
}

static kiln_status chain_journal_read(kiln_store *store, kiln_journal_fn visit, void *user,
                                      kiln_journal_report *ret_report)
{
    kilni_chain *chain = chain_of(store);
    kiln_status status = KILN_MISS;
    for (size_t i = 0; i < chain->count && status == KILN_MISS; i++) {
        kilni_tier *tier = &chain->tiers[i];
        kiln_store *asked = has_totals(tier) ? kilni_tier_use(tier) : NULL;
        if (asked && asked->ops->journal_read) {
            status =
                kilni_tier_note(tier, asked->ops->journal_read(asked, visit, user, ret_report));
        }
    }
    return status;
}

/* ---- opening ---- */

static void chain_close(kiln_store *store)
{
    kilni_chain *chain = chain_of(store);
    pass_damage_down(chain);
    kilni_chain_save_counts(chain);
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier_close(&chain->tiers[i]);
    }
    free(chain);
}

static const char *chain_folder(const kiln_store *store)
{
    const kilni_chain *chain = (const kilni_chain *)store;
    const char *folder = NULL;
    for (size_t i = 0; i < chain->count && !folder; i++) {
        folder = has_totals(&chain->tiers[i]) ? chain->tiers[i].where.path : NULL;
    }
    return folder;
}

static const kilni_store_ops chain_ops = {
    .close = chain_close,
    .get = kilni_chain_get,
    .get_elsewhere = kilni_chain_get_elsewhere,
    .get_many = kilni_chain_get_many,
    .read_digest = kilni_chain_read_digest,
    .read_digests = kilni_chain_read_digests,
    .fill = chain_fill,
    .put = chain_put,
    .remove = chain_remove,
    .contains = kilni_chain_contains,
    .contains_many = kilni_chain_contains_many,
    .lease = kilni_chain_lease,
    .lease_release = kilni_chain_lease_release,
    .each = kilni_chain_each,
    .each_of_digest = kilni_chain_each_of_digest,
    .each_copy = kilni_chain_each_copy,
    .each_request = kilni_chain_each_request,
    .item_info = kilni_chain_item_info,
    .item_read = kilni_chain_item_read,
    .item_remove = kilni_chain_item_remove,
    .item_quarantine = kilni_chain_item_quarantine,
    .stat = chain_stat,
    .add_stats = chain_add_stats,
    .trim = chain_trim,
    .note_miss = chain_note_miss,
    .last_miss = chain_last_miss,
    .is_new_driver = chain_is_new_driver,
    .note_device = chain_note_device,
    .device_use = chain_device_use,
    .journal_append = chain_journal_append,
    .journal_read = chain_journal_read,
    .each_tier = kilni_chain_each_tier,
    .tier_count = chain_tier_count,
    .tier_capabilities = chain_tier_capabilities,
    .tier_task = chain_tier_task,
    .write_to_tier = chain_write_to_tier,
    .note_drop = chain_note_drop,
    .lease_note_stored = kilni_chain_lease_note_stored,
    .folder = chain_folder,
};

/* Copies the path of the key file, because the tier can be opened after the caller has freed the
 * path. All other texts that the tier needs are in the memory of the location. */
static kiln_status keep_key_file(kilni_tier *tier, kiln_error *error)
{
    kilni_store_options *options = &tier->where.options;
    if (options->key_file) {
        tier->key_file = strdup(options->key_file);
        if (!tier->key_file) {
            return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
        }
        options->key_file = tier->key_file;
    }
    return KILN_OK;
}

/* Returns true if a chain's text might contain a server's password. A '|' can be a part of the
 * password. */
static bool may_have_password(const char *text)
{
    const char *host = strstr(text, "//");
    const char *colon = host ? strchr(host, ':') : NULL;
    return colon && strchr(colon, '@');
}

/* Replaces a message about a tier, because the message might contain a part of a password. */
static kiln_status hide_tier(const kilni_chain *chain, kiln_error *error)
{
    return kilni_error_set(error, KILN_E_PARSE, 0,
                           "tier %zu is not valid, and is not shown because it may contain a "
                           "password. A URL must not contain a password, which others could "
                           "read: use password-file=",
                           chain->count + 1);
}

/* Adds the tier whose location is the first @length characters of @location. */
static kiln_status add_tier(kilni_chain *chain, const char *location, size_t length,
                            const kiln_store_params *params,
                            const kilni_store_engine *const *engines, kiln_error *error)
{
    if (chain->count == KILNI_CHAIN_MAX_TIERS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "a chain has at most %u tiers",
                               KILNI_CHAIN_MAX_TIERS);
    }
    if (length == 0) {
        return kilni_error_set(error, KILN_E_PARSE, 0, "the chain has an empty tier");
    }
    kilni_tier *tier = &chain->tiers[chain->count];
    char *name = strndup(location, length);
    if (!name) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    kiln_status status = kilni_location_parse(name, params, engines, &tier->where, error);
    if (status != KILN_OK) {
        free(name);
        return status;
    }
    tier->name = name;
    tier->number = (unsigned)chain->count++;
    tier->chain = &chain->store;
    if (kilni_tier_is_written(tier)) {
        chain->store.capabilities |= KILNI_STORE_WRITABLE;
    }
    chain->store.capabilities |= kilni_tier_capabilities(tier) & KILNI_STORE_LEASES;
    if (!kilni_tier_is_authenticated(tier)) {
        /* The chain itself has no keys that could authenticate the tier's entries. */
        chain->store.capabilities |= kilni_tier_capabilities(tier) & KILNI_STORE_FOREIGN;
    }
    return keep_key_file(tier, error);
}

static kiln_status add_tiers(kilni_chain *chain, const char *location,
                             const kiln_store_params *params,
                             const kilni_store_engine *const *engines, kiln_error *error)
{
    const bool is_secret = may_have_password(location);
    for (;;) {
        size_t length = strcspn(location, "|");
        kiln_status status = add_tier(chain, location, length, params, engines, error);
        if (status != KILN_OK && status != KILN_E_NO_MEMORY && is_secret) {
            return hide_tier(chain, error);
        }
        if (status != KILN_OK || location[length] == '\0') {
            return status;
        }
        location += length + 1;
    }
}

/* Returns true if the chain signs entries that are put, but can find entries that have a different
 * signature, or none. */
static bool vouches_for_others(const kilni_chain *chain)
{
    bool signs = false, finds_others = false;
    for (size_t i = 0; i < chain->count; i++) {
        const kilni_tier *tier = &chain->tiers[i];
        signs |= kilni_tier_is_written(tier) && kilni_tier_signs(tier);
        finds_others |= !kilni_tier_is_authenticated(tier) ||
                        (tier->where.engine->needs_trust && tier->where.options.secret_key_file);
    }
    return signs && finds_others;
}

/* Finds the directory in which processes share the state of the chain's servers. */
static void find_home(kilni_chain *chain)
{
    for (size_t i = 0; i < chain->count && !chain->home; i++) {
        chain->home = takes_counters(&chain->tiers[i]) ? &chain->tiers[i] : NULL;
    }
    for (size_t i = 0; i < chain->count; i++) {
        chain->tiers[i].where.options.state_folder = chain->home ? chain->home->where.path : NULL;
    }
}

/* Opens the tiers. Returns KILN_OK if at least one tier could be opened. Otherwise returns the
 * first status that is not KILN_MISS, or KILN_MISS if all tiers returned it. */
static kiln_status open_tiers(kilni_chain *chain, kiln_error *error)
{
    bool is_any_open = false;
    kiln_status result = KILN_MISS;
    for (size_t i = 0; i < chain->count; i++) {
        kiln_error why = {.struct_size = sizeof why};
        kiln_status status = kilni_tier_open(&chain->tiers[i], &why);
        is_any_open |= status == KILN_OK;
        if (status == KILN_E_NO_MEMORY) {
            return kilni_error_set(error, status, 0, "out of memory");
        }
        if (status != KILN_OK && result == KILN_MISS) {
            result = kilni_error_set(error, status, why.system_error, "%s", why.text);
        }
    }
    return is_any_open ? KILN_OK : result;
}

static uint64_t largest_entry_of(const kilni_chain *chain)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < chain->count; i++) {
        const uint64_t of_tier = chain->tiers[i].where.options.max_entry_bytes;
        largest = of_tier > largest ? of_tier : largest;
    }
    return largest;
}

kiln_status kilni_chain_open(const char *location, const kiln_store_params *params,
                             const kilni_store_engine *const *engines, kiln_store **ret_store,
                             kiln_error *error)
{
    kilni_chain *chain = calloc(1, sizeof *chain);
    if (!chain) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    chain->store.ops = &chain_ops;
    kiln_status status = add_tiers(chain, location, params, engines, error);
    if (status == KILN_OK) {
        /* Each tier has its own limits. */
        chain->store.options.max_bytes = KILN_UNLIMITED;
        chain->store.options.max_entry_bytes = largest_entry_of(chain);
        chain->store.options.flags = chain->tiers[0].where.options.flags;
        chain->store.options.log = chain->tiers[0].where.options.log;
        chain->store.capabilities |= vouches_for_others(chain) ? KILNI_STORE_VOUCHES : 0u;
        find_home(chain);
        status = open_tiers(chain, error);
    }
    if (status != KILN_OK) {
        chain_close(&chain->store);
        return status;
    }
    *ret_store = &chain->store;
    return KILN_OK;
}
