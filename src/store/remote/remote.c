/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/signature.h>

#include "base/error.h"
#include "entry/entry.h"
#include "entry/format.h"
#include "key/hash.h"
#include "os/clock.h"
#include "store/call_limit.h"
#include "store/device_use.h"
#include "store/remote/daily_uses.h"
#include "store/remote/name_page.h"
#include "store/remote/read_ahead.h"
#include "store/remote/recent_misses.h"
#include "store/remote/trim_plan.h"
#include "store/signing/signers.h"

#define NAME_SIZE (24u + KILN_DIGEST_TEXT_SIZE)

/* The maximum duration of a call. If a server sends nothing, the call ends much earlier. */
#define LOOKUP_NS UINT64_C(3000000000)
#define WRITE_NS UINT64_C(10000000000)

/* The maximum duration of a batch of look-ups, and the maximum size of its answers. */
#define BATCH_NS UINT64_C(10000000000)
#define BATCH_BYTES (UINT64_C(8) << 20)

/* How long a server keeps damaged entries that were moved away. */
#define DAMAGED_MS (UINT64_C(30) * 24 * 3600 * 1000)

/* How long a server keeps the record of a device that no machine uses any more. */
#define DEVICE_MS (UINT64_C(400) * 24 * 3600 * 1000)

/* The first pause before this process asks again for a lease that a different holder has. */
#define PAUSE_MIN_NS UINT64_C(20000000)

_Static_assert(KILNI_REMOTE_UNHASHED == KILNI_ENTRY_CHECKSUM_SIZE,
               "the hash of a value is the one that an entry's checksum must equal");

typedef struct remote_store {
    kiln_store store; /* first: a remote_store is a kiln_store */
    const kilni_connector *connector;
    kilni_remote *remote;
    const kilni_remote_naming *naming;
    char *name; /* the server's name in messages */
    /* The uses of entries and of devices that this machine has reported to the server today. NULL:
     * nothing is written to the server, so nothing is reported. */
    kilni_daily_uses *uses;
    bool reports_entries; /* uses of entries are reported, so that the server keeps the entries */
    kilni_recent_misses misses;
} remote_store;

static remote_store *remote_of(kiln_store *store)
{
    return (remote_store *)store;
}

static uint64_t deadline_after(uint64_t duration_ns)
{
    const uint64_t now_ns = kilni_clock_ns();
    return duration_ns < UINT64_MAX - now_ns ? now_ns + duration_ns : UINT64_MAX;
}

/* Makes the limit of this thread's calls apply to its next call. Returns the deadline of that call.
 */
static uint64_t begin_call(const remote_store *self, uint64_t duration_ns)
{
    self->connector->limit_calls(kilni_call_limit_get());
    return deadline_after(duration_ns);
}

static void make_name(const char *before, const kiln_digest *digest, const char *behind,
                      char name[NAME_SIZE])
{
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(digest, text);
    snprintf(name, NAME_SIZE, "%s%s%s", before, text, behind);
}

static void name_of(const remote_store *self, const kiln_digest *digest, char name[NAME_SIZE])
{
    make_name(self->naming->before, digest, self->naming->behind, name);
}

static void name_of_key(const remote_store *self, const kiln_key *key, char name[NAME_SIZE])
{
    const kiln_digest digest = kiln_key_digest(key);
    name_of(self, &digest, name);
}

static const char *text_of(kilni_server_fault fault)
{
    switch (fault) {
    case KILNI_FAULT_SILENT:
        return "it did not answer in time";
    case KILNI_FAULT_UNREACHABLE:
        return "it refuses connections, or its name is not found";
    case KILNI_FAULT_BUSY:
        return "it answered that it cannot serve at present";
    case KILNI_FAULT_REFUSED:
        return "it refused this user";
    case KILNI_FAULT_UNTRUSTED:
        return "its certificate is not accepted";
    case KILNI_FAULT_FILES:
        return "its files cannot be read or written";
    case KILNI_FAULT_BROKEN:
        break;
    }
    return "it closed the connection, or did not speak the protocol";
}

/* Logs a warning if the server fails, refuses this user, or has a certificate that is not accepted.
 * Returns one of the statuses that the public calls list. */
static kiln_status note(remote_store *self, kiln_status status)
{
    switch (status) {
    case KILN_E_DENIED:
        kilni_store_warn(&self->store, KILNI_WARNED_SERVER, "%s refuses this user", self->name);
        return status;
    case KILN_E_UNAUTHENTICATED:
        kilni_store_warn(&self->store, KILNI_WARNED_SERVER,
                         "%s: the server's certificate is not accepted", self->name);
        return KILN_E_DENIED;
    case KILN_TIMEOUT:
    case KILN_E_IO:
        kilni_store_warn(&self->store, KILNI_WARNED_AWAY, "%s cannot be used: %s", self->name,
                         text_of(self->connector->fault(self->remote)));
        return KILN_E_IO;
    default:
        return status;
    }
}

static const char *remote_outage(kiln_store *store, uint64_t *ret_wait_ns)
{
    remote_store *self = remote_of(store);
    kilni_server_state state;
    if (!self->connector->is_away(self->remote, &state)) {
        return NULL;
    }
    const uint64_t now_ns = kilni_clock_ns();
    *ret_wait_ns = state.retry_ns > now_ns ? state.retry_ns - now_ns : 0;
    return text_of(state.fault);
}

/* ---- reading ---- */

/* Returns what stands for a device among the uses of today. */
static kiln_digest digest_of_device(const char *device)
{
    const uint64_t number = kilni_checksum(device, strlen(device));
    kiln_digest digest = {.bytes = {0}};
    memcpy(digest.bytes, &number, sizeof number);
    return digest;
}

/* Makes an entry from the bytes that the server sent. The entry must be valid, and its digest must
 * equal the digest in the name under which the server kept it. */
static kiln_status adopt(const remote_store *self, kilni_remote_bytes bytes,
                         const kiln_digest *digest, kiln_entry **ret_entry)
{
    kiln_entry *entry = NULL;
    const kiln_status status =
        kilni_signers_adopt(self->store.signers, self->store.signing_key, bytes.data, bytes.size,
                            bytes.is_hashed ? &bytes.hash : NULL, &entry);
    if (status != KILN_OK) {
        free(bytes.data);
        return status;
    }
    const kiln_digest own = kiln_key_digest(kiln_entry_key(entry));
    if (memcmp(&own, digest, sizeof own) != 0) {
        kiln_entry_release(&entry);
        return KILN_E_CORRUPT;
    }
    *ret_entry = entry;
    return KILN_OK;
}

/* Makes an entry from the server's answer to a get. */
static kiln_status take_answer(remote_store *self, kiln_status status, kilni_remote_bytes bytes,
                               const kiln_digest *digest, kiln_entry **ret_entry)
{
    if (status == KILN_E_TOO_LARGE) {
        return KILN_MISS;
    }
    if (status != KILN_OK) {
        return note(self, status);
    }
    /* Values that were read together shared their room, so one can be larger than is allowed. */
    if (bytes.size > self->store.options.max_entry_bytes) {
        free(bytes.data);
        return KILN_MISS;
    }
    return adopt(self, bytes, digest, ret_entry);
}

static kiln_status read_named(remote_store *self, const char *name, const kiln_digest *digest,
                              kiln_entry **ret_entry)
{
    kilni_remote_bytes bytes = {0};
    const kiln_status status =
        self->connector->get(self->remote, name, self->store.options.max_entry_bytes,
                             begin_call(self, LOOKUP_NS), &bytes);
    return take_answer(self, status, bytes, digest, ret_entry);
}

static kiln_status read_entry(kiln_store *store, const kiln_digest *digest, kiln_entry **ret_entry)
{
    remote_store *self = remote_of(store);
    char name[NAME_SIZE];
    name_of(self, digest, name);
    return read_named(self, name, digest, ret_entry);
}

/* Returns true if a use of the entry must be reported to the server. This process may not know what
 * other processes have reported. */
static bool is_reportable(remote_store *self, const kiln_digest *digest, const kiln_entry *entry)
{
    const int64_t now_s = kilni_clock_unix_s();
    if (!self->uses) {
        return false;
    }
    const kiln_digest device = digest_of_device(kiln_entry_provenance(entry).device);
    return (self->reports_entries && !kilni_daily_uses_has(self->uses, digest, now_s)) ||
           (kilni_device_use_is_known(entry) && !kilni_daily_uses_has(self->uses, &device, now_s));
}

/* Decides what a look-up of a key returns, and remembers a miss.
 *
 * @status, @entry  of the entry that the server has for the key's digest
 * @generation      of the recent misses, before the server was asked */
static kiln_status take_found(remote_store *self, const kiln_key *key, const kiln_digest *digest,
                              uint64_t generation, kiln_status status, kiln_entry *entry,
                              kiln_entry **ret_entry, size_t *ret_fill)
{
    if (status == KILN_MISS) {
        kilni_recent_misses_note(&self->misses, digest, kilni_clock_ns(), generation);
    }
    if (status != KILN_OK) {
        return status;
    }
    if (!kiln_key_equals(key, kiln_entry_key(entry))) {
        kiln_entry_release(&entry);
        return KILN_MISS;
    }
    *ret_fill = is_reportable(self, digest, entry);
    *ret_entry = entry;
    return KILN_OK;
}

static kiln_status remote_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                              size_t *ret_fill)
{
    remote_store *self = remote_of(store);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_entry *entry = NULL;
    if (kilni_recent_misses_has(&self->misses, &digest, kilni_clock_ns())) {
        return KILN_MISS;
    }
    const uint64_t generation = kilni_recent_misses_begin(&self->misses);
    const kiln_status status = read_entry(store, &digest, &entry);
    return take_found(self, key, &digest, generation, status, entry, ret_entry, ret_fill);
}

static kiln_status remote_contains(kiln_store *store, const kiln_key *key)
{
    remote_store *self = remote_of(store);
    char name[NAME_SIZE];
    name_of_key(self, key, name);
    return note(self, self->connector->contains(self->remote, name, begin_call(self, LOOKUP_NS)));
}

/* ---- reading many ---- */

/* Questions that are asked together, and the names in them. */
typedef struct batch {
    size_t count;
    size_t places[KILNI_STORE_MANY]; /* the index of each question's key or digest */
    kilni_remote_question questions[KILNI_STORE_MANY];
    char names[KILNI_STORE_MANY][NAME_SIZE];
} batch;

static void add_question(const remote_store *self, batch *asked, const kiln_digest *digest,
                         size_t place)
{
    const size_t number = asked->count++;
    name_of(self, digest, asked->names[number]);
    asked->places[number] = place;
    asked->questions[number] = (kilni_remote_question){.name = asked->names[number]};
}

/* Receives the answer to one question, and takes its bytes.
 *
 * @place  the index of the question's key or digest */
typedef void answer_fn(void *user, size_t place, const kilni_remote_question *answered);

/* Values that are read together. */
typedef struct reading {
    remote_store *store;
    batch *asked;
    uint64_t end_ns; /* when all requests end; UINT64_MAX: each has its own deadline */
    answer_fn *take;
    void *user;
} reading;

/* Asks for some values. The status is KILN_E_TOO_LARGE if there is no room for a value. */
static void ask_together(const reading *work, kilni_remote_question *questions, size_t count)
{
    remote_store *self = work->store;
    const uint64_t own_ns = begin_call(self, BATCH_NS);
    const uint64_t deadline_ns = own_ns < work->end_ns ? own_ns : work->end_ns;
    if (count == 1) {
        questions[0].status = self->connector->get(self->remote, questions[0].name,
                                                   self->store.options.max_entry_bytes, deadline_ns,
                                                   &questions[0].bytes);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        questions[i].max_bytes = BATCH_BYTES / count;
    }
    self->connector->ask_many(self->remote, questions, count, deadline_ns);
}

/* Reads the values of @count questions, beginning at @first. Asks again for those for which there
 * was no room, in two halves. A value is too large only if it exceeds the maximum size of an entry.
 * The answers to one request are taken before the next request, since together they might need too
 * much memory. */
static void read_together(const reading *work, size_t first, size_t count)
{
    kilni_remote_question *questions = &work->asked->questions[first];
    size_t *places = &work->asked->places[first], again = 0;
    if (count == 0) {
        return;
    }
    ask_together(work, questions, count);
    for (size_t i = 0; i < count; i++) {
        if (questions[i].status == KILN_E_TOO_LARGE && count > 1) {
            places[again] = places[i];
            questions[again++] = (kilni_remote_question){.name = questions[i].name};
        } else {
            work->take(work->user, places[i], &questions[i]);
        }
    }
    read_together(work, first, again / 2);
    read_together(work, first + again / 2, again - again / 2);
}

typedef struct key_reading {
    remote_store *store;
    kilni_lookup *lookups;
    uint64_t generation; /* of the recent misses, before the server was asked */
    kiln_digest digests[KILNI_STORE_MANY];
} key_reading;

/* Each answer is verified by the functions that verify the answer to a single get. */
static void take_lookup(void *user, size_t place, const kilni_remote_question *answered)
{
    key_reading *keys = user;
    remote_store *self = keys->store;
    kilni_lookup *lookup = &keys->lookups[place];
    const kiln_digest *digest = &keys->digests[place];
    kiln_entry *entry = NULL;
    const kiln_status status = take_answer(self, answered->status, answered->bytes, digest, &entry);
    lookup->status = take_found(self, lookup->key, digest, keys->generation, status, entry,
                                &lookup->entry, &lookup->fill);
}

static void remote_get_many(kiln_store *store, kilni_lookup *lookups, size_t count)
{
    remote_store *self = remote_of(store);
    batch asked = {.count = 0};
    key_reading keys = {
        .store = self, .lookups = lookups, .generation = kilni_recent_misses_begin(&self->misses)};
    for (size_t i = 0; i < count; i++) {
        keys.digests[i] = kiln_key_digest(lookups[i].key);
        lookups[i].status = KILN_MISS;
        if (!kilni_recent_misses_has(&self->misses, &keys.digests[i], kilni_clock_ns())) {
            add_question(self, &asked, &keys.digests[i], i);
        }
    }
    const reading work = {.store = self,
                          .asked = &asked,
                          .end_ns = deadline_after(BATCH_NS),
                          .take = take_lookup,
                          .user = &keys};
    read_together(&work, 0, asked.count);
}

typedef struct digest_reading {
    remote_store *store;
    const kiln_digest *digests;
    kilni_digest_fn *visit;
    void *user;
} digest_reading;

static void take_digest(void *user, size_t place, const kilni_remote_question *answered)
{
    const digest_reading *reads = user;
    kiln_entry *entry = NULL;
    const kiln_status status = take_answer(reads->store, answered->status, answered->bytes,
                                           &reads->digests[place], &entry);
    reads->visit(reads->user, place, status, entry);
    kiln_entry_release(&entry);
}

static void remote_read_digests(kiln_store *store, const kiln_digest *digests, size_t count,
                                kilni_digest_fn *visit, void *user)
{
    remote_store *self = remote_of(store);
    batch asked = {.count = 0};
    digest_reading reads = {.store = self, .digests = digests, .visit = visit, .user = user};
    for (size_t i = 0; i < count; i++) {
        add_question(self, &asked, &digests[i], i);
    }
    const reading work = {
        .store = self, .asked = &asked, .end_ns = UINT64_MAX, .take = take_digest, .user = &reads};
    read_together(&work, 0, count);
}

static void remote_contains_many(kiln_store *store, const kiln_key *const *keys, size_t count,
                                 kiln_status *ret_statuses)
{
    remote_store *self = remote_of(store);
    batch asked = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        const kiln_digest digest = kiln_key_digest(keys[i]);
        add_question(self, &asked, &digest, i);
        asked.questions[i].only_presence = true;
        asked.questions[i].max_bytes = KILNI_REMOTE_REPLY_BYTES;
    }
    self->connector->ask_many(self->remote, asked.questions, count, begin_call(self, LOOKUP_NS));
    for (size_t i = 0; i < count; i++) {
        ret_statuses[i] = note(self, asked.questions[i].status);
    }
}

/* ---- writing ---- */

static kiln_status read_head(remote_store *self, const kiln_digest *digest,
                             kilni_entry_preview *ret_head, uint64_t *ret_size)
{
    char name[NAME_SIZE];
    kilni_remote_bytes bytes = {0};
    name_of(self, digest, name);
    kiln_status status = self->connector->get_head(self->remote, name, KILNI_ENTRY_PREVIEW_SIZE,
                                                   begin_call(self, LOOKUP_NS), &bytes, ret_size);
    if (status != KILN_OK) {
        return note(self, status);
    }
    status = kilni_entry_preview_decode(bytes.data, bytes.size, *ret_size, ret_head);
    free(bytes.data);
    return status;
}

/* Returns KILN_EXISTS if the server has an entry of a newer format, which this version must not
 * replace. The head is not verified. So if the format seems newer, the complete entry is read. A
 * newer version in the header itself is sufficient. */
static kiln_status check_newer(remote_store *self, const kiln_digest *digest)
{
    kilni_entry_preview head = {0};
    uint64_t size = 0;
    kiln_status status = read_head(self, digest, &head, &size);
    if (status == KILN_OK && head.seems_newer) {
        kiln_entry *entry = NULL;
        status = read_entry(&self->store, digest, &entry);
        kiln_entry_release(&entry);
    }
    return status == KILN_E_VERSION ? KILN_EXISTS : status;
}

/* @put  NULL: the function returns KILN_EXISTS, as if the server had a value of that name */
static kiln_status send_entry(remote_store *self, kilni_remote_put_fn *put,
                              const kiln_digest *digest, const kiln_entry *entry)
{
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    char name[NAME_SIZE];
    if (!put) {
        return KILN_EXISTS;
    }
    name_of(self, digest, name);
    const kiln_status status =
        note(self, put(self->remote, name, bytes.data, bytes.size,
                       self->store.options.expire_s * 1000, begin_call(self, WRITE_NS)));
    kilni_recent_misses_forget(&self->misses, digest);
    return status;
}

static kiln_status remote_put(kiln_store *store, const kiln_entry *entry)
{
    remote_store *self = remote_of(store);
    const kiln_digest digest = kiln_key_digest(kiln_entry_key(entry));
    if (kilni_store_is_request(kiln_entry_key(entry))) {
        return KILN_E_UNSUPPORTED;
    }
    /* Few puts replace an entry, so this is usually the only round trip. */
    kiln_status status = send_entry(self, self->connector->put_new, &digest, entry);
    if (status != KILN_EXISTS) {
        return status;
    }
    status = check_newer(self, &digest);
    if (status == KILN_EXISTS || status == KILN_E_IO || status == KILN_E_NO_MEMORY) {
        return status;
    }
    return send_entry(self, self->connector->put, &digest, entry);
}

static kiln_status remove_digest(remote_store *self, const kiln_digest *digest)
{
    char name[NAME_SIZE];
    const kiln_status found = check_newer(self, digest);
    if (found == KILN_EXISTS || found == KILN_E_IO || found == KILN_E_NO_MEMORY) {
        return found;
    }
    name_of(self, digest, name);
    return note(self, self->connector->remove(self->remote, name, begin_call(self, WRITE_NS)));
}

/* A process that considers an entry unfit does not remove it from a server, because other machines
 * may be able to use it. Only a user removes entries. A replacement for an unfit entry is put like
 * any other entry. */
static kiln_status remote_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged)
{
    const kiln_digest digest = kiln_key_digest(key);
    return judged ? KILN_MISS : remove_digest(remote_of(store), &digest);
}

/* A server keeps no totals. */
static kiln_status remote_add_stats(kiln_store *store, const kiln_stats *delta)
{
    (void)store, (void)delta;
    return KILN_E_READONLY;
}

/* ---- uses ---- */

/* Returns true if the entry has a signature that has expired. No reader of a server accepts such an
 * entry. So the server need not keep it, even if a directory has a copy that is used. */
static bool is_over(const kiln_entry *entry, int64_t now_s)
{
    kiln_signature signature = {.struct_size = sizeof signature};
    return kiln_entry_get_signature(entry, &signature) == KILN_OK && signature.expires_s != 0 &&
           signature.expires_s <= now_s;
}

/* Reports to the server that an entry was used, unless this was already reported today. */
static void remote_fill(kiln_store *store, size_t fill, const kiln_key *key,
                        const kiln_entry *entry)
{
    (void)fill;
    remote_store *self = remote_of(store);
    const kiln_digest digest = kiln_key_digest(key);
    const int64_t now_s = kilni_clock_unix_s();
    char name[NAME_SIZE];
    if (!self->reports_entries || is_over(entry, now_s) ||
        !kilni_daily_uses_claim(self->uses, &digest, now_s)) {
        return;
    }
    name_of(self, &digest, name);
    if (self->connector->keep(self->remote, name, store->options.expire_s * 1000,
                              begin_call(self, LOOKUP_NS)) == KILN_OK) {
        kilni_daily_uses_note(self->uses, &digest, now_s);
    }
}

static kiln_status put_device_use(remote_store *self, const char *device)
{
    char name[NAME_SIZE];
    kiln_entry *use = NULL, *prepared = NULL;
    kiln_status status = kilni_device_use_entry_of(device, &use);
    if (status == KILN_OK) {
        status = kilni_store_prepare(&self->store, use, &prepared);
    }
    if (status == KILN_OK) {
        const kiln_digest digest = kiln_key_digest(kiln_entry_key(use));
        const kiln_bytes bytes = kiln_entry_encoding(prepared);
        make_name(self->naming->device_before, &digest, self->naming->device_behind, name);
        status = self->connector->put(self->remote, name, bytes.data, bytes.size, DEVICE_MS,
                                      begin_call(self, LOOKUP_NS));
    }
    kiln_entry_release(&prepared);
    kiln_entry_release(&use);
    return status;
}

static void remote_note_device(kiln_store *store, size_t tier, const kiln_entry *used)
{
    (void)tier;
    remote_store *self = remote_of(store);
    const char *device = kiln_entry_provenance(used).device;
    const kiln_digest digest = digest_of_device(device);
    const int64_t now_s = kilni_clock_unix_s();
    if (self->uses && kilni_daily_uses_claim(self->uses, &digest, now_s) &&
        put_device_use(self, device) == KILN_OK) {
        kilni_daily_uses_note(self->uses, &digest, now_s);
    }
}

static kiln_status remote_device_use(kiln_store *store, const kiln_key *key, int64_t *ret_last_s)
{
    remote_store *self = remote_of(store);
    char name[NAME_SIZE];
    kiln_entry *use = NULL;
    const kiln_digest digest = kiln_key_digest(key);
    make_name(self->naming->device_before, &digest, self->naming->device_behind, name);
    kiln_status status = read_named(self, name, &digest, &use);
    if (status == KILN_OK && !kiln_key_equals(key, kiln_entry_key(use))) {
        status = KILN_E_CORRUPT;
    }
    if (status == KILN_OK) {
        *ret_last_s = kiln_entry_provenance(use).created_s;
    }
    kiln_entry_release(&use);
    return status;
}

/* ---- leases ---- */

typedef struct remote_lease {
    kiln_lease lease; /* first: a remote_lease is a kiln_lease */
    remote_store *store;
    kiln_digest digest;
    kilni_remote_lease *held; /* NULL: the lease is shared */
} remote_lease;

/* The last holder of a lease may have put the entry, so the miss is forgotten. */
static void remote_forget_miss(kiln_store *store, const kiln_key *key)
{
    const kiln_digest digest = kiln_key_digest(key);
    kilni_recent_misses_forget(&remote_of(store)->misses, &digest);
}

/* Makes half of a pause random, so that the processes do not all ask at the same time. */
static uint64_t with_jitter(uint64_t pause_ns)
{
    const uint64_t now_ns = kilni_clock_ns();
    const uint64_t mixed = (now_ns ^ (uint64_t)getpid()) * UINT64_C(0xbf58476d1ce4e5b9);
    return pause_ns / 2 + (mixed >> 32) % (pause_ns / 2);
}

/* Asks for a lease repeatedly, until it is granted, the call fails, or the time is over. */
static kiln_status take_lease(remote_store *self, const char *name, uint64_t build_ns,
                              uint64_t wait_ns, kilni_remote_lease **ret_held)
{
    const uint64_t end_ns = deadline_after(wait_ns);
    const uint64_t longest_ns = self->connector->lease_pause_ns;
    uint64_t pause_ns = PAUSE_MIN_NS;
    bool has_waited = false;
    for (;;) {
        const kiln_status status = self->connector->lease(self->remote, name, build_ns, has_waited,
                                                          begin_call(self, LOOKUP_NS), ret_held);
        const uint64_t now_ns = kilni_clock_ns();
        if (status != KILN_BUSY || now_ns >= end_ns) {
            return status;
        }
        const uint64_t next_ns = with_jitter(pause_ns);
        kilni_sleep_ns(next_ns < end_ns - now_ns ? next_ns : end_ns - now_ns);
        pause_ns = 2 * pause_ns < longest_ns ? 2 * pause_ns : longest_ns;
        has_waited = true;
    }
}

static kiln_status remote_take_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                                     uint64_t wait_ns, kiln_lease **ret_lease)
{
    remote_store *self = remote_of(store);
    char name[NAME_SIZE];
    remote_lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        return KILN_E_NO_MEMORY;
    }
    name_of_key(self, key, name);
    const kiln_status status = take_lease(self, name, build_ns, wait_ns, &lease->held);
    remote_forget_miss(store, key);
    if (status != KILN_OK && status != KILN_EXISTS) {
        free(lease);
        return note(self, status);
    }
    const bool is_of_miss = status == KILN_OK && self->connector->lease_is_of_miss &&
                            self->connector->lease_is_of_miss(lease->held);
    lease->lease = (kiln_lease){.ops = store->ops,
                                .missed_in = is_of_miss ? store : NULL,
                                .is_shared = status == KILN_EXISTS};
    lease->store = self;
    lease->digest = kiln_key_digest(key);
    *ret_lease = &lease->lease;
    return KILN_OK;
}

static void remote_release_lease(kiln_lease *lease)
{
    remote_lease *released = (remote_lease *)lease;
    if (released->held) {
        released->store->connector->limit_calls(kilni_call_limit_get());
        released->store->connector->lease_release(released->held);
    }
    kilni_recent_misses_forget(&released->store->misses, &released->digest);
    free(released);
}

/* ---- items ---- */

typedef struct remote_item {
    kiln_item item; /* first: a remote_item is a kiln_item */
    kiln_digest digest;
    const char *name;
    kilni_read_ahead *ahead;
    size_t place;             /* in the group */
    uint64_t put_s;           /* as in kilni_remote_listed; 0: unknown */
    kilni_entry_preview head; /* the texts of the item's info point into it */
} remote_item;

/* Returns when an entry was last used, as far as the server knows. If it does not know, the time of
 * the build counts.
 *
 * @question  the answer to a question about the entry's use; NULL: the server was not asked */
static int64_t last_use_of(const remote_store *self, const kilni_remote_question *question,
                           int64_t created_s)
{
    const uint64_t expire_s = self->store.options.expire_s;
    uint64_t unused_s = question ? question->unused_s : UINT64_MAX;
    if (question && expire_s > 0 && question->left_s != UINT64_MAX) {
        unused_s = question->left_s < expire_s ? expire_s - question->left_s : 0;
    }
    const int64_t now_s = kilni_clock_unix_s();
    return unused_s <= (uint64_t)INT64_MAX / 2 ? now_s - (int64_t)unused_s : created_s;
}

/* @ret_question  [out] the answer to the question about the entry's use; NULL: there is none */
static kiln_status read_item_head(remote_item *self, uint64_t *ret_size,
                                  const kilni_remote_question **ret_question)
{
    remote_store *store = remote_of(self->item.store);
    const kilni_remote_question *known =
        kilni_read_ahead_head(self->ahead, self->place, begin_call(store, LOOKUP_NS));
    *ret_question = known;
    if (!known) {
        return read_head(store, &self->digest, &self->head, ret_size);
    }
    if (known->status != KILN_OK) {
        return note(store, known->status);
    }
    *ret_size = known->whole_size;
    return kilni_entry_preview_decode(known->bytes.data, known->bytes.size, known->whole_size,
                                      &self->head);
}

static kiln_status remote_item_info(kiln_item *item, kiln_item_info *ret_info)
{
    remote_item *self = (remote_item *)item;
    const kilni_remote_question *question;
    uint64_t size = 0;
    const kiln_status state = read_item_head(self, &size, &question);
    if (state != KILN_OK && state != KILN_E_CORRUPT && state != KILN_E_VERSION) {
        return state == KILN_MISS || state == KILN_E_NO_MEMORY ? state : KILN_E_IO;
    }
    if (state != KILN_OK) {
        self->head = (kilni_entry_preview){.kind = 0};
    }
    *ret_info = (kiln_item_info){
        .digest = self->digest,
        .state = state,
        .kind = self->head.kind,
        .device = self->head.device,
        .name = self->head.name,
        .tool = self->head.tool,
        .bytes = self->head.payload_size,
        .stored_bytes = size,
        .build_ns = self->head.build_ns,
        .created_s = self->head.created_s,
        .last_used_s = self->put_s > 0
                           ? (int64_t)self->put_s
                           : last_use_of(remote_of(item->store), question, self->head.created_s),
        .path = self->name,
    };
    return KILN_OK;
}

static kiln_status remote_item_read(kiln_item *item, kiln_entry **ret_entry)
{
    const remote_item *self = (const remote_item *)item;
    kilni_remote_bytes bytes;
    if (!kilni_read_ahead_take(self->ahead, self->place,
                               begin_call(remote_of(item->store), LOOKUP_NS), &bytes)) {
        return read_entry(item->store, &self->digest, ret_entry);
    }
    return take_answer(remote_of(item->store), KILN_OK, bytes, &self->digest, ret_entry);
}

static kiln_status remote_item_remove(kiln_item *item)
{
    return remove_digest(remote_of(item->store), &((remote_item *)item)->digest);
}

/* Returns KILN_E_CORRUPT if the bytes that the server sent for a digest are damaged for every
 * reader, that is, if they are not an entry or have a different digest. Returns KILN_OK for an
 * entry that is only not signed with a key that this machine trusts, because other machines may
 * trust the key. Returns KILN_OK for an entry of a newer format too, because newer versions can
 * read it. */
static kiln_status judge(const remote_store *self, kilni_remote_bytes bytes,
                         const kiln_digest *digest)
{
    kilni_remote_bytes copy = {.data = malloc(bytes.size > 0 ? bytes.size : 1), .size = bytes.size};
    kiln_entry *entry = NULL;
    if (!copy.data) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(copy.data, bytes.data, bytes.size);
    kiln_status status = adopt(self, copy, digest, &entry);
    if (status == KILN_OK && !kilni_store_has_kind_of_key(entry)) {
        status = KILN_E_CORRUPT;
    }
    kiln_entry_release(&entry);
    return status == KILN_E_NO_MEMORY || status == KILN_E_CORRUPT ? status : KILN_OK;
}

/* Moves a value on a server that cannot do it in one step. If a different process puts a value
 * between the second get and the removal, that value is lost. */
static kiln_status move_in_steps(remote_store *self, const char *name, const char *new_name,
                                 kilni_remote_bytes value)
{
    kilni_remote_bytes now = {0};
    kiln_status status = self->connector->put(self->remote, new_name, value.data, value.size,
                                              DAMAGED_MS, begin_call(self, WRITE_NS));
    if (status == KILN_OK) {
        status = self->connector->get(self->remote, name, self->store.options.max_entry_bytes,
                                      begin_call(self, LOOKUP_NS), &now);
    }
    const bool is_same = status == KILN_OK && now.size == value.size &&
                         memcmp(now.data, value.data, value.size) == 0;
    free(now.data);
    if (status == KILN_OK && is_same) {
        return self->connector->remove(self->remote, name, begin_call(self, WRITE_NS));
    }
    return status == KILN_OK || status == KILN_E_TOO_LARGE ? KILN_MISS : status;
}

static kiln_status remote_item_quarantine(kiln_item *item)
{
    remote_store *self = remote_of(item->store);
    const kiln_digest *digest = &((const remote_item *)item)->digest;
    char name[NAME_SIZE], new_name[NAME_SIZE];
    kilni_remote_bytes bytes = {0};
    name_of(self, digest, name);
    make_name(self->naming->damaged_before, digest, self->naming->damaged_behind, new_name);
    kiln_status status =
        self->connector->get(self->remote, name, item->store->options.max_entry_bytes,
                             begin_call(self, LOOKUP_NS), &bytes);
    if (status != KILN_OK) {
        return status == KILN_E_TOO_LARGE ? KILN_EXISTS : note(self, status);
    }
    status = judge(self, bytes, digest);
    if (status == KILN_E_CORRUPT) {
        status = self->connector->move
                     ? self->connector->move(self->remote, name, new_name, bytes, DAMAGED_MS,
                                             begin_call(self, WRITE_NS))
                     : move_in_steps(self, name, new_name, bytes);
        status = note(self, status);
    } else if (status == KILN_OK) {
        status = KILN_EXISTS;
    }
    free(bytes.data);
    return status;
}

static bool visit_group(kiln_store *store, const kilni_listed_entry *entries, size_t count,
                        kilni_read_ahead *ahead, kiln_item_fn visit, void *user)
{
    char names[KILNI_READ_AHEAD_GROUP][NAME_SIZE];
    bool goes_on = true;
    for (size_t i = 0; i < count; i++) {
        name_of(remote_of(store), &entries[i].digest, names[i]);
        ahead->heads[i].name = names[i];
    }
    kilni_read_ahead_begin(ahead, count);
    for (size_t i = 0; i < count && goes_on; i++) {
        remote_item item = {.item.store = store,
                            .digest = entries[i].digest,
                            .name = names[i],
                            .ahead = ahead,
                            .place = i,
                            .put_s = entries[i].put_s};
        goes_on = visit(user, &item.item) == 0;
    }
    kilni_read_ahead_end(ahead);
    return goes_on;
}

/* Receives at most KILNI_READ_AHEAD_GROUP entries of a listing. Returns KILN_OK; KILN_EXISTS: the
 * listing ends here; a failure. */
typedef kiln_status group_fn(remote_store *self, const kilni_listed_entry *entries, size_t count,
                             void *user);

static kiln_status visit_page(remote_store *self, const kilni_name_page *page, group_fn *visit,
                              void *user)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < page->count && status == KILN_OK; i += KILNI_READ_AHEAD_GROUP) {
        const size_t left = page->count - i;
        const size_t count = left < KILNI_READ_AHEAD_GROUP ? left : KILNI_READ_AHEAD_GROUP;
        status = visit(self, page->entries + i, count, user);
    }
    return status;
}

/* Lists the entries, and passes them on in groups. */
static kiln_status list_entries(remote_store *self, group_fn *visit, void *user)
{
    char cursor[KILNI_REMOTE_CURSOR_SIZE] = "";
    kilni_name_page page = {.naming = self->naming};
    kiln_status status;
    do {
        page.count = 0;
        status = note(self, self->connector->list(self->remote, self->naming->before, cursor,
                                                  begin_call(self, LOOKUP_NS), kilni_name_page_add,
                                                  &page));
        if (status == KILN_OK) {
            status = page.has_failed ? KILN_E_NO_MEMORY : visit_page(self, &page, visit, user);
        }
    } while (status == KILN_OK && cursor[0] != '\0');
    free(page.entries);
    return status == KILN_EXISTS ? KILN_OK : status;
}

typedef struct item_walk {
    kilni_read_ahead ahead;
    kiln_item_fn visit;
    void *user;
} item_walk;

static item_walk begin_walk(const remote_store *self, kiln_item_fn visit, void *user)
{
    return (item_walk){.ahead = {.connector = self->connector,
                                 .remote = self->remote,
                                 .head_size = KILNI_ENTRY_PREVIEW_SIZE},
                       .visit = visit,
                       .user = user};
}

static kiln_status walk_group(remote_store *self, const kilni_listed_entry *entries, size_t count,
                              void *user)
{
    item_walk *walk = user;
    return visit_group(&self->store, entries, count, &walk->ahead, walk->visit, walk->user)
               ? KILN_OK
               : KILN_EXISTS;
}

static kiln_status remote_each(kiln_store *store, kiln_item_fn visit, void *user)
{
    item_walk walk = begin_walk(remote_of(store), visit, user);
    return list_entries(remote_of(store), walk_group, &walk);
}

static kiln_status remote_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                         kiln_item_fn visit, void *user)
{
    remote_store *self = remote_of(store);
    item_walk walk = begin_walk(self, visit, user);
    char name[NAME_SIZE];
    name_of(self, digest, name);
    const kiln_status status =
        note(self, self->connector->contains(self->remote, name, begin_call(self, LOOKUP_NS)));
    if (status == KILN_OK) {
        walk_group(self, &(kilni_listed_entry){.digest = *digest}, 1, &walk);
        return KILN_OK;
    }
    if (status == KILN_MISS) {
        return KILN_OK;
    }
    return status == KILN_E_NO_MEMORY ? status : KILN_E_IO;
}

/* A server never keeps capture requests, because they would make every machine build. */
static kiln_status remote_each_request(kiln_store *store, kiln_item_fn visit, void *user)
{
    (void)store, (void)visit, (void)user;
    return KILN_OK;
}

static int count_item(void *user, kiln_item *item)
{
    kiln_store_stat *stat = user;
    kiln_item_info info = {0};
    stat->entries++;
    if (remote_item_info(item, &info) == KILN_OK) {
        stat->bytes += info.stored_bytes;
    }
    return 0;
}

static kiln_status remote_stat(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat)
{
    (void)flags;
    kiln_store_stat stat = {0};
    const kiln_status status = remote_each(store, count_item, &stat);
    if (status == KILN_OK) {
        *ret_stat = stat;
    }
    return status;
}

/* ---- trimming ---- */

/* The use of an entry is reported to the server at most once a day. */
#define USES_WITHIN_S (UINT64_C(24) * 3600 + 60)

#define NS_PER_S INT64_C(1000000000)

/* Returns a time in nanoseconds. A server can send any time, so one that is too early or too late
 * for nanoseconds becomes the earliest or the latest. */
static int64_t in_ns(int64_t time_s)
{
    const int64_t latest_s = INT64_MAX / NS_PER_S;
    return time_s < 0 ? 0 : (time_s < latest_s ? time_s : latest_s) * NS_PER_S;
}

/* Returns true if a trim leaves an entry alone, because it has or seems to have a newer format.
 *
 * @status  the result of decoding the entry's head */
static bool stays(kiln_status status, const kilni_entry_preview *head)
{
    return status == KILN_E_VERSION || (status == KILN_OK && head->seems_newer);
}

/* Adds an entry to the plan. A damaged entry counts as one that cost nothing to build. */
static kiln_status judge_head(const remote_store *self, const kilni_remote_question *question,
                              const kiln_digest *digest, kilni_trim_plan *plan)
{
    kilni_entry_preview head = {0};
    const kiln_status status = kilni_entry_preview_decode(
        question->bytes.data, question->bytes.size, question->whole_size, &head);
    const kilni_rank_facts facts = {.used_ns = in_ns(last_use_of(self, question, head.created_s)),
                                    .bytes = question->whole_size,
                                    .created_s = head.created_s,
                                    .build_ns = head.build_ns};
    kilni_trim_value value = {.digest = *digest, .size = question->whole_size};
    memcpy(value.end, question->end, sizeof value.end);
    return kilni_trim_plan_add(plan, value, stays(status, &head) ? NULL : &facts)
               ? KILN_OK
               : KILN_E_NO_MEMORY;
}

/* Reads the heads of a group, and adds the entries to the plan. Fails if the server does not answer
 * for each of them, so that a trim removes nothing before it knows everything. */
static kiln_status survey_heads(remote_store *self, const kilni_listed_entry *entries, size_t count,
                                kilni_trim_plan *plan)
{
    char names[KILNI_READ_AHEAD_GROUP][NAME_SIZE];
    kilni_remote_question questions[KILNI_READ_AHEAD_GROUP];
    for (size_t i = 0; i < count; i++) {
        name_of(self, &entries[i].digest, names[i]);
        questions[i] =
            (kilni_remote_question){.name = names[i],
                                    .head_size = KILNI_ENTRY_PREVIEW_SIZE,
                                    .max_bytes = KILNI_REMOTE_HEAD_BYTES(KILNI_ENTRY_PREVIEW_SIZE),
                                    .is_about_use = true};
    }
    kiln_status status = KILN_OK;
    self->connector->ask_many(self->remote, questions, count, begin_call(self, LOOKUP_NS));
    for (size_t i = 0; status == KILN_OK && i < count; i++) {
        status = questions[i].status;
        if (status == KILN_OK) {
            status = judge_head(self, &questions[i], &entries[i].digest, plan);
        } else if (status == KILN_MISS) {
            status = KILN_OK;
        }
    }
    for (size_t i = 0; i < count; i++) {
        free(questions[i].bytes.data);
    }
    return note(self, status);
}

/* Adds entries to the plan. The listing says how large they are and when they were put. */
static kiln_status survey_listed(const kilni_listed_entry *entries, size_t count,
                                 kilni_trim_plan *plan)
{
    for (size_t i = 0; i < count; i++) {
        const kilni_listed_entry *entry = &entries[i];
        const kilni_trim_value value = {
            .digest = entry->digest, .size = entry->size, .put_s = entry->put_s};
        const kilni_rank_facts facts = {.used_ns = in_ns((int64_t)entry->put_s),
                                        .bytes = entry->size,
                                        .created_s = (int64_t)entry->put_s};
        if (entry->put_s == 0) {
            return KILN_E_IO; /* not a list of S3 */
        }
        if (!kilni_trim_plan_add(plan, value, &facts)) {
            return KILN_E_NO_MEMORY;
        }
    }
    return KILN_OK;
}

static kiln_status survey_group(remote_store *self, const kilni_listed_entry *entries, size_t count,
                                void *user)
{
    return self->connector->knows_uses ? survey_heads(self, entries, count, user)
                                       : survey_listed(entries, count, user);
}

/* Looks at an entry of which only the listing is known, before it is removed. Returns KILN_OK: it
 * is as it was judged; KILN_MISS; KILN_EXISTS: it stays, or was replaced; a failure. */
static kiln_status look_again(remote_store *self, const kilni_trim_value *value)
{
    kilni_entry_preview head = {0};
    uint64_t size = 0;
    const kiln_status status = read_head(self, &value->digest, &head, &size);
    if (stays(status, &head) || (status == KILN_OK && size != value->size)) {
        return KILN_EXISTS;
    }
    return status == KILN_E_CORRUPT ? KILN_OK : status;
}

static kiln_status remove_judged(remote_store *self, const kilni_trim_value *values, size_t count,
                                 kilni_remote_judged *ret_judged)
{
    char names[KILNI_READ_AHEAD_GROUP][NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        name_of(self, &values[i].digest, names[i]);
        ret_judged[i] = (kilni_remote_judged){
            .name = names[i], .size = values[i].size, .put_s = values[i].put_s};
        memcpy(ret_judged[i].end, values[i].end, sizeof ret_judged[i].end);
    }
    return note(self, self->connector->remove_judged(self->remote, ret_judged, count,
                                                     begin_call(self, WRITE_NS)));
}

/* Removes values that the plan has chosen. An entry that has gone in the meantime was perhaps
 * removed by a different trim, so no other entry is removed in its place. */
static kiln_status remove_chosen(remote_store *self, kilni_trim_plan *plan,
                                 const kilni_trim_value *values, size_t count, bool is_dry,
                                 kiln_trim_report *report)
{
    kilni_remote_judged judged[KILNI_READ_AHEAD_GROUP] = {{.status = KILN_OK}};
    kiln_status status = self->connector->knows_uses ? KILN_OK : look_again(self, values);
    if (status == KILN_OK && !is_dry) {
        status = remove_judged(self, values, count, judged);
    } else if (status == KILN_MISS || status == KILN_EXISTS) {
        judged[0].status = status;
        status = KILN_OK;
    }
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        if (judged[i].status == KILN_OK) {
            report->removed++;
            report->removed_bytes += values[i].size;
        } else if (judged[i].status == KILN_EXISTS) {
            kilni_trim_plan_note_left(plan, &values[i]);
        } else if (judged[i].status != KILN_MISS) {
            status = note(self, judged[i].status);
        }
    }
    return status;
}

/* Judges all entries, and then removes those that the plan chooses. If a server does not know uses,
 * it is asked about one entry at a time. */
static kiln_status trim_by_plan(remote_store *self, kilni_trim_plan *plan, bool is_dry,
                                kiln_trim_report *report)
{
    const size_t most = self->connector->knows_uses ? KILNI_READ_AHEAD_GROUP : 1;
    const kilni_trim_value *values;
    size_t count;
    kiln_status status = list_entries(self, survey_group, plan);
    if (status != KILN_OK) {
        return status;
    }
    kilni_trim_plan_begin(plan);
    while (status == KILN_OK && (count = kilni_trim_plan_choose(plan, most, &values)) > 0) {
        status = remove_chosen(self, plan, values, count, is_dry, report);
    }
    report->entries = plan->entries;
    report->bytes = plan->bytes;
    return status;
}

/* Entries of a newer format are never removed, because other machines may have that version. If
 * only the listing is known, the policy is "lru": a listing does not have the build times that the
 * policy "cost" needs, and does not show whether an entry was built or copied. */
static kiln_status remote_trim(kiln_store *store, const kiln_trim_params *params,
                               kiln_trim_report *ret_report)
{
    remote_store *self = remote_of(store);
    if (!self->connector->remove_judged || (params->flags & KILN_TRIM_NEWER)) {
        return KILN_E_UNSUPPORTED;
    }
    kilni_trim_plan plan = {
        .ranking = {.policy = self->connector->knows_uses ? store->options.policy : KILN_POLICY_LRU,
                    .now_s = kilni_clock_unix_s(),
                    .resolution_s = USES_WITHIN_S,
                    .max_age_s = params->older_than_s},
        .limit = params->flags & KILN_TRIM_BY_SIZE ? params->max_bytes : KILN_UNLIMITED};
    const kiln_status status =
        trim_by_plan(self, &plan, params->flags & KILN_TRIM_DRY_RUN, ret_report);
    kilni_trim_plan_done(&plan);
    return status;
}

/* ---- opening ---- */

static void remote_close(kiln_store *store)
{
    remote_store *self = remote_of(store);
    self->connector->close(self->remote);
    if (self->uses) {
        free(self->uses->file);
        free(self->uses);
    }
    free(self->name);
    free(self);
}

/* The operations that the stores of all connectors have. */
#define COMMON_OPS                                                                                 \
    .close = remote_close, .get = remote_get, .fill = remote_fill, .read_digest = read_entry,      \
    .put = remote_put, .remove = remote_remove, .contains = remote_contains,                       \
    .lease = remote_take_lease, .forget_miss = remote_forget_miss,                                 \
    .lease_release = remote_release_lease, .each = remote_each,                                    \
    .each_of_digest = remote_each_of_digest, .each_request = remote_each_request,                  \
    .item_info = remote_item_info, .item_read = remote_item_read,                                  \
    .item_remove = remote_item_remove, .item_quarantine = remote_item_quarantine,                  \
    .stat = remote_stat, .trim = remote_trim, .add_stats = remote_add_stats,                       \
    .note_device = remote_note_device, .device_use = remote_device_use, .outage = remote_outage

/* For connectors that ask one question after the other, and for those that ask many at once. */
static const kilni_store_ops ops_for_one = {COMMON_OPS};
static const kilni_store_ops ops_for_many = {COMMON_OPS, .get_many = remote_get_many,
                                             .read_digests = remote_read_digests,
                                             .contains_many = remote_contains_many};

/* Allocates what is needed to report uses to the server, if it is written. */
static kiln_status begin_uses(remote_store *self, const char *file)
{
    if (!(self->store.capabilities & KILNI_STORE_WRITABLE)) {
        return KILN_OK;
    }
    self->reports_entries = self->store.options.expire_s > 0 && self->connector->keep;
    self->uses = calloc(1, sizeof *self->uses);
    if (self->uses && file) {
        self->uses->file = strdup(file);
    }
    return self->uses && (!file || self->uses->file) ? KILN_OK : KILN_E_NO_MEMORY;
}

kiln_status kilni_remote_open(const char *name, const kilni_connector *connector,
                              const kilni_remote_server *server, const kilni_remote_naming *naming,
                              const kilni_store_options *options, uint32_t capabilities,
                              const char *uses_file, kiln_store **ret_store, kiln_error *error)
{
    remote_store *self = calloc(1, sizeof *self);
    char *copy = strdup(name);
    if (!self || !copy) {
        free(self);
        free(copy);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    const kiln_status status = connector->open(server, &self->remote, error);
    if (status != KILN_OK) {
        free(self);
        free(copy);
        return status;
    }
    self->store.ops = connector->ask_many ? &ops_for_many : &ops_for_one;
    self->store.options = *options;
    self->store.options.max_bytes = KILN_UNLIMITED;
    self->store.capabilities = capabilities;
    self->connector = connector;
    self->naming = naming;
    self->name = copy;
    if (begin_uses(self, uses_file) != KILN_OK) {
        remote_close(&self->store);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    *ret_store = &self->store;
    return KILN_OK;
}
