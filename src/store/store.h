/* SPDX-License-Identifier: Apache-2.0
 *
 * What all kinds of stores share. The public calls (store.c) check arguments, enforce limits and
 * count; an engine behind kilni_store_ops does the rest.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store.h>
#include <kiln/store_tools.h>

/* What a store can do. Callers decide by these, never by an engine's name. */
enum {
    KILNI_STORE_LEASES = 1u,   /* one builder among all processes */
    KILNI_STORE_WRITABLE = 2u, /* puts and removals may succeed */
    KILNI_STORE_TOTALS = 4u    /* the counters of all processes are kept */
};

/* What a chain writes to a writable tier. */
typedef enum kilni_store_write {
    KILNI_WRITE_UNSET, /* as KILNI_WRITE_ALL */
    KILNI_WRITE_ALL,   /* what is put, and what was found in a lower tier */
    KILNI_WRITE_FIRST, /* the same, unless a tier above has stored it */
    KILNI_WRITE_NONE   /* nothing is put or removed */
} kilni_store_write;

/* How a directory names its entries. */
typedef enum kilni_store_layout {
    KILNI_STORE_LAYOUT_KILN,
    KILNI_STORE_LAYOUT_SYCL,
    KILNI_STORE_LAYOUT_ONEDNN
} kilni_store_layout;

#define KILNI_STORE_BACKEND_SIZE 32u /* of a backend's name, with its closing zero */

/* The store's parameters, with defaults filled in. */
typedef struct kilni_store_options {
    uint64_t max_bytes;        /* 0: nothing is stored; KILN_UNLIMITED */
    uint32_t flags;            /* KILN_STORE_… */
    uint32_t stamp_interval_s; /* 0: every use is stamped */
    uint32_t policy;           /* KILN_POLICY_… */
    uint64_t max_age_s;        /* 0: none */
    uint64_t max_entry_bytes;  /* larger entries are neither put nor read */
    kilni_store_layout layout;
    char backend[KILNI_STORE_BACKEND_SIZE]; /* layout "onednn": the topmost folder; "": none */
    kiln_log log;
    kilni_store_write write; /* set by the chain that the store is a tier of */
    const char *key_file;    /* NULL: none. Set to NULL once the store is open */
} kilni_store_options;

/* The operations have the names of the public calls that use them. Those calls have checked that
 * pointers are not NULL, that a store is writable before it is written to, and that a put fits. */
typedef struct kilni_store_ops {
    void (*close)(kiln_store *store);
    /* Sets @ret_fill if the hit leaves something to write, which fill then does. It is 0 before. */
    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                       size_t *ret_fill);
    /* NULL: a hit never leaves anything to write. */
    void (*fill)(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    /* @judged: as kilni_store_remove_judged; NULL: whatever the key's entry is. */
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    kiln_status (*lease)(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                         kiln_lease **ret_lease);
    void (*lease_release)(kiln_lease *lease);
    kiln_status (*each)(kiln_store *store, kiln_item_fn visit, void *user);
    /* As each, but visits everything that is stored: in a chain also the copies that a lookup does
     * not reach. NULL: there are none. */
    kiln_status (*each_copy)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*each_request)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*item_info)(kiln_item *item, kiln_item_info *ret_info);
    kiln_status (*item_read)(kiln_item *item, kiln_entry **ret_entry);
    kiln_status (*item_remove)(kiln_item *item);
    kiln_status (*stat)(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat);
    kiln_status (*account)(kiln_store *store, const kiln_stats *delta);
    /* NULL: KILN_E_UNSUPPORTED. The store is writable, or it is a dry run. */
    kiln_status (*trim)(kiln_store *store, const kiln_trim_params *params,
                        kiln_trim_report *ret_report);
    /* Both may be NULL: this store does not keep its last miss. @miss is made by store/missed.h. */
    kiln_status (*note_miss)(kiln_store *store, const kiln_entry *miss);
    kiln_status (*last_miss)(kiln_store *store, kiln_entry **ret_miss);
} kilni_store_ops;

/* What a handle has done and not yet reported to the totals. Only counters: every access is
 * relaxed. */
typedef struct kilni_store_counts {
    _Atomic uint64_t puts, corrupt, evicted;
} kilni_store_counts;

struct kilni_signing_key;

/* An engine's own struct begins with this one. Everything but the counters is immutable. */
struct kiln_store {
    const kilni_store_ops *ops;
    /* The key by which entries must be signed; NULL: they are not signed. The public calls sign;
     * engines pass the key to the decoder. */
    struct kilni_signing_key *signing_key;
    uint32_t capabilities; /* KILNI_STORE_… */
    kilni_store_options options;
    kilni_store_counts counts;          /* for kilni_store_take_counts */
    _Atomic uint64_t uncounted_corrupt; /* not yet in the totals: gets do not write. Relaxed */
    _Atomic uint32_t warned;            /* the KILNI_WARNED_… that were logged already. Relaxed */
};

struct kiln_lease {
    const kilni_store_ops *ops;
};

struct kiln_item {
    kiln_store *store;
};

/* Whether a key is that of a request. Requests are stored like entries, but not counted as entries.
 */
bool kilni_store_is_request(const kiln_key *key);

/* Of two statuses of removals of one key, returns the one to report: a failure or an entry that
 * stays before a success, and a success before a miss. */
kiln_status kilni_store_worse_removal(kiln_status a, kiln_status b);

/* As kiln_store_remove, but removes only an entry that equals @judged, which the caller has read
 * from the store and found unfit. If a different entry has replaced it, that one stays, and the
 * status is KILN_MISS. In a chain, copies of @judged are removed from all tiers. */
kiln_status kilni_store_remove_judged(kiln_store *store, const kiln_key *key,
                                      const kiln_entry *judged);

/* Returns KILNI_STORE_…; 0 for NULL. */
uint32_t kilni_store_capabilities(const kiln_store *store);

/* As kiln_store_get, for a caller that has a writer: if a lower tier of a chain has the entry, it
 * is not copied to the tiers above.
 *
 * @is_again  a damaged entry was already counted by an earlier call for this key
 * @ret_fill  what is left to write, for kilni_store_fill; 0: nothing */
kiln_status kilni_store_find(kiln_store *store, const kiln_key *key, bool is_again,
                             kiln_entry **ret_entry, size_t *ret_fill);

/* Writes what a find has left to write. Failures do no harm and are not reported. Threads: any.
 *
 * @entry  what the find returned for @key */
void kilni_store_fill(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);

/* Stores a key that was not found as the store's last miss, with the time, if the store's flags ask
 * for that and the store is writable. A failure does no harm. */
void kilni_store_note_miss(kiln_store *store, const kiln_key *key);

/* Takes the puts, corrupt and evicted counts of this handle since the last call. The store's totals
 * contain them already, or will. Each count is returned once. */
void kilni_store_take_counts(kiln_store *store, kiln_stats *ret_counts);

/* Kinds of warnings. Each is logged once per store. */
enum {
    KILNI_WARNED_ENTRY = 1u,  /* a file that is not trusted was skipped */
    KILNI_WARNED_TOTALS = 2u, /* the totals cannot be kept */
    KILNI_WARNED_TRIM = 4u,   /* a trim cannot make room */
    KILNI_WARNED_PUT = 8u,    /* an entry cannot be written */
    KILNI_WARNED_TIER = 256u  /* the first tier of a chain is skipped; the following bits are those
                                 of the next tiers */
};

/* Logs a warning, unless one of its kind was logged before. */
void kilni_store_warn(kiln_store *store, uint32_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
