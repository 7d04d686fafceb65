/* SPDX-License-Identifier: Apache-2.0
 *
 * What every kind of store is made of. The public calls (store.c) check arguments, enforce limits
 * and count; an engine behind kilni_store_ops only does the work.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store.h>
#include <kiln/store_tools.h>

/* What a store can do; callers decide by these, never by an engine's name. */
enum {
    KILNI_STORE_LEASES = 1u,   /* one builder across processes */
    KILNI_STORE_WRITABLE = 2u, /* puts and removals may succeed */
    KILNI_STORE_TOTALS = 4u    /* counters of all processes are kept */
};

/* What a chain writes to a tier that can be written. */
typedef enum kilni_store_write {
    KILNI_WRITE_UNSAID, /* as all */
    KILNI_WRITE_ALL,    /* what is put, and what was found below */
    KILNI_WRITE_FIRST,  /* the same, where no tier above took it */
    KILNI_WRITE_NONE    /* nothing is put or removed */
} kilni_store_write;

/* How a directory names its entries. */
typedef enum kilni_store_layout {
    KILNI_STORE_LAYOUT_KILN,
    KILNI_STORE_LAYOUT_SYCL,
    KILNI_STORE_LAYOUT_ONEDNN
} kilni_store_layout;

#define KILNI_STORE_BACKEND_SIZE 32u /* of a backend's name, with its closing zero */

/* Parameters with all defaults put in. */
typedef struct kilni_store_options {
    uint64_t max_bytes;        /* 0: nothing is stored; KILN_UNLIMITED */
    uint32_t flags;            /* KILN_STORE_… */
    uint32_t stamp_interval_s; /* 0: every use is stamped */
    uint32_t policy;           /* KILN_POLICY_… */
    uint64_t max_age_s;        /* 0: none */
    uint64_t max_entry_bytes;  /* what is larger is neither put nor read */
    kilni_store_layout layout;
    char backend[KILNI_STORE_BACKEND_SIZE]; /* layout "onednn": a folder above all others; "": none
                                             */
    kiln_log log;
    kilni_store_write write; /* by the chain that the store is a tier of */
    const char *key_file;    /* NULL: none. While the store is opened, and NULL from then on */
} kilni_store_options;

/* The slots follow the public calls of the same names. The wrappers have checked that pointers are
 * not NULL, that a store that is written to is writable, and that a put fits. */
typedef struct kilni_store_ops {
    void (*close)(kiln_store *store);
    /* What a hit has to write is left to be done by fill: sets @ret_fill, which is 0 before. */
    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                       size_t *ret_fill);
    /* NULL: a hit has nothing to write. */
    void (*fill)(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    /* @judged: as kilni_store_remove_judged; NULL: whatever is there. */
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    kiln_status (*lease)(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                         kiln_lease **ret_lease);
    void (*lease_release)(kiln_lease *lease);
    kiln_status (*each)(kiln_store *store, kiln_item_fn visit, void *user);
    /* As each, of everything that is stored: a chain has copies that a lookup doesn't reach. NULL:
     * there are none. */
    kiln_status (*each_copy)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*each_request)(kiln_store *store, kiln_item_fn visit, void *user);
    kiln_status (*item_info)(kiln_item *item, kiln_item_info *ret_info);
    kiln_status (*item_read)(kiln_item *item, kiln_entry **ret_entry);
    kiln_status (*item_remove)(kiln_item *item);
    kiln_status (*stat)(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat);
    kiln_status (*account)(kiln_store *store, const kiln_stats *delta);
    /* NULL: KILN_E_UNSUPPORTED. The store is writable, or nothing is to be removed. */
    kiln_status (*trim)(kiln_store *store, const kiln_trim_params *params,
                        kiln_trim_report *ret_report);
    /* May be NULL: the last miss is not kept here. The entry is one of store/missed.h. */
    kiln_status (*note_miss)(kiln_store *store, const kiln_entry *miss);
    kiln_status (*last_miss)(kiln_store *store, kiln_entry **ret_miss);
} kilni_store_ops;

/* What a handle did and has not been asked about yet. Counts only: every access is relaxed. */
typedef struct kilni_store_counts {
    _Atomic uint64_t puts, corrupt, evicted;
} kilni_store_counts;

struct kilni_entry_mac_key;

/* An engine's own struct begins with this one. Immutable but for the counters. */
struct kiln_store {
    const kilni_store_ops *ops;
    /* What entries have to be signed with; NULL: they are not. The public calls sign, engines hand
     * it to what decodes. */
    struct kilni_entry_mac_key *mac_key;
    uint32_t capabilities; /* KILNI_STORE_… */
    kilni_store_options options;
    kilni_store_counts counts;          /* for kilni_store_take_counts */
    _Atomic uint64_t uncounted_corrupt; /* not yet in the totals: gets don't write. Relaxed */
    _Atomic uint32_t warned;            /* KILNI_WARNED_… that were logged already. Relaxed */
};

struct kiln_lease {
    const kilni_store_ops *ops;
};

struct kiln_item {
    kiln_store *store;
};

/* Whether a key is a request's. Requests are stored like entries, but are none to who counts. */
bool kilni_store_is_request(const kiln_key *key);

/* Of the statuses of two removals of one key the one that says more: a failure, or what stays,
 * before what went. */
kiln_status kilni_store_graver_removal(kiln_status a, kiln_status b);

/* As kiln_store_remove, but only what holds the same as an entry that was read from there and found
 * unfit. What has replaced it meanwhile stays: KILN_MISS. In a chain, copies of it go from all
 * tiers. */
kiln_status kilni_store_remove_judged(kiln_store *store, const kiln_key *key,
                                      const kiln_entry *judged);

/* KILNI_STORE_…; 0 for NULL. */
uint32_t kilni_store_capabilities(const kiln_store *store);

/* As kiln_store_get, for a caller that has a writer: it does not write what a hit in a chain's
 * lower tier puts into those above it.
 *
 * @is_again  a damaged entry was counted before, and is not counted twice
 * @ret_fill  what is left to be done, for kilni_store_fill; 0: nothing */
kiln_status kilni_store_find(kiln_store *store, const kiln_key *key, bool is_again,
                             kiln_entry **ret_entry, size_t *ret_fill);

/* Does what a find has left. A failure does no harm, and is not told. Threads: any.
 *
 * @entry  what the find gave for @key */
void kilni_store_fill(kiln_store *store, size_t fill, const kiln_key *key, const kiln_entry *entry);

/* Keeps a key that was not found as the store's last miss, with the time, where its parameters ask
 * for that and it may be written to. A failure does no harm. */
void kilni_store_note_miss(kiln_store *store, const kiln_key *key);

/* Takes what this handle counted since it was last asked: puts, corrupt and evicted, all of which
 * are in the store's totals already or will come there. Each count is handed out once. */
void kilni_store_take_counts(kiln_store *store, kiln_stats *ret_counts);

/* What is worth a line in the log, once for each store. */
enum {
    KILNI_WARNED_ENTRY = 1u,  /* a file that is not to be trusted was skipped */
    KILNI_WARNED_TOTALS = 2u, /* the totals can't be kept */
    KILNI_WARNED_TRIM = 4u,   /* room can't be made */
    KILNI_WARNED_PUT = 8u,    /* an entry can't be written */
    KILNI_WARNED_TIER = 256u  /* the first tier of a chain is skipped; the next ones' bits follow */
};

/* Logs a line, but only the first of its kind. */
void kilni_store_warn(kiln_store *store, uint32_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
