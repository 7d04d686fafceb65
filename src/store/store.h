/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that all store engines share. The public calls (store.c) check arguments, enforce
 * limits and count what happens. The engine's functions in kilni_store_ops do everything else.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/journal.h>
#include <kiln/store.h>
#include <kiln/store_tools.h>

/* The capabilities of a store. Callers decide by these flags, never by an engine's name. */
enum {
    KILNI_STORE_LEASES = 1u,   /* it grants leases, so that only one process builds a key */
    KILNI_STORE_WRITABLE = 2u, /* entries can be put and removed */
    KILNI_STORE_TOTALS = 4u,   /* it keeps the counters of all processes */
    /* Entries leave the machine, so they are compressed before they are put, and the long parts of
     * their keys are replaced by digests. */
    KILNI_STORE_SENDS = 8u,
    /* Other users might have written the entries, because packs are shipped and servers are shared.
     * Entries of such a store are authenticated only if it has a signing key, or signers that
     * require signatures. */
    KILNI_STORE_FOREIGN = 16u,
    /* The store signs entries when they are put, but an entry that is found might have a different
     * signature, or none. */
    KILNI_STORE_VOUCHES = 32u
};

/* Which entries a chain writes to a writable tier. */
typedef enum kilni_store_write {
    KILNI_WRITE_UNSET, /* means KILNI_WRITE_ALL */
    KILNI_WRITE_ALL,   /* entries that are put, and entries that were found in a lower tier */
    KILNI_WRITE_FIRST, /* those of these entries that no tier above has stored */
    KILNI_WRITE_NONE   /* nothing is put or removed */
} kilni_store_write;

/* What a kilni_writer has to do in one tier with an entry. A store that is not a chain has one
 * tier, which is the store itself. */
typedef enum kilni_tier_task {
    KILNI_TIER_TASK_NONE,
    KILNI_TIER_TASK_ALWAYS,
    KILNI_TIER_TASK_IF_NOT_STORED /* only if no tier above this one has stored the entry */
} kilni_tier_task;

/* How a directory names its entries. */
typedef enum kilni_store_layout {
    KILNI_STORE_LAYOUT_KILN,
    KILNI_STORE_LAYOUT_SYCL,
    KILNI_STORE_LAYOUT_ONEDNN
} kilni_store_layout;

#define KILNI_STORE_BACKEND_SIZE 32u /* the size of a backend's name, with its NUL */

/* The store's parameters, with defaults filled in. */
typedef struct kilni_store_options {
    uint64_t max_bytes;       /* 0: nothing is stored; KILN_UNLIMITED: no limit */
    uint32_t flags;           /* KILN_STORE_… */
    uint32_t use_interval_s;  /* 0: every use is stamped */
    uint32_t policy;          /* KILN_POLICY_… */
    uint64_t max_age_s;       /* 0: no maximum */
    uint64_t max_entry_bytes; /* larger entries are neither put nor read */
    kilni_store_layout layout;
    char backend[KILNI_STORE_BACKEND_SIZE]; /* layout "onednn": top folder; "": none */
    kiln_log log;
    kilni_store_write write; /* for a tier of a chain: the option write= */
    const char *key_file;    /* NULL: none. Set to NULL once the store is open */
    /* Owners and modes do not count, because the store is read-only and has a signing key. */
    bool trusts_any_owner;
    /* The following options are for a store on a server. */
    bool trusts_any; /* entries need no signature */
    /* Files of keys (store/signing); NULL: none. Set to NULL once the store is open. */
    const char *secret_key_file, *trusted_key_files[KILN_TRUSTED_KEY_FILES];
    uint64_t signature_valid_s; /* how long new signatures are valid; 0: they do not expire */
    /* Files, keys, and parts of the server's address; NULL: none. Set to NULL once the store is
     * open. */
    const char *credentials_file, *access_key, *secret_key, *session_token; /* of S3 */
    const char *endpoint, *region;
    const char *password_file, *token_file, *ca_file, *certificate_file, *certificate_key_file;
    const char *password; /* of Redis; NULL: none. Set to NULL once the store is open */
    uint64_t expire_s;    /* the server removes an entry this long after its put; 0: never */
    /* The folder in which the processes of this machine share what they know about a server. If it
     * is NULL or a relative path, they use the user's runtime folder. A chain sets this option for
     * its tiers. Set to NULL once the store is open. */
    const char *state_folder;
} kilni_store_options;

/* The maximum number of keys or digests in one call of an operation that takes several. */
#define KILNI_STORE_MANY 64u

/* One of several keys that are looked up together. */
typedef struct kilni_lookup {
    const kiln_key *key;
    /* The answer: */
    kiln_status status;
    kiln_entry *entry; /* only if the status is KILN_OK; the caller must release it */
    size_t fill;       /* the same as the @ret_fill of a single look-up */
} kilni_lookup;

/* Receives the answer for one of several digests. @entry is valid during the call, and only if the
 * status is KILN_OK. */
typedef void kilni_digest_fn(void *user, size_t index, kiln_status status, const kiln_entry *entry);

/* Each operation has the name of the public call that uses it. The public call has already checked
 * that no pointer is NULL and that the entry of a put is not too large. Before an operation that
 * writes, it has also checked that the store is writable. */
typedef struct kilni_store_ops {
    void (*close)(kiln_store *store);
    /* The caller sets @ret_fill to 0. If the caller should then call the operation fill, get sets
     * @ret_fill to a different value. A chain requests such a call if the entry should be copied to
     * other tiers, or if a tier should learn of the use. Other stores request it at an entry's
     * first use today, as far as they know. If such a store is a tier, its chain then calls the
     * operation fill of the servers that also have the entry. */
    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                       size_t *ret_fill);
    /* Does the same as get, but does not ask the tier @missed_in. NULL: the store has no tiers. */
    kiln_status (*get_elsewhere)(kiln_store *store, const kiln_key *key,
                                 const kiln_store *missed_in, kiln_entry **ret_entry,
                                 size_t *ret_fill);
    /* Does the same as get for each of at most KILNI_STORE_MANY keys. NULL: the store is not on a
     * server, so the caller calls get for each key. */
    void (*get_many)(kiln_store *store, kilni_lookup *lookups, size_t count);
    /* NULL: this store has nothing to do. */
    void (*fill)(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);
    /* Reads and verifies the entry of a digest, without recording a use. Returns the statuses of
     * get. KILN_E_UNSUPPORTED: this store cannot find an entry by its digest. */
    kiln_status (*read_digest)(kiln_store *store, const kiln_digest *digest,
                               kiln_entry **ret_entry);
    /* Does the same as read_digest for each of at most KILNI_STORE_MANY digests, in any order.
     * NULL: as for get_many. */
    void (*read_digests)(kiln_store *store, const kiln_digest *digests, size_t count,
                         kilni_digest_fn *visit, void *user);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    /* @judged has the meaning that it has in kilni_store_remove_judged. If it is NULL, the key's
     * entry is removed in any case. */
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    /* Does the same as contains for each of at most KILNI_STORE_MANY keys. NULL: as for get_many.
     */
    void (*contains_many)(kiln_store *store, const kiln_key *const *keys, size_t count,
                          kiln_status *ret_statuses);
    /* @build_ns has the meaning that it has in kilni_store_lease. */
    kiln_status (*lease)(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                         uint64_t wait_ns, kiln_lease **ret_lease);
    void (*lease_release)(kiln_lease *lease);
    /* Makes the next get of the key ask the server, even if the server has just answered that it
     * does not have the key's entry. NULL: every get asks. */
    void (*forget_miss)(kiln_store *store, const kiln_key *key);
    kiln_status (*each)(kiln_store *store, kiln_item_fn visit, void *user);
    /* Does what kiln_store_each_of_digest does. KILN_E_UNSUPPORTED: this store cannot find items by
     * a digest, and has visited nothing. */
    kiln_status (*each_of_digest)(kiln_store *store, const kiln_digest *digest, kiln_item_fn visit,
                                  void *user);
    /* Does the same as each, but in a chain also visits the copies that a look-up does not reach.
     * NULL: the store has no such copies. */
    kiln_status (*each_copy)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*each_request)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*item_info)(kiln_item *item, kiln_item_info *ret_info);
    kiln_status (*item_read)(kiln_item *item, kiln_entry **ret_entry);
    kiln_status (*item_remove)(kiln_item *item);
    /* If this is NULL, the public call returns KILN_E_UNSUPPORTED. The store is writable. */
    kiln_status (*item_quarantine)(kiln_item *item);
    kiln_status (*stat)(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat);
    kiln_status (*add_stats)(kiln_store *store, const kiln_stats *delta);
    /* If this is NULL, the public call returns KILN_E_UNSUPPORTED. The store is writable, or the
     * trim is a dry run. */
    kiln_status (*trim)(kiln_store *store, const kiln_trim_params *params,
                        kiln_trim_report *ret_report);
    /* Write and read the last miss. Both are NULL if this store does not keep it. @miss is an entry
     * that kilni_last_miss_entry_of (store/last_miss.h) has made. */
    kiln_status (*note_miss)(kiln_store *store, const kiln_entry *miss);
    kiln_status (*last_miss)(kiln_store *store, kiln_entry **ret_miss);
    /* Adds a driver to those that the store knows. Returns true if it was not known, and others
     * were. NULL: the store keeps no such list. The store is writable. */
    bool (*is_new_driver)(kiln_store *store, uint64_t driver);
    /* Records that the device of an entry is in use, unless this was already recorded today; and
     * reads when the device of a record's key (store/device_use.h) was last in use. Both are NULL
     * if the store keeps no such records. note_device is called only if the store is writable. */
    void (*note_device)(kiln_store *store, size_t tier, const kiln_entry *used);
    kiln_status (*device_use)(kiln_store *store, const kiln_key *key, int64_t *ret_last_s);
    /* Append whole records to the journal, and read it. Both are NULL if this store has none. */
    kiln_status (*journal_append)(kiln_store *store, const void *records, size_t size);
    kiln_status (*journal_read)(kiln_store *store, kiln_journal_fn visit, void *user,
                                kiln_journal_report *ret_report);
    /* If the store is not asked at present, this operation returns the reason, and sets
     * @ret_wait_ns to the time until it is asked again. Otherwise returns NULL. If the operation
     * itself is NULL, the store is always asked. */
    const char *(*outage)(kiln_store *store, uint64_t *ret_wait_ns);
    /* NULL: the store has no tiers. */
    void (*each_tier)(kiln_store *store, kiln_tier_fn visit, void *user);
    /* These six operations have the meanings of the functions below that are named after them. All
     * are NULL if the store has no tiers. */
    size_t (*tier_count)(const kiln_store *store);
    uint32_t (*tier_capabilities)(const kiln_store *store, size_t tier);
    kilni_tier_task (*tier_task)(kiln_store *store, size_t tier, size_t fill, const kiln_key *key);
    kiln_status (*write_to_tier)(kiln_store *store, size_t tier, size_t fill, const kiln_key *key,
                                 const kiln_entry *entry);
    void (*note_drop)(kiln_store *store, size_t tier);
    void (*lease_note_stored)(kiln_lease *lease, size_t tier);
    /* Returns the path of the store's directory, or of a chain's first directory; NULL: the chain
     * has none. If the operation itself is NULL, the store is not in a directory. */
    const char *(*folder)(const kiln_store *store);
} kilni_store_ops;

/* Counts what this handle has done since the last call of kilni_store_take_counts. Nothing else
 * depends on these counters, so every access to them is relaxed. */
typedef struct kilni_store_counts {
    _Atomic uint64_t puts, corrupt, evicted;
} kilni_store_counts;

struct kilni_signing_key;
struct kilni_signers;

/* Each engine has a struct of its own that begins with a kiln_store. Once the store is open, only
 * its atomic members change. */
struct kiln_store {
    const kilni_store_ops *ops;
    /* The signing key of the store's entries; NULL: none. The public calls sign with it; engines
     * pass it to the decoder. */
    struct kilni_signing_key *signing_key;
    /* If the store is on a server, the keys with which it makes and checks signatures. NULL: it
     * does neither. */
    struct kilni_signers *signers;
    uint32_t capabilities; /* KILNI_STORE_… */
    kilni_store_options options;
    kilni_store_counts counts;          /* for kilni_store_take_counts */
    _Atomic uint64_t uncounted_corrupt; /* damaged entries that are not yet in the totals, because
                                           gets do not write. Relaxed */
    _Atomic uint32_t warned;            /* the KILNI_WARNED_… that have been logged. Relaxed */
};

struct kiln_lease {
    const kilni_store_ops *ops;
    /* The store or tier that granted the lease and did not have the key's entry at that time. While
     * the lease is held, the holder need not ask that store again. NULL: no such store is known. */
    const kiln_store *missed_in;
    /* True if the lease excludes nobody. This happens if the store got the key's entry while the
     * caller waited for the lease. If the caller cannot use that entry, it must ask for the lease
     * again. */
    bool is_shared;
};

struct kiln_item {
    kiln_store *store;
};

/* Returns true if an entry's kind fits its key. A capture request must have a request's key, and
 * any other entry must not have one. Listings find requests by key and show them by kind, so an
 * entry whose kind does not fit its key would be counted but not listed. */
bool kilni_store_has_kind_of_key(const kiln_entry *entry);

/* Returns true if a key belongs to a capture request. Requests are stored like entries, but not
 * counted as entries. */
bool kilni_store_is_request(const kiln_key *key);

/* Returns which of the statuses of two removals of the same key is to be reported. A failure takes
 * precedence over KILN_EXISTS, which means that the entry stays. KILN_EXISTS takes precedence over
 * KILN_OK, and KILN_OK over KILN_MISS. */
kiln_status kilni_store_worse_removal(kiln_status a, kiln_status b);

/* Does the same as kiln_store_remove, but removes only an entry that equals @judged. The caller has
 * read @judged from the store and cannot use it. If a different entry has replaced it, the new
 * entry stays, and the status is KILN_MISS. In a chain, copies of @judged are removed from all
 * tiers to which the chain writes. */
kiln_status kilni_store_remove_judged(kiln_store *store, const kiln_key *key,
                                      const kiln_entry *judged);

/* Returns true if results of an entry that was found are allowed in the entry that replaces it.
 * They are not allowed if the store signs the new entry, because the signature would vouch for what
 * somebody else has built. They are also not allowed if the found entry is signed. The new entry
 * would lack that signature, and the entries of a revoked signer are found by their signatures.
 *
 * @store  NULL: the entries are only in memory */
bool kilni_store_may_merge(const kiln_store *store, const kiln_entry *found);

/* Returns the store's capabilities (KILNI_STORE_…); 0 if @store is NULL. */
uint32_t kilni_store_capabilities(const kiln_store *store);

/* Does the same as kiln_store_lease, for a caller that knows how long the build will probably take.
 *
 * @build_ns  the probable duration of the build; 0: unknown. If asking a server for a lease would
 *            take too long in comparison, the server is not asked */
kiln_status kilni_store_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                              uint64_t wait_ns, kiln_lease **ret_lease);

/* Does the same as kiln_store_get, for a caller that has a kilni_writer. If a lower tier of a chain
 * has the entry, this call does not copy the entry to the tiers above.
 *
 * @lease     the lease that the caller holds for this key; NULL: none
 * @is_again  true: damaged entries are not counted, for example because an earlier call for this
 *            key has counted them
 * @ret_fill  if it is not 0, the caller should pass it to kilni_store_fill */
kiln_status kilni_store_find(kiln_store *store, const kiln_key *key, const kiln_lease *lease,
                             bool is_again, kiln_entry **ret_entry, size_t *ret_fill);

/* Does the same as kilni_store_find for each of several keys, without leases. Keys that no local
 * store has are asked for together.
 *
 * @lookups   [in, out] the caller sets the keys
 * @is_again  as in kilni_store_find */
void kilni_store_find_many(kiln_store *store, kilni_lookup *lookups, size_t count, bool is_again);

/* Reads and verifies the entries of several digests, without recording uses, and calls @visit for
 * each digest. If the store is on a server, it is asked for many entries in one round trip. */
void kilni_store_read_digests(kiln_store *store, const kiln_digest *digests, size_t count,
                              kilni_digest_fn *visit, void *user);

/* Does the same as kiln_store_get, for a tier of a chain. Counts nothing.
 *
 * @ret_first_use  set to true if this is the entry's first use today, as far as the tier knows */
kiln_status kilni_store_get_from_tier(kiln_store *tier, const kiln_key *key, kiln_entry **ret_entry,
                                      bool *ret_first_use);

/* Does the same as kilni_store_get_from_tier for each of at most KILNI_STORE_MANY keys. The member
 * fill of a look-up is not 0 if this is the entry's first use today. The tier must have the
 * operation get_many. */
void kilni_store_get_many_from_tier(kiln_store *tier, kilni_lookup *lookups, size_t count);

/* Copies an entry that kilni_store_find returned to the tiers above the tier that had it, and tells
 * servers that the entry was used. Failures do no harm and are not reported. Any thread can call
 * this function.
 *
 * @entry  the entry that kilni_store_find returned for @key */
void kilni_store_fill(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);

/* Converts an entry to the form that the store keeps: signed if the store has a key to sign with,
 * and compressed and stripped if it leaves the machine. */
kiln_status kilni_store_prepare(kiln_store *store, const kiln_entry *entry,
                                kiln_entry **ret_prepared);

/* Records on a tier, if it is a server, that the device of an entry is in use, unless this machine
 * has already done so today. kilni_store_write_to_tier does this. A failure does no harm. */
void kilni_store_note_device(kiln_store *store, size_t tier, const kiln_entry *used);

/* ---- for a kilni_writer, which writes to each tier on a separate thread ---- */

/* Returns the number of tiers; 0 if @store is NULL. */
size_t kilni_store_tier_count(const kiln_store *store);

/* Returns a tier's capabilities (KILNI_STORE_…). */
uint32_t kilni_store_tier_capabilities(const kiln_store *store, size_t tier);

/* Returns what has to be done in a tier, so that all tiers together do what kiln_store_put or
 * kilni_store_fill does.
 *
 * @fill  the value for kilni_store_fill; 0: the entry is to be put
 * @key   the entry's key */
kilni_tier_task kilni_store_tier_task(kiln_store *store, size_t tier, size_t fill,
                                      const kiln_key *key);

/* Does a tier's part of kiln_store_put or kilni_store_fill. A put is not counted. Any thread can
 * call this function, also while other threads write to other tiers. Returns KILN_OK: the tier has
 * done its part; else as kiln_store_put. */
kiln_status kilni_store_write_to_tier(kiln_store *store, size_t tier, size_t fill,
                                      const kiln_key *key, const kiln_entry *entry);

/* Counts an entry that the caller did not put into a tier because too many others waited, or the
 * time was over. */
void kilni_store_note_drop(kiln_store *store, size_t tier);

/* Counts a put that at least one tier has stored. */
void kilni_store_count_put(kiln_store *store, const kiln_entry *entry);

/* Releases the part of a lease that is not needed any more once @tier has stored the key's entry.
 * Several threads can call this function at the same time. @lease can be NULL, and must still be
 * released with kiln_lease_release. */
void kilni_lease_note_stored(kiln_lease *lease, size_t tier);

/* Adds a driver to those that the store knows. Returns true, once for all processes, if the store
 * did not know this driver, but knew others.
 *
 * @driver  identifies the driver and its version */
bool kilni_store_is_new_driver(kiln_store *store, uint64_t driver);

/* Returns true if the store keeps a journal: its flags ask for this, and it is writable. */
bool kilni_store_has_journal(const kiln_store *store);

/* Appends whole records (store/journal_record.h) to the store's journal. Does no harm if it fails.
 * Returns KILN_OK; any error: later calls will probably fail, too. */
kiln_status kilni_store_append_to_journal(kiln_store *store, const void *records, size_t size);

/* Sets @ret_counts to the numbers of entries that this handle has put, found damaged and evicted
 * since the last call. Then resets these numbers. The store itself adds them to its totals. */
void kilni_store_take_counts(kiln_store *store, kiln_stats *ret_counts);

/* Kinds of warnings. A store logs each kind at most once. */
enum {
    KILNI_WARNED_ENTRY = 1u,   /* a file that is not trusted was skipped */
    KILNI_WARNED_TOTALS = 2u,  /* the totals cannot be kept */
    KILNI_WARNED_TRIM = 4u,    /* a trim cannot make room */
    KILNI_WARNED_PUT = 8u,     /* an entry cannot be written */
    KILNI_WARNED_SERVER = 16u, /* a server refuses this user, or its certificate is not accepted */
    KILNI_WARNED_AWAY = 32u,   /* a server does not answer */
    KILNI_WARNED_TIER = 256u /* the first tier of a chain is skipped; the next higher bits mean the
                                next tiers */
};

/* Logs a warning, unless the store has already logged a warning of this kind. */
void kilni_store_warn(kiln_store *store, uint32_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
