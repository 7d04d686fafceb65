/* SPDX-License-Identifier: Apache-2.0
 *
 * What all store engines share. The public calls (store.c) check arguments, enforce limits and
 * count. The engine's functions in kilni_store_ops do everything else.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store.h>
#include <kiln/store_tools.h>

/* The capabilities of a store. Callers look at these, never at an engine's name. */
enum {
    KILNI_STORE_LEASES = 1u,   /* it has leases, so that only one process builds a key */
    KILNI_STORE_WRITABLE = 2u, /* puts and removals may succeed */
    KILNI_STORE_TOTALS = 4u,   /* it keeps the counters of all processes */
    /* Entries leave the machine, so they are compressed before they are put, and the long parts of
     * their keys are replaced by digests. */
    KILNI_STORE_SENDS = 8u,
    /* Users other than this one and root may have written the entries: packs are shipped, and
     * servers are shared. Its entries are authenticated only if it has a signing key, or signers
     * that require signatures. */
    KILNI_STORE_FOREIGN = 16u,
    /* Entries are signed when they are put, but an entry that is found may have a different
     * signature, or none. */
    KILNI_STORE_VOUCHES = 32u
};

/* What a chain writes to a writable tier. */
typedef enum kilni_store_write {
    KILNI_WRITE_UNSET, /* as KILNI_WRITE_ALL */
    KILNI_WRITE_ALL,   /* entries that are put, and entries that were found in a lower tier */
    KILNI_WRITE_FIRST, /* the same entries, unless a tier above has stored them */
    KILNI_WRITE_NONE   /* nothing is put or removed */
} kilni_store_write;

/* How a directory names its entries. */
typedef enum kilni_store_layout {
    KILNI_STORE_LAYOUT_KILN,
    KILNI_STORE_LAYOUT_SYCL,
    KILNI_STORE_LAYOUT_ONEDNN
} kilni_store_layout;

#define KILNI_STORE_BACKEND_SIZE 32u /* of a backend's name, with its terminating NUL */

/* The store's parameters, with defaults filled in. */
typedef struct kilni_store_options {
    uint64_t max_bytes;       /* 0: nothing is stored; KILN_UNLIMITED: no limit */
    uint32_t flags;           /* KILN_STORE_… */
    uint32_t use_interval_s;  /* 0: every use is stamped */
    uint32_t policy;          /* KILN_POLICY_… */
    uint64_t max_age_s;       /* 0: none */
    uint64_t max_entry_bytes; /* larger entries are neither put nor read */
    kilni_store_layout layout;
    char backend[KILNI_STORE_BACKEND_SIZE]; /* layout "onednn": the topmost folder; "": none */
    kiln_log log;
    kilni_store_write write; /* for a tier of a chain: the option write= */
    const char *key_file;    /* NULL: none. Set to NULL once the store is open */
    /* For a store on a server: */
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
    uint64_t expire_s;    /* how long after a put the server removes the entry; 0: never */
    /* The folder on this machine in which processes share the state of a server; NULL or a relative
     * path: the user's runtime folder. A chain sets it for its tiers. Set to NULL once the store is
     * open. */
    const char *state_folder;
} kilni_store_options;

/* Each operation has the name of the public call that uses it. The public call has checked that no
 * pointer is NULL, that the store is writable before it is written to, and that the entry of a put
 * is not too large. */
typedef struct kilni_store_ops {
    void (*close)(kiln_store *store);
    /* Sets @ret_fill, which is 0 before, if the operation fill is then to be called. A chain does
     * so if the entry should be copied to other tiers, or if a tier should learn of the use. Other
     * stores do so at an entry's first use today, as far as they know; the chain that they belong
     * to calls the operation fill of servers that have the entry, too. */
    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                       size_t *ret_fill);
    /* As get, but does not ask the tier @missed_in. NULL: the store has no tiers. */
    kiln_status (*get_elsewhere)(kiln_store *store, const kiln_key *key,
                                 const kiln_store *missed_in, kiln_entry **ret_entry,
                                 size_t *ret_fill);
    /* NULL: there is nothing to be done. */
    void (*fill)(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);
    /* Reads and verifies the entry of a digest, without recording a use. The statuses are those of
     * get; KILN_E_UNSUPPORTED: this store cannot find an entry by its digest. */
    kiln_status (*read_digest)(kiln_store *store, const kiln_digest *digest,
                               kiln_entry **ret_entry);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    /* @judged: as kilni_store_remove_judged; NULL: removes the key's entry in any case. */
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    /* @build_ns: as kilni_store_lease */
    kiln_status (*lease)(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                         uint64_t wait_ns, kiln_lease **ret_lease);
    void (*lease_release)(kiln_lease *lease);
    /* The next get of the key must ask the server, even if it has just denied to have the key's
     * entry. NULL: every get asks. */
    void (*forget_miss)(kiln_store *store, const kiln_key *key);
    kiln_status (*each)(kiln_store *store, kiln_item_fn visit, void *user);
    /* As each, but visits everything that is stored: in a chain also the copies that a look-up does
     * not reach. NULL: the store has no such copies. */
    kiln_status (*each_copy)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*each_request)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*item_info)(kiln_item *item, kiln_item_info *ret_info);
    kiln_status (*item_read)(kiln_item *item, kiln_entry **ret_entry);
    kiln_status (*item_remove)(kiln_item *item);
    /* NULL: KILN_E_UNSUPPORTED. The store is writable. */
    kiln_status (*item_quarantine)(kiln_item *item);
    kiln_status (*stat)(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat);
    kiln_status (*add_stats)(kiln_store *store, const kiln_stats *delta);
    /* NULL: KILN_E_UNSUPPORTED. The store is writable, or the trim is a dry run. */
    kiln_status (*trim)(kiln_store *store, const kiln_trim_params *params,
                        kiln_trim_report *ret_report);
    /* Both may be NULL: this store does not keep its last miss. @miss is an entry as
     * store/last_miss.h makes it. */
    kiln_status (*note_miss)(kiln_store *store, const kiln_entry *miss);
    kiln_status (*last_miss)(kiln_store *store, kiln_entry **ret_miss);
    /* Returns why the store is not asked at present, and sets after how long it is asked again; if
     * it is asked, returns NULL. NULL: the store is always asked. */
    const char *(*outage)(kiln_store *store, uint64_t *ret_wait_ns);
    /* NULL: the store has no tiers. */
    void (*each_tier)(kiln_store *store, kiln_tier_fn visit, void *user);
} kilni_store_ops;

/* What this handle has done since kilni_store_take_counts was last called. These are only counters,
 * so every access to them is relaxed. */
typedef struct kilni_store_counts {
    _Atomic uint64_t puts, corrupt, evicted;
} kilni_store_counts;

struct kilni_signing_key;
struct kilni_signers;

/* An engine's own struct begins with this one. Once the store is open, only its atomic members
 * change. */
struct kiln_store {
    const kilni_store_ops *ops;
    /* The signing key of the store's entries; NULL: none. The public calls sign with it; engines
     * pass it to the decoder. */
    struct kilni_signing_key *signing_key;
    /* Of a store on a server: the keys with which it makes and checks signatures; NULL: it does
     * neither. */
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
    /* The store, or the tier of a chain, that did not have the key's entry when it granted the
     * lease; NULL: no such store is known. While the lease is held, the holder need not ask that
     * store again. */
    const kiln_store *missed_in;
    /* The lease excludes nobody: while the caller waited for it, the store got the key's entry. If
     * the caller cannot use that entry, it must ask for the lease again. */
    bool is_shared;
};

struct kiln_item {
    kiln_store *store;
};

/* Whether an entry's kind fits its key: a capture request must have a request's key, and no other
 * entry may have one. Listings find requests by key and show them by kind, so an entry whose kind
 * does not fit its key would be counted but not listed. */
bool kilni_store_has_kind_of_key(const kiln_entry *entry);

/* Whether a key is that of a capture request. Requests are stored like entries, but not counted as
 * entries. */
bool kilni_store_is_request(const kiln_key *key);

/* Returns the one to report of the statuses of two removals of the same key. A failure takes
 * precedence over KILN_EXISTS (the entry stays), KILN_EXISTS over KILN_OK, and KILN_OK over
 * KILN_MISS. */
kiln_status kilni_store_worse_removal(kiln_status a, kiln_status b);

/* As kiln_store_remove, but removes only an entry that equals @judged, which the caller has read
 * from the store and found unfit. If a different entry has replaced it, that one stays, and the
 * status is KILN_MISS. In a chain, copies of @judged are removed from all tiers to which the chain
 * writes. */
kiln_status kilni_store_remove_judged(kiln_store *store, const kiln_key *key,
                                      const kiln_entry *judged);

/* Whether results of an entry that was found may become part of the entry that replaces it. They
 * may not if the store signs the new entry, because its signature would vouch for what somebody
 * else has built. They also may not if the found entry is signed, because the new entry would lack
 * that signature, by which the entries of a revoked signer are found.
 *
 * @store  NULL: the entries are in memory alone */
bool kilni_store_may_merge(const kiln_store *store, const kiln_entry *found);

/* Returns KILNI_STORE_…; 0 for NULL. */
uint32_t kilni_store_capabilities(const kiln_store *store);

/* As kiln_store_lease, for a caller that knows how long the build will probably take.
 *
 * @build_ns  0: unknown. If it would take too long to get a server's lease for a build of this
 *            length, the server is not asked */
kiln_status kilni_store_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                              uint64_t wait_ns, kiln_lease **ret_lease);

/* As kiln_store_get, for a caller that has a kilni_writer: if a lower tier of a chain has the
 * entry, this call does not copy it to the tiers above.
 *
 * @lease     the lease that the caller holds for this key; NULL: none
 * @is_again  true: a damaged entry is not counted, for example because an earlier call for this key
 *            has counted it
 * @ret_fill  not 0: the caller should pass this value to kilni_store_fill */
kiln_status kilni_store_find(kiln_store *store, const kiln_key *key, const kiln_lease *lease,
                             bool is_again, kiln_entry **ret_entry, size_t *ret_fill);

/* As kilni_store_get, for a tier of a chain. Counts nothing.
 *
 * @ret_first_use  whether this is the entry's first use today, as far as the tier knows */
kiln_status kilni_store_get_from_tier(kiln_store *tier, const kiln_key *key, kiln_entry **ret_entry,
                                      bool *ret_first_use);

/* Copies an entry that kilni_store_find returned to the tiers above the tier that had it, and tells
 * servers that it was used. Failures do no harm and are not reported. Threads: any.
 *
 * @entry  what kilni_store_find returned for @key */
void kilni_store_fill(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);

/* Records @key, which was not found, and the time as the store's last miss, if the store's flags
 * ask for that and the store is writable. A failure does no harm. */
void kilni_store_note_miss(kiln_store *store, const kiln_key *key);

/* Returns how many entries this handle has put, found damaged and evicted since the last call, and
 * resets these counts. The store adds them to its totals itself. */
void kilni_store_take_counts(kiln_store *store, kiln_stats *ret_counts);

/* Kinds of warnings. Each is logged once per store. */
enum {
    KILNI_WARNED_ENTRY = 1u,   /* a file that is not trusted was skipped */
    KILNI_WARNED_TOTALS = 2u,  /* the totals cannot be kept */
    KILNI_WARNED_TRIM = 4u,    /* a trim cannot make room */
    KILNI_WARNED_PUT = 8u,     /* an entry cannot be written */
    KILNI_WARNED_SERVER = 16u, /* a server refuses this user, or its certificate is not accepted */
    KILNI_WARNED_AWAY = 32u,   /* a server does not answer */
    KILNI_WARNED_TIER = 256u /* the first tier of a chain is skipped; the next higher bits stand for
                                the next tiers */
};

/* Logs a warning, unless one of its kind was logged before. */
void kilni_store_warn(kiln_store *store, uint32_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
