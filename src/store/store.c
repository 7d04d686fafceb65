/* SPDX-License-Identifier: Apache-2.0
 *
 * The public calls for a store. They contain everything that is the same for all engines.
 */
#include "store/store.h"

#include <pthread.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/signature.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "entry/entry.h"
#include "os/file_limit.h"
#include "store/device_use.h"
#include "store/engine.h"
#include "store/journal_file.h"
#include "store/journal_record.h"
#include "store/key_file.h"
#include "store/last_miss.h"
#include "store/signing/signers.h"

#define SENT_LEVEL 3 /* the compression level */

static bool is_writable(const kiln_store *store)
{
    return store->capabilities & KILNI_STORE_WRITABLE;
}

/* Reads the signing key from a key file; sets *@ret_key to NULL if @path is NULL. */
static kiln_status read_signing_key(const char *path, kilni_signing_key **ret_key,
                                    kiln_error *error)
{
    *ret_key = NULL;
    if (!path) {
        return KILN_OK;
    }
    kilni_signing_key *key = malloc(sizeof *key);
    if (!key) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    kiln_status status = kilni_key_file_read(path, key, error);
    if (status != KILN_OK) {
        free(key);
        return status;
    }
    *ret_key = key;
    return KILN_OK;
}

static void forget_signing_key(kilni_signing_key *key)
{
    if (key) {
        sodium_memzero(key, sizeof *key);
        free(key);
    }
}

/* Without these conditions, a user could write what others run. */
static bool may_trust_any_owner(const kilni_store_options *options)
{
    return options->key_file && options->flags & KILN_STORE_READONLY &&
           options->layout == KILNI_STORE_LAYOUT_KILN;
}

/* The key file is read first. If it cannot be read, no directory is created and no entry is
 * trusted. */
kiln_status kilni_store_open_with(const kilni_store_engine *engine, const char *path,
                                  const kilni_store_options *options, kiln_store **ret_store,
                                  kiln_error *error)
{
    if (options->trusts_any_owner && !may_trust_any_owner(options)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "owner=any needs readonly=1 and a signing key (key-file=), in "
                               "layout kiln");
    }
    kilni_signing_key *key;
    kilni_signers *signers = NULL;
    kiln_status status = read_signing_key(options->key_file, &key, error);
    if (status != KILN_OK) {
        return status;
    }
    if (engine->needs_trust) {
        status = kilni_signers_read(options, engine->noun, &signers, error);
    }
    kilni_store_options kept = *options;
    kept.key_file = kept.secret_key_file = NULL;
    memset(kept.trusted_key_files, 0, sizeof kept.trusted_key_files);
    kiln_store *store;
    status = status == KILN_OK ? engine->open(path, &kept, &store, error) : status;
    if (status != KILN_OK) {
        kilni_signers_free(signers);
        forget_signing_key(key);
        return status;
    }
    store->options.password_file = NULL;
    store->options.token_file = NULL;
    store->options.password = NULL;
    store->options.credentials_file = NULL;
    store->options.access_key = NULL;
    store->options.secret_key = NULL;
    store->options.session_token = NULL;
    store->options.endpoint = NULL;
    store->options.region = NULL;
    store->options.ca_file = NULL;
    store->options.certificate_file = NULL;
    store->options.certificate_key_file = NULL;
    store->options.state_folder = NULL;
    store->signing_key = key;
    store->signers = signers;
    if (signers && signers->can_sign) {
        store->capabilities |= KILNI_STORE_VOUCHES;
    }
    *ret_store = store;
    return KILN_OK;
}

void kiln_store_close(kiln_store **store)
{
    if (!store || !*store) {
        return;
    }
    kilni_signing_key *key = (*store)->signing_key;
    kilni_signers *signers = (*store)->signers;
    (*store)->ops->close(*store);
    kilni_signers_free(signers);
    forget_signing_key(key);
    *store = NULL;
}

static void count_if_damaged(kiln_store *store, kiln_status status)
{
    if (status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED) {
        atomic_fetch_add_explicit(&store->counts.corrupt, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&store->uncounted_corrupt, 1, memory_order_relaxed);
    }
}

bool kilni_store_has_kind_of_key(const kiln_entry *entry)
{
    return (kiln_entry_kind_of(entry) == KILN_ENTRY_REQUEST) ==
           kilni_store_is_request(kiln_entry_key(entry));
}

/* Decides what the caller gets of an engine's answer. If the caller is allowed to have the entry,
 * this function sets @ret_entry to @found. Returns the status for the caller. */
static kiln_status hand_out(kiln_status status, kiln_entry *found, kiln_entry **ret_entry)
{
    if (status == KILN_OK && !kilni_store_has_kind_of_key(found)) {
        kiln_entry_release(&found);
        return KILN_E_CORRUPT;
    }
    if (status == KILN_OK) {
        *ret_entry = found;
    }
    return status;
}

static kiln_status ask(kiln_store *store, const kiln_key *key, const kiln_store *missed_in,
                       kiln_entry **ret_entry, size_t *ret_fill)
{
    if (missed_in == store) {
        return KILN_MISS;
    }
    return missed_in && store->ops->get_elsewhere
               ? store->ops->get_elsewhere(store, key, missed_in, ret_entry, ret_fill)
               : store->ops->get(store, key, ret_entry, ret_fill);
}

kiln_status kilni_store_find(kiln_store *store, const kiln_key *key, const kiln_lease *lease,
                             bool is_again, kiln_entry **ret_entry, size_t *ret_fill)
{
    size_t fill = 0;
    *ret_fill = 0;
    if (!store) {
        return KILN_MISS;
    }
    kiln_entry *found = NULL;
    kiln_status status = ask(store, key, lease ? lease->missed_in : NULL, &found, &fill);
    status = hand_out(status, found, ret_entry);
    if (status == KILN_OK && store->ops->fill) {
        *ret_fill = fill;
    }
    if (!is_again) {
        count_if_damaged(store, status);
    }
    return status;
}

/* Engines release an entry that they do not return. So a failed look-up has nothing to release. */
static void hand_out_many(kilni_lookup *lookups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_entry *found = lookups[i].entry;
        lookups[i].entry = NULL;
        lookups[i].status = hand_out(lookups[i].status, found, &lookups[i].entry);
    }
}

void kilni_store_get_many_from_tier(kiln_store *tier, kilni_lookup *lookups, size_t count)
{
    tier->ops->get_many(tier, lookups, count);
    hand_out_many(lookups, count);
}

static void find_block(kiln_store *store, kilni_lookup *lookups, size_t count, bool is_again)
{
    kilni_store_get_many_from_tier(store, lookups, count);
    for (size_t i = 0; i < count; i++) {
        lookups[i].fill = lookups[i].status == KILN_OK && store->ops->fill ? lookups[i].fill : 0;
        if (!is_again) {
            count_if_damaged(store, lookups[i].status);
        }
    }
}

static size_t block_size(size_t left)
{
    return left < KILNI_STORE_MANY ? left : KILNI_STORE_MANY;
}

void kilni_store_find_many(kiln_store *store, kilni_lookup *lookups, size_t count, bool is_again)
{
    const bool has_blocks = store && store->ops->get_many && count > 1;
    for (size_t i = 0; i < count; i++) {
        lookups[i] = (kilni_lookup){.key = lookups[i].key};
        if (!has_blocks) {
            lookups[i].status = kilni_store_find(store, lookups[i].key, NULL, is_again,
                                                 &lookups[i].entry, &lookups[i].fill);
        }
    }
    for (size_t i = 0; has_blocks && i < count; i += KILNI_STORE_MANY) {
        find_block(store, lookups + i, block_size(count - i), is_again);
    }
}

typedef struct digest_block {
    size_t first;
    kilni_digest_fn *visit;
    void *user;
} digest_block;

static void visit_in_block(void *user, size_t index, kiln_status status, const kiln_entry *entry)
{
    const digest_block *block = user;
    block->visit(block->user, block->first + index, status, entry);
}

static void read_digest(kiln_store *store, const kiln_digest *digest, size_t index,
                        kilni_digest_fn *visit, void *user)
{
    kiln_entry *entry = NULL;
    const kiln_status status = store->ops->read_digest(store, digest, &entry);
    visit(user, index, status, entry);
    kiln_entry_release(&entry);
}

void kilni_store_read_digests(kiln_store *store, const kiln_digest *digests, size_t count,
                              kilni_digest_fn *visit, void *user)
{
    for (size_t i = 0; !store->ops->read_digests && i < count; i++) {
        read_digest(store, &digests[i], i, visit, user);
    }
    for (size_t i = 0; store->ops->read_digests && i < count; i += KILNI_STORE_MANY) {
        digest_block block = {.first = i, .visit = visit, .user = user};
        store->ops->read_digests(store, digests + i, block_size(count - i), visit_in_block, &block);
    }
}

kiln_status kilni_store_get_from_tier(kiln_store *tier, const kiln_key *key, kiln_entry **ret_entry,
                                      bool *ret_first_use)
{
    kiln_entry *found = NULL;
    size_t fill = 0;
    const kiln_status status = tier->ops->get(tier, key, &found, &fill);
    *ret_first_use = fill > 0;
    return hand_out(status, found, ret_entry);
}

void kilni_store_fill(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry)
{
    if (fill > 0 && store->ops->fill) {
        store->ops->fill(store, fill, key, entry);
    }
}

kiln_status kiln_store_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry)
{
    if (!key || !ret_entry) {
        return KILN_E_INVALID;
    }
    size_t fill;
    const kiln_status status = kilni_store_find(store, key, NULL, false, ret_entry, &fill);
    if (status == KILN_OK) {
        kilni_store_fill(store, fill, key, *ret_entry);
    }
    return status;
}

static bool has_all(const kiln_key *const *keys, size_t count)
{
    for (size_t i = 0; keys && i < count; i++) {
        if (!keys[i]) {
            return false;
        }
    }
    return keys || count == 0;
}

/* @ret_statuses  can be NULL */
static void get_block(kiln_store *store, const kiln_key *const *keys, size_t count,
                      kiln_entry **ret_entries, kiln_status *ret_statuses)
{
    kilni_lookup lookups[KILNI_STORE_MANY];
    for (size_t i = 0; i < count; i++) {
        lookups[i].key = keys[i];
    }
    kilni_store_find_many(store, lookups, count, false);
    for (size_t i = 0; i < count; i++) {
        ret_entries[i] = lookups[i].entry;
        if (ret_statuses) {
            ret_statuses[i] = lookups[i].status;
        }
        if (lookups[i].status == KILN_OK) {
            kilni_store_fill(store, lookups[i].fill, keys[i], lookups[i].entry);
        }
    }
}

kiln_status kiln_store_get_many(kiln_store *store, const kiln_key *const *keys, size_t count,
                                kiln_entry **ret_entries, kiln_status *ret_statuses)
{
    if (!has_all(keys, count) || (!ret_entries && count > 0)) {
        return KILN_E_INVALID;
    }
    for (size_t i = 0; i < count; i += KILNI_STORE_MANY) {
        get_block(store, keys + i, block_size(count - i), ret_entries + i,
                  ret_statuses ? ret_statuses + i : NULL);
    }
    return KILN_OK;
}

static kiln_status put(kiln_store *store, const kiln_entry *entry)
{
    const size_t size = kiln_entry_encoding(entry).size;
    if (size > store->options.max_bytes || size > store->options.max_entry_bytes) {
        return KILN_E_TOO_LARGE;
    }
    return store->ops->put(store, entry);
}

kiln_status kilni_store_prepare(kiln_store *store, const kiln_entry *entry,
                                kiln_entry **ret_prepared)
{
    const bool is_sent = store->capabilities & KILNI_STORE_SENDS;
    kilni_entry_signer signer;
    const bool has_signers = kilni_signers_prepare(store->signers, &signer);
    const kilni_entry_form form = {.is_stripped = is_sent,
                                   .level = is_sent ? SENT_LEVEL : 0,
                                   .signing_key = store->signing_key,
                                   .signer = has_signers ? &signer : NULL};
    return kilni_entry_prepare(entry, &form, ret_prepared);
}

static kiln_status prepare_and_put(kiln_store *store, const kiln_entry *entry)
{
    kiln_entry *prepared = NULL;
    kiln_status status = kilni_store_prepare(store, entry, &prepared);
    if (status == KILN_OK) {
        status = put(store, prepared);
    }
    kiln_entry_release(&prepared);
    return status;
}

static void leave_file_limit(void *unused)
{
    (void)unused;
    kilni_file_limit_end();
}

static kiln_status put_uncounted(kiln_store *store, const kiln_entry *entry)
{
    if (!is_writable(store)) {
        return KILN_E_READONLY;
    }
    if (store->options.max_bytes == 0) {
        return KILN_E_FULL;
    }
    kiln_status status = KILN_OK;
    /* SIGXFSZ is blocked once for everything that a put writes. The cleanup handler also runs if a
     * log callback throws an exception. */
    kilni_file_limit_begin();
    pthread_cleanup_push(leave_file_limit, NULL);
    status = prepare_and_put(store, entry);
    pthread_cleanup_pop(1);
    return status;
}

void kilni_store_count_put(kiln_store *store, const kiln_entry *entry)
{
    if (!kilni_store_is_request(kiln_entry_key(entry))) {
        atomic_fetch_add_explicit(&store->counts.puts, 1, memory_order_relaxed);
    }
}

kiln_status kiln_store_put(kiln_store *store, const kiln_entry *entry)
{
    if (!entry || !kilni_store_has_kind_of_key(entry)) {
        return KILN_E_INVALID;
    }
    if (!store) {
        return KILN_OK;
    }
    const kiln_status status = put_uncounted(store, entry);
    if (status == KILN_OK) {
        kilni_store_count_put(store, entry);
    }
    return status;
}

size_t kilni_store_tier_count(const kiln_store *store)
{
    return !store ? 0 : store->ops->tier_count ? store->ops->tier_count(store) : 1;
}

uint32_t kilni_store_tier_capabilities(const kiln_store *store, size_t tier)
{
    return store->ops->tier_capabilities ? store->ops->tier_capabilities(store, tier)
                                         : store->capabilities;
}

kilni_tier_task kilni_store_tier_task(kiln_store *store, size_t tier, size_t fill,
                                      const kiln_key *key)
{
    return store->ops->tier_task ? store->ops->tier_task(store, tier, fill, key)
                                 : KILNI_TIER_TASK_ALWAYS;
}

kiln_status kilni_store_write_to_tier(kiln_store *store, size_t tier, size_t fill,
                                      const kiln_key *key, const kiln_entry *entry)
{
    kiln_status status = KILN_OK;
    if (store->ops->write_to_tier) {
        status = store->ops->write_to_tier(store, tier, fill, key, entry);
    } else if (fill > 0) {
        kilni_store_fill(store, fill, key, entry);
    } else {
        status = kilni_store_has_kind_of_key(entry) ? put_uncounted(store, entry) : KILN_E_INVALID;
    }
    if (status == KILN_OK) {
        kilni_store_note_device(store, tier, entry);
    }
    return status;
}

void kilni_store_note_drop(kiln_store *store, size_t tier)
{
    if (store->ops->note_drop) {
        store->ops->note_drop(store, tier);
    }
}

kiln_status kiln_store_remove(kiln_store *store, const kiln_key *key)
{
    if (!key) {
        return KILN_E_INVALID;
    }
    return kilni_store_remove_judged(store, key, NULL);
}

kiln_status kiln_store_contains(kiln_store *store, const kiln_key *key)
{
    if (!key) {
        return KILN_E_INVALID;
    }
    return store ? store->ops->contains(store, key) : KILN_MISS;
}

kiln_status kiln_store_contains_many(kiln_store *store, const kiln_key *const *keys, size_t count,
                                     kiln_status *ret_statuses)
{
    if (!has_all(keys, count) || (!ret_statuses && count > 0)) {
        return KILN_E_INVALID;
    }
    const bool has_blocks = store && store->ops->contains_many;
    for (size_t i = 0; !has_blocks && i < count; i++) {
        ret_statuses[i] = kiln_store_contains(store, keys[i]);
    }
    for (size_t i = 0; has_blocks && i < count; i += KILNI_STORE_MANY) {
        store->ops->contains_many(store, keys + i, block_size(count - i), ret_statuses + i);
    }
    return KILN_OK;
}

kiln_status kiln_store_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                             kiln_lease **ret_lease)
{
    return kilni_store_lease(store, key, 0, wait_ns, ret_lease);
}

kiln_status kilni_store_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                              uint64_t wait_ns, kiln_lease **ret_lease)
{
    if (!key || !ret_lease) {
        return KILN_E_INVALID;
    }
    if (!(kilni_store_capabilities(store) & KILNI_STORE_LEASES)) {
        return KILN_E_UNSUPPORTED;
    }
    return store->ops->lease(store, key, build_ns, wait_ns, ret_lease);
}

void kiln_lease_release(kiln_lease **lease)
{
    if (!lease || !*lease) {
        return;
    }
    (*lease)->ops->lease_release(*lease);
    *lease = NULL;
}

void kilni_lease_note_stored(kiln_lease *lease, size_t tier)
{
    if (lease && lease->ops->lease_note_stored) {
        lease->ops->lease_note_stored(lease, tier);
    }
}

kiln_status kiln_item_get_info(kiln_item *item, kiln_item_info *ret_info)
{
    if (!item || !ret_info) {
        return KILN_E_INVALID;
    }
    kiln_item_info info = {0};
    kiln_status status = item->store->ops->item_info(item, &info);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_sized_struct_copy_out(ret_info, &info, sizeof info) ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_item_read(kiln_item *item, kiln_entry **ret_entry)
{
    if (!item || !ret_entry) {
        return KILN_E_INVALID;
    }
    kiln_entry *found = NULL;
    const kiln_status status = item->store->ops->item_read(item, &found);
    return hand_out(status, found, ret_entry);
}

kiln_status kiln_item_remove(kiln_item *item)
{
    if (!item) {
        return KILN_E_INVALID;
    }
    return is_writable(item->store) ? item->store->ops->item_remove(item) : KILN_E_READONLY;
}

kiln_status kiln_item_quarantine(kiln_item *item)
{
    if (!item) {
        return KILN_E_INVALID;
    }
    if (!is_writable(item->store)) {
        return KILN_E_READONLY;
    }
    return item->store->ops->item_quarantine ? item->store->ops->item_quarantine(item)
                                             : KILN_E_UNSUPPORTED;
}

kiln_status kiln_store_each(kiln_store *store, kiln_item_fn visit, void *user)
{
    if (!visit) {
        return KILN_E_INVALID;
    }
    return store ? store->ops->each(store, visit, user) : KILN_OK;
}

typedef struct digest_walk {
    const kiln_digest *digest;
    kiln_item_fn visit;
    void *user;
} digest_walk;

static int visit_if_of_digest(void *user, kiln_item *item)
{
    const digest_walk *walk = user;
    kiln_item_info info = {.struct_size = sizeof info};
    const bool is_wanted = kiln_item_get_info(item, &info) == KILN_OK &&
                           memcmp(&info.digest, walk->digest, sizeof info.digest) == 0;
    return is_wanted ? walk->visit(walk->user, item) : 0;
}

kiln_status kiln_store_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                      kiln_item_fn visit, void *user)
{
    if (!digest || !visit) {
        return KILN_E_INVALID;
    }
    if (!store) {
        return KILN_OK;
    }
    const kiln_status status = store->ops->each_of_digest(store, digest, visit, user);
    if (status != KILN_E_UNSUPPORTED) {
        return status;
    }
    digest_walk walk = {.digest = digest, .visit = visit, .user = user};
    return store->ops->each(store, visit_if_of_digest, &walk);
}

kiln_status kiln_store_each_request(kiln_store *store, kiln_item_fn visit, void *user)
{
    if (!visit) {
        return KILN_E_INVALID;
    }
    return store ? store->ops->each_request(store, visit, user) : KILN_OK;
}

kiln_status kiln_store_get_stat(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat)
{
    if (!ret_stat) {
        return KILN_E_INVALID;
    }
    if (flags & ~(uint32_t)KILN_STAT_KNOWN) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_store_stat stat = {0};
    kiln_status status = store ? store->ops->stat(store, flags, &stat) : KILN_OK;
    if (status != KILN_OK) {
        return status;
    }
    return kilni_sized_struct_copy_out(ret_stat, &stat, sizeof stat) ? KILN_OK : KILN_E_INVALID;
}

kiln_status kiln_store_add_stats(kiln_store *store, const kiln_stats *delta)
{
    if (!delta) {
        return KILN_E_INVALID;
    }
    if (!store) {
        return KILN_OK;
    }
    return is_writable(store) ? store->ops->add_stats(store, delta) : KILN_E_READONLY;
}

#define TRIM_FLAGS (KILN_TRIM_BY_SIZE | KILN_TRIM_DRY_RUN | KILN_TRIM_NEWER)

static kiln_status read_trim_params(const kiln_trim_params *given, kiln_trim_params *ret_params)
{
    kiln_status status = kilni_sized_struct_copy(given, ret_params, sizeof *ret_params);
    if (status == KILN_OK && (ret_params->flags & ~TRIM_FLAGS)) {
        status = KILN_E_UNSUPPORTED;
    }
    return status;
}

kiln_status kiln_store_trim(kiln_store *store, const kiln_trim_params *params,
                            kiln_trim_report *ret_report)
{
    if (!params || (ret_report && !kilni_sized_struct_is_valid(ret_report))) {
        return KILN_E_INVALID;
    }
    kiln_trim_params wanted;
    kiln_status status = read_trim_params(params, &wanted);
    kiln_trim_report report = {0};
    if (status == KILN_OK && store) {
        if (!is_writable(store) && !(wanted.flags & KILN_TRIM_DRY_RUN)) {
            return KILN_E_READONLY;
        }
        status = store->ops->trim ? store->ops->trim(store, &wanted, &report) : KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK && ret_report) {
        kilni_sized_struct_copy_out(ret_report, &report, sizeof report);
    }
    return status;
}

typedef struct verification {
    kiln_verify_fn report;
    void *user;
    kiln_verify_report result;
    kiln_status status;
} verification;

static const char *why_not(kiln_status status)
{
    switch (status) {
    case KILN_E_CORRUPT:
        return "its bytes are damaged, or it has another entry's name";
    case KILN_E_UNAUTHENTICATED:
        return "it is not signed, or not with this key or a trusted one, or no longer valid";
    case KILN_E_DENIED:
        return "the file is not trusted: owner, mode or kind";
    default:
        return kiln_status_text(status);
    }
}

static int verify_item(void *user, kiln_item *item)
{
    verification *work = user;
    kiln_entry *entry = NULL;
    kiln_status status = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    if (status == KILN_MISS) {
        return 0;
    }
    if (status == KILN_E_NO_MEMORY) {
        work->status = status;
        return 1;
    }
    work->result.checked++;
    work->result.ok += status == KILN_OK;
    work->result.newer += status == KILN_E_VERSION;
    work->result.unauthenticated += status == KILN_E_UNAUTHENTICATED;
    work->result.corrupt +=
        status != KILN_OK && status != KILN_E_VERSION && status != KILN_E_UNAUTHENTICATED;
    if (work->report) {
        work->report(work->user, item, status, status == KILN_OK ? NULL : why_not(status));
    }
    return 0;
}

kiln_status kiln_store_verify(kiln_store *store, kiln_verify_fn report, void *user,
                              kiln_verify_report *ret_report)
{
    if (!ret_report || !kilni_sized_struct_is_valid(ret_report)) {
        return KILN_E_INVALID;
    }
    verification work = {.report = report, .user = user};
    kiln_status status = store && store->ops->each_copy
                             ? store->ops->each_copy(store, verify_item, &work)
                             : kiln_store_each(store, verify_item, &work);
    if (status == KILN_OK) {
        status = work.status;
    }
    kilni_sized_struct_copy_out(ret_report, &work.result, sizeof work.result);
    return status;
}

kiln_status kiln_store_each_tier(kiln_store *store, kiln_tier_fn visit, void *user)
{
    if (!visit) {
        return KILN_E_INVALID;
    }
    if (store && store->ops->each_tier) {
        store->ops->each_tier(store, visit, user);
    }
    return KILN_OK;
}

/* ---- the last miss ---- */

static kiln_status sign(const kiln_store *store, kiln_entry **entry)
{
    kiln_entry *plain = *entry;
    kiln_status status = kilni_entry_add_mac(plain, store->signing_key, entry);
    if (status == KILN_OK) {
        kiln_entry_release(&plain);
    }
    return status;
}

void kiln_store_note_miss(kiln_store *store, const kiln_key *key)
{
    if (!store || !key || !(store->options.flags & KILN_STORE_NOTE_MISSES) || !is_writable(store) ||
        !store->ops->note_miss) {
        return;
    }
    kiln_entry *miss = NULL;
    kiln_status status = kilni_last_miss_entry_of(key, &miss);
    if (status == KILN_OK && store->signing_key) {
        status = sign(store, &miss);
    }
    if (status == KILN_OK) {
        store->ops->note_miss(store, miss);
    }
    kiln_entry_release(&miss);
}

kiln_status kiln_store_get_last_miss(kiln_store *store, kiln_key **ret_key, int64_t *ret_missed_s)
{
    if (!ret_key || !ret_missed_s) {
        return KILN_E_INVALID;
    }
    if (!store) {
        return KILN_MISS;
    }
    if (!store->ops->last_miss) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_entry *miss = NULL;
    kiln_status status = store->ops->last_miss(store, &miss);
    if (status == KILN_OK) {
        status = kilni_last_miss_key_of(miss, ret_key);
    }
    if (status == KILN_OK) {
        *ret_missed_s = kiln_entry_provenance(miss).created_s;
    }
    kiln_entry_release(&miss);
    return status;
}

/* ---- devices ---- */

void kilni_store_note_device(kiln_store *store, size_t tier, const kiln_entry *used)
{
    if (store && store->ops->note_device && is_writable(store) && kilni_device_use_is_known(used)) {
        store->ops->note_device(store, tier, used);
    }
}

bool kilni_store_is_new_driver(kiln_store *store, uint64_t driver)
{
    return store && store->ops->is_new_driver && is_writable(store) &&
           store->ops->is_new_driver(store, driver);
}

kiln_status kiln_store_get_device_use(kiln_store *store, const char *device, int64_t *ret_last_s)
{
    if (!device || !ret_last_s) {
        return KILN_E_INVALID;
    }
    if (!store || !store->ops->device_use) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_key *key = NULL;
    kiln_status status = kilni_device_use_key_of(device, &key);
    if (status == KILN_OK) {
        status = store->ops->device_use(store, key, ret_last_s);
    }
    kiln_key_release(&key);
    return status;
}

/* ---- the journal ---- */

bool kilni_store_has_journal(const kiln_store *store)
{
    return store && (store->options.flags & KILN_STORE_JOURNAL) && is_writable(store) &&
           store->ops->journal_append;
}

kiln_status kilni_store_append_to_journal(kiln_store *store, const void *records, size_t size)
{
    return kilni_store_has_journal(store) ? store->ops->journal_append(store, records, size)
                                          : KILN_E_UNSUPPORTED;
}

kiln_status kiln_store_add_journal_event(kiln_store *store, const kiln_journal_event *event)
{
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    size_t size = 0;
    const kiln_status status = kilni_journal_encode_given(event, record, &size);
    return status == KILN_OK ? kilni_store_append_to_journal(store, record, size) : status;
}

kiln_status kiln_store_each_journal_event(kiln_store *store, kiln_journal_fn visit, void *user,
                                          kiln_journal_report *ret_report)
{
    if (!visit || (ret_report && !kilni_sized_struct_is_valid(ret_report))) {
        return KILN_E_INVALID;
    }
    if (!store) {
        return KILN_MISS;
    }
    return store->ops->journal_read ? store->ops->journal_read(store, visit, user, ret_report)
                                    : KILN_E_UNSUPPORTED;
}

bool kilni_store_is_request(const kiln_key *key)
{
    kiln_key_part first;
    return kiln_key_part_at(key, 0, &first) == KILN_OK &&
           strcmp(first.name, KILN_REQUEST_PART) == 0;
}

static int severity(kiln_status removal)
{
    return removal == KILN_MISS ? 0 : removal == KILN_OK ? 1 : removal == KILN_EXISTS ? 2 : 3;
}

kiln_status kilni_store_worse_removal(kiln_status a, kiln_status b)
{
    return severity(b) > severity(a) ? b : a;
}

kiln_status kilni_store_remove_judged(kiln_store *store, const kiln_key *key,
                                      const kiln_entry *judged)
{
    if (!store) {
        return KILN_MISS;
    }
    return is_writable(store) ? store->ops->remove(store, key, judged) : KILN_E_READONLY;
}

bool kilni_store_may_merge(const kiln_store *store, const kiln_entry *found)
{
    kiln_signature signature = {.struct_size = sizeof signature};
    return !(kilni_store_capabilities(store) & KILNI_STORE_VOUCHES) &&
           kiln_entry_get_signature(found, &signature) == KILN_MISS;
}

uint32_t kilni_store_capabilities(const kiln_store *store)
{
    return store ? store->capabilities : 0;
}

void kilni_store_take_counts(kiln_store *store, kiln_stats *ret_counts)
{
    kiln_stats counts = {0};
    if (store) {
        counts.puts = atomic_exchange_explicit(&store->counts.puts, 0, memory_order_relaxed);
        counts.corrupt = atomic_exchange_explicit(&store->counts.corrupt, 0, memory_order_relaxed);
        counts.evicted = atomic_exchange_explicit(&store->counts.evicted, 0, memory_order_relaxed);
    }
    *ret_counts = counts;
}

void kilni_store_warn(kiln_store *store, uint32_t kind, const char *format, ...)
{
    if (!store->options.log.write ||
        atomic_fetch_or_explicit(&store->warned, kind, memory_order_relaxed) & kind) {
        return;
    }
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    store->options.log.write(store->options.log.user, KILN_LOG_WARNING, text);
}
