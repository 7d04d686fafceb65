/* SPDX-License-Identifier: Apache-2.0
 *
 * A store: entries that outlive the process. Calls take the whole key, and a hit is an entry that
 * was verified and whose key equals the wanted one.
 */
#ifndef KILN_STORE_H
#define KILN_STORE_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/log.h>
#include <kiln/policy.h>
#include <kiln/stats.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any thread. NULL is "no store": get misses, put is dropped. After fork, in the child: usable,
 * but its leases are the parent's. */
typedef struct kiln_store kiln_store;

/* The right to build one key, across processes. Freed by the system when its process dies. */
typedef struct kiln_lease kiln_lease;

enum {
    KILN_STORE_READONLY = 1u,         /* nothing in it is written, use stamps neither */
    KILN_STORE_SYNC = 2u,             /* data reaches the disk before an entry is published */
    KILN_STORE_NO_LEASE = 4u,         /* every lease answers KILN_E_UNSUPPORTED */
    KILN_STORE_NO_CREATE = 8u,        /* the directory has to be there: for tools that only look */
    KILN_STORE_NOTE_MISSES = 16u,     /* the last key that was not found is kept, for people: by
                                         contexts of kiln/program.h, not by kiln_store_get */
    KILN_STORE_NO_TRIM_AT_CLOSE = 32u /* what is too old or too much is not removed by closing */
};

/* How a store is opened. */
typedef struct kiln_store_params {
    size_t struct_size;
    uint64_t max_bytes;        /* on disk, at most; 0: 2 GiB; KILN_UNLIMITED */
    uint32_t flags;            /* KILN_STORE_… */
    uint32_t stamp_interval_s; /* how often at most a use is stamped; 0: 3600 */
    kiln_log log;              /* why the store turned itself off, what it skipped */
    const char *layout;        /* how entries are named: kiln, sycl or onednn; NULL: kiln */
    uint32_t policy;      /* KILN_POLICY_…, but not AUTO. A use is a get that found the entry; it
                             is noted in the file's mtime, once an interval at most */
    uint64_t max_age_s;   /* what was not used for longer is removed; 0: age doesn't count */
    const char *key_file; /* an absolute path; NULL: entries are not authenticated */
    uint64_t max_entry_bytes; /* a larger entry is neither put nor read; 0: 1 GiB; KILN_UNLIMITED */
} kiln_store_params;

/* Opens a store. Where a key file is given (32 bytes, this user's, which nobody else may read or
 * write), each entry that is put is signed with it, and one that is not signed so is a miss. Where
 * that file can't be used, the store is not opened. A directory that is missing is made (0700, its
 * parents too); one that is there is used where its owner is this user and nobody else may write
 * it. Nothing is walked.
 *
 * @location   a directory (an absolute path, or one that begins with '.'), taken literally, or a
 *             URL: file:///path?max-size=2G&readonly=1&sync=1&lease=off&stamp=3600&layout=sycl,
 *             further policy=cost|lru|fifo|no_evict, max-age=DAYS, max-entry=1G and key-file=/path.
 *             What the URL says goes before @params. Or a pack, pack:FILE (pack.h), which is read
 * only; or several of these, "a|b|c": a chain, which docs/chains.md describes.
 * @params     lives for the call; NULL: all defaults
 * @ret_store  [out] to be given back with kiln_store_close
 * @error      may be NULL; says what was wrong with which directory
 * Returns KILN_OK; KILN_MISS: not there, with NO_CREATE; KILN_E_INVALID; KILN_E_PARSE;
 * KILN_E_UNSUPPORTED: a scheme, option or layout that this build doesn't know; KILN_E_DENIED:
 * owner, mode, a symbolic link in its place, or not a directory; the same of the key file, or its
 * size; KILN_E_CORRUPT, KILN_E_VERSION: a pack that is damaged, or newer; KILN_E_READONLY;
 * KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. A chain opens where one of its tiers does. Blocks: on
 * the file system. */
KILN_API kiln_status kiln_store_open(const char *location, const kiln_store_params *params,
                                     kiln_store **ret_store, kiln_error *error);

/* Closes a store and sets the pointer to NULL; takes NULL and a pointer to NULL. Leases must have
 * been given back. */
KILN_API void kiln_store_close(kiln_store **store);

/* Looks up and verifies. An entry that is damaged, or not signed with the store's key, is a miss,
 * counted, and will be replaced by the next put. Writes nothing but a use stamp, and in a chain
 * what it found to the tiers above.
 *
 * @ret_entry  [out] one reference
 * Returns KILN_OK; KILN_MISS; KILN_E_CORRUPT: there, but damaged; KILN_E_UNAUTHENTICATED: there,
 * but not signed, or not with the store's key; KILN_E_VERSION: there, in a newer format; KILN_E_IO,
 * KILN_E_DENIED; KILN_E_NO_MEMORY. All but KILN_OK are misses to one who wants the entry. Threads:
 * any. Blocks: on reading. */
KILN_API kiln_status kiln_store_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry);

/* What the key of a request begins with, and no other: what is kept under such a key is not counted
 * among the entries. */
#define KILN_REQUEST_PART "request"

/* Publishes an entry under its own key, whole or not at all. One that is there is replaced, but one
 * of a newer format stays (KILN_EXISTS; in layouts "sycl" and "onednn" the new one goes beside it).
 *
 * Returns KILN_OK; KILN_EXISTS; KILN_E_INVALID: an entry of kind KILN_ENTRY_REQUEST whose key is
 * not a request's, or the reverse; KILN_E_TOO_LARGE: the entry is larger than an entry or the whole
 * store may be; KILN_E_FULL: the disk is full, the store has size zero or is full and evicts
 * nothing, or the file would exceed RLIMIT_FSIZE, in which case no SIGXFSZ reaches the caller;
 * KILN_E_UNSUPPORTED: a stripped key in layout "sycl"; KILN_E_READONLY; KILN_E_IO; KILN_E_DENIED;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on writing, and where the store is full, on trimming,
 * which it does in slices of 5 ms: as a rule one. */
KILN_API kiln_status kiln_store_put(kiln_store *store, const kiln_entry *entry);

/* Returns KILN_OK; KILN_MISS; KILN_EXISTS: of a newer format, or unreadable, and left there;
 * KILN_E_READONLY; KILN_E_IO; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_store_remove(kiln_store *store, const kiln_key *key);

/* Whether a get would find a file, without reading it: KILN_OK; KILN_MISS; KILN_E_IO. */
KILN_API kiln_status kiln_store_contains(kiln_store *store, const kiln_key *key);

/* Takes the right to build a key. Locks are the system's: a holder that dies frees it at once.
 * After the lease, look in the store again: someone may have built meanwhile.
 *
 * @wait_ns    how long to wait for a holder; 0: not at all
 * @ret_lease  [out] to be given back with kiln_lease_release
 * Returns KILN_OK; KILN_BUSY: held by another for longer than that; KILN_E_UNSUPPORTED: no leases
 * here (build without); KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: at most wait_ns, asleep
 * between tries. */
KILN_API kiln_status kiln_store_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                                      kiln_lease **ret_lease);

/* Sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_lease_release(kiln_lease **lease);

/* What a store holds, and what it did. */
typedef struct kiln_store_stat {
    size_t struct_size;
    kiln_stats totals; /* of all processes that used the store */
    uint64_t entries;  /* without requests, here and in the totals */
    uint64_t bytes;    /* of all files, as the disk holds them */
    uint64_t max_bytes;
} kiln_store_stat;

enum {
    KILN_STAT_KNOWN = 1u /* what those who write to the store know of it: no walk. Files that
                            somebody else removed count until the store is counted again, which one
                            in use is once a day. If nobody knows, the store is counted */
};

/* Counts what a store holds.
 *
 * @flags  KILN_STAT_…
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: unknown flags; KILN_E_DENIED: a folder is
 * not trusted, as kiln_store_each has it; KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: on a
 * walk through all of it. */
KILN_API kiln_status kiln_store_get_stat(kiln_store *store, uint32_t flags,
                                         kiln_store_stat *ret_stat);

/* Adds to the store's totals. A store counts by itself what it writes, removes and finds damaged.
 * Hits, misses, builds and times are counted by who knows them: contexts of kiln/program.h and the
 * layer add theirs; who uses get and put alone adds them here. If another process holds the lock of
 * the totals for longer than 5 ms, this handle adds them later, at the latest as it is closed.
 * Returns KILN_OK; KILN_E_READONLY; KILN_E_IO. */
KILN_API kiln_status kiln_store_account(kiln_store *store, const kiln_stats *delta);

/* What a trim did. */
typedef struct kiln_trim_report {
    size_t struct_size;
    uint64_t removed, removed_bytes, entries, bytes; /* the last two: what is left; as in stat */
} kiln_trim_report;

enum {
    KILN_TRIM_BY_SIZE = 1u, /* max_bytes counts; without it, size is no reason to remove anything */
    KILN_TRIM_DRY_RUN = 2u, /* only tell what would be removed: nothing is altered */
    KILN_TRIM_NEWER = 4u    /* an entry of a newer format does not stay: it counts as one that cost
                               nothing to build. The same goes for leftovers of its writers */
};

/* What a trim is to do. */
typedef struct kiln_trim_params {
    size_t struct_size;
    uint32_t flags;        /* KILN_TRIM_… */
    uint64_t max_bytes;    /* with KILN_TRIM_BY_SIZE: what may be left */
    uint64_t older_than_s; /* what was not used for longer goes; 0: age is no reason */
} kiln_trim_params;

/* Removes what is too old, then entries in the order of the store's policy (if that evicts nothing:
 * the least recently used first) until it is small enough; and leftovers of writers that died. One
 * trims at a time. In a chain each tier that is written is trimmed by itself, and none is left with
 * more than its own size. A dry run needs no store that can be written, and does not wait for
 * others: what they do meanwhile may make it wrong.
 *
 * @params      live for the call
 * @ret_report  may be NULL
 * Returns KILN_OK; KILN_BUSY: another process trims; KILN_E_INVALID; KILN_E_UNSUPPORTED: unknown
 * flags or parameters, or a kind of store that is not trimmed; KILN_E_READONLY; KILN_E_DENIED: as
 * kiln_store_each; KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: until it is done. */
KILN_API kiln_status kiln_store_trim(kiln_store *store, const kiln_trim_params *params,
                                     kiln_trim_report *ret_report);

#ifdef __cplusplus
}
#endif

#endif
