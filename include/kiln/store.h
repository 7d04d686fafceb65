/* SPDX-License-Identifier: Apache-2.0
 *
 * A store: entries that outlive the process. All calls take whole keys. A hit is an entry that was
 * verified and has the requested key.
 *
 *     kiln_store *store = NULL;
 *     kiln_entry *entry = NULL;
 *     if (kiln_store_open(directory, NULL, &store, &error) == KILN_OK) {
 *         if (kiln_store_get(store, key, &entry) != KILN_OK) {
 *             entry = build(key); // an entry of that key: kiln/entry.h
 *             kiln_store_put(store, entry);
 *         }
 *         use(kiln_entry_payload(entry));
 *         kiln_entry_release(&entry);
 *         kiln_store_close(&store);
 *     }
 *
 * docs/stores.md describes stores; docs/trust.md describes which files and directories they trust.
 *
 * All calls: KILN_E_INVALID means that an argument is NULL although its comment does not allow
 * that, or that a parameter structure has a non-zero field that this version does not know. Any
 * thread may make any call.
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

/* An open store. Any thread may use it. NULL stands for no store: a get returns KILN_MISS, and a
 * put drops its entry and returns KILN_OK. A forked child may use it, but the leases still belong
 * to the parent. */
typedef struct kiln_store kiln_store;

/* The right of one process to build a key. The system releases it when the process ends. */
typedef struct kiln_lease kiln_lease;

enum {
    KILN_STORE_READONLY = 1u,  /* nothing is written, not even the times of uses */
    KILN_STORE_SYNC = 2u,      /* data is synced to disk before an entry is published */
    KILN_STORE_NO_LEASE = 4u,  /* every lease returns KILN_E_UNSUPPORTED */
    KILN_STORE_NO_CREATE = 8u, /* the directory must exist: for tools that only read */
    /* The store keeps the last key that was not found, for kiln_store_get_last_miss. Contexts of
     * kiln/program.h and kiln_store_note_miss record that key; kiln_store_get does not. */
    KILN_STORE_NOTE_MISSES = 16u,
    KILN_STORE_NO_TRIM_AT_CLOSE = 32u, /* closing does not remove entries that exceed age or size */
    /* The store keeps a journal (kiln/journal.h) in its directory. Contexts of kiln/program.h write
     * it; kiln_store_get and kiln_store_put do not. */
    KILN_STORE_JOURNAL = 64u
};

/* The number of files of trusted keys: root's and the user's. */
#define KILN_TRUSTED_KEY_FILES 2

/* Credentials for stores on servers. Files are given by their absolute paths; NULL: none. A
 * location can name other files. */
typedef struct kiln_store_credentials {
    size_t struct_size;
    const char *http_token_file; /* its first line is the token that HTTP and HTTPS servers get */
    const char *redis_password;  /* not a file, but the password itself, for Redis servers;
                                    password-file= in a location takes precedence */
    const char *secret_key_file; /* the key in this file signs the entries that are put */
    /* The files of the keys whose signatures are believed. These files need not exist. Only the
     * caller can name them; a location cannot. */
    const char *trusted_key_files[KILN_TRUSTED_KEY_FILES];
    /* For S3. If there is no access key, aws_credentials_file is used. If there is neither,
     * requests are not signed. */
    const char *aws_access_key_id, *aws_secret_access_key;
    const char *aws_session_token;    /* of keys that expire; NULL: none */
    const char *aws_credentials_file; /* a credentials file of AWS's tools; its section [default] is
                                         read */
    const char *aws_region;           /* NULL: us-east-1 */
} kiln_store_credentials;

/* How a store is opened. */
typedef struct kiln_store_params {
    size_t struct_size;
    uint64_t max_bytes;      /* maximum size on disk; 0: 2 GiB; or KILN_UNLIMITED */
    uint32_t flags;          /* KILN_STORE_… or-ed */
    uint32_t use_interval_s; /* the uses of an entry are recorded at most once in this many seconds;
                                0: 3600 */
    kiln_log log;            /* receives lines that report why the store disabled itself, and what
                                it skipped */
    const char *layout;      /* how files are named: kiln, sycl or onednn; NULL: kiln */
    uint32_t policy; /* a kiln_policy except AUTO. A use is a get that found the entry; it is
                        recorded in the file's mtime, at most once per use_interval_s */
    uint64_t
        max_age_s; /* entries not used for this many seconds are removed; 0: age does not count */
    const char *key_file;     /* absolute path of the signing key; NULL: none */
    uint64_t max_entry_bytes; /* larger entries are neither put nor read; 0: 1 GiB, or on a server
                                 16 MiB; or KILN_UNLIMITED */
    const struct kiln_store_credentials *credentials; /* for servers; NULL: none */
} kiln_store_params;

/* Opens a store. A missing directory is created (mode 0700), and its parents too; an existing one
 * is used if it belongs to this user and no other user can write to it. The call does not walk
 * through the directory.
 *
 * If a signing key is given, each entry that is put is signed with it, and an entry without that
 * signature is a miss. The file of the key must contain 32 bytes, belong to this user, and be
 * neither readable nor writable by others. If the file can't be used, the store is not opened.
 *
 * A store on a server believes only entries that are signed with a trusted key, with its own secret
 * key or with the signing key. If it has neither a secret key nor a signing key, it is read-only.
 * These two rules do not apply if its URL contains trust=any.
 *
 * @location   one of the following. A directory: an absolute path or one that begins with '.',
 *             taken literally; or a URL such as
 *             file:///path?max-size=2G&readonly=1&sync=1&lease=off&stamp=3600&layout=sycl, with
 *             the further options policy=cost|lru|fifo|no_evict, max-age=DAYS, max-entry=1G and
 *             key-file=/path. The options of a URL take precedence over @params. A pack, which is
 *             read-only: pack:FILE (pack.h). A directory into which a group may write:
 *             group:/path, whose entries are trusted like those on a server. A Redis server:
 *             redis://[USER@]HOST[:PORT][/DATABASE], rediss://… for TLS, or redis+unix:///path. A
 *             Redis cluster: redis-cluster://[USER@]HOST[:PORT][,HOST[:PORT]…] or
 *             rediss-cluster://…. An HTTP server: http://[USER@]HOST[:PORT][/PATH] or https://…. A
 *             bucket of S3:
 *             s3://BUCKET[/PREFIX]?endpoint=…&region=…. docs/fleet.md describes servers; opening a
 *             store on a server does not contact the server. Several of these, "a|b|c": a chain,
 *             which docs/chains.md describes
 * @params     read during the call; NULL: all defaults
 * @ret_store  [out] to be closed with kiln_store_close
 * @error      may be NULL; names the directory and describes the failure
 * Returns KILN_OK; KILN_MISS: the directory doesn't exist, and KILN_STORE_NO_CREATE is set;
 * KILN_E_INVALID; KILN_E_PARSE; KILN_E_UNSUPPORTED: an unknown scheme, option or layout, or a
 * server without libkiln_remote; KILN_E_DENIED: the directory has the wrong owner or mode, is a
 * symbolic link, or is not a directory, or a file of keys, a password, a token or credentials has
 * the wrong owner, mode, type or size, or no key is trusted for a store on a server, or the secret
 * key is revoked; KILN_E_CORRUPT, KILN_E_VERSION: a pack that is damaged, or of a newer format;
 * KILN_E_READONLY; KILN_E_FULL; KILN_E_IO; KILN_E_NO_MEMORY. A chain can be opened if one of its
 * stores can. Blocks: on the file system. */
KILN_API kiln_status kiln_store_open(const char *location, const kiln_store_params *params,
                                     kiln_store **ret_store, kiln_error *error);

/* Closes a store and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Leases must
 * have been released. No other thread may be in a call on the store. Blocks: on the file system,
 * and on trimming unless KILN_STORE_NO_TRIM_AT_CLOSE is set. */
KILN_API void kiln_store_close(kiln_store **store);

/* Looks up and verifies an entry. If an entry is damaged, or has no signature that the store
 * believes, the look-up is a miss. Such an entry is counted, and the next put replaces it. A get
 * writes only the time of the use. In a chain, it also copies the entry into the stores that come
 * before the store that had it.
 *
 * @ret_entry  [out] one reference, to be released with kiln_entry_release
 * Returns KILN_OK; KILN_MISS; KILN_E_CORRUPT: the entry is damaged; KILN_E_UNAUTHENTICATED: it is
 * not signed, not signed with a key that the store believes, or no longer valid; KILN_E_VERSION: it
 * has a newer format; KILN_E_IO, KILN_E_DENIED; KILN_E_NO_MEMORY; KILN_E_INVALID. For a caller that
 * wants the entry, everything except KILN_OK is a miss. Threads: any. Blocks: on reading. */
KILN_API kiln_status kiln_store_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry);

/* Does what kiln_store_get does, for several keys. Local stores are asked for each key. Then a
 * server is asked for all the keys that they lack at once: for up to 64 keys and 8 MiB in one round
 * trip or, on an HTTP server or S3, over four connections. If the server fails, all keys of that
 * round trip are misses, after at most 10 seconds.
 *
 * @keys          none is NULL; a key may occur more than once
 * @ret_entries   [out] one for each key: one reference, or NULL if the entry was not found
 * @ret_statuses  [out] the status of each key, as kiln_store_get returns it; may be NULL
 * Returns KILN_OK; KILN_E_INVALID: nothing was looked up. Threads: any. Blocks: on reading. */
KILN_API kiln_status kiln_store_get_many(kiln_store *store, const kiln_key *const *keys,
                                         size_t count, kiln_entry **ret_entries,
                                         kiln_status *ret_statuses);

/* Records a key that was not found, and the time, as the store's last miss, for `kiln why --last`:
 * for callers that build without a context. Does nothing if the store was not opened with
 * KILN_STORE_NOTE_MISSES, or is not writable. A failure does no harm. NULL is allowed.
 *
 * Threads: any. Blocks: on writing a small file. */
KILN_API void kiln_store_note_miss(kiln_store *store, const kiln_key *key);

/* The name of the first part of a capture request's key; no other key begins with it. Capture
 * requests are not counted among the entries. */
#define KILN_REQUEST_PART "request"
/* The value of that part in requests to repeat the builds of older drivers. Requests of captures
 * have a number there. */
#define KILN_REQUEST_REPLAY "replay"

/* Publishes an entry under its own key, completely or not at all. An existing entry is replaced,
 * unless it has a newer format. In that case it stays: in the layouts "sycl" and "onednn" the new
 * entry is stored beside it; in all other cases the call stores nothing and returns KILN_EXISTS.
 *
 * @entry  borrowed
 * Returns KILN_OK; KILN_EXISTS; KILN_E_INVALID: an entry of kind KILN_ENTRY_REQUEST without a
 * request's key, or the reverse; KILN_E_TOO_LARGE: the entry exceeds the size limit of an entry or
 * of the whole store; KILN_E_FULL: the disk is full, the store has size zero or is full and evicts
 * nothing, or the file would exceed RLIMIT_FSIZE (no SIGXFSZ reaches the caller);
 * KILN_E_UNSUPPORTED: a stripped key in layout "sycl", or a capture request in a store on a server;
 * KILN_E_READONLY; KILN_E_IO; KILN_E_DENIED; KILN_E_NO_MEMORY. Threads: any. Blocks: on writing. If
 * the store is full, the call also blocks on trimming, which takes slices of 5 ms, usually one. */
KILN_API kiln_status kiln_store_put(kiln_store *store, const kiln_entry *entry);

/* Removes an entry. On a server it is removed for all machines.
 *
 * Returns KILN_OK; KILN_MISS; KILN_EXISTS: the entry has a newer format or is unreadable, and
 * stays; KILN_BUSY: the entry stays, because another thread or process is removing a file of the
 * same name, or ended while it was doing so (a trim removes what it left, an hour later at the
 * earliest); KILN_E_READONLY; KILN_E_IO; KILN_E_DENIED; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads:
 * any. Blocks: on the file system. */
KILN_API kiln_status kiln_store_remove(kiln_store *store, const kiln_key *key);

/* Checks whether a get would find a file, without reading it. Returns KILN_OK; KILN_MISS;
 * KILN_E_IO; KILN_E_INVALID. Threads: any. Blocks: on the file system. */
KILN_API kiln_status kiln_store_contains(kiln_store *store, const kiln_key *key);

/* Does what kiln_store_contains does, for several keys. Asks servers as kiln_store_get_many does.
 *
 * @keys          none is NULL
 * @ret_statuses  [out] the status of each key, as kiln_store_contains returns it
 * Returns KILN_OK; KILN_E_INVALID: nothing was looked up. Threads: any. Blocks: on the file system
 * and on servers. */
KILN_API kiln_status kiln_store_contains_many(kiln_store *store, const kiln_key *const *keys,
                                              size_t count, kiln_status *ret_statuses);

/* Takes the right to build a key. Only one process of this machine has the lease at a time. If the
 * store is on a server, or is a chain with one, only one process on all machines that use the
 * server has the lease, except that faults may give it to several. On one machine, a lease is a
 * lock of the operating system, which releases it as soon as the process ends. A server releases it
 * within seconds. A caller that gets the lease must look in the store again, because another
 * process might have built meanwhile. If the entry was stored while the call waited, the call may
 * return KILN_OK with a lease of a server that excludes nobody, since nothing is left to build.
 *
 * @wait_ns    how long to wait for another holder; 0: not at all
 * @ret_lease  [out] to be released with kiln_lease_release
 * Returns KILN_OK; KILN_BUSY: another process or thread still holds it after @wait_ns;
 * KILN_E_UNSUPPORTED: this store has no leases, so build without one; KILN_E_IO; KILN_E_NO_MEMORY;
 * KILN_E_INVALID. Threads: any. Blocks: at most @wait_ns, asleep between attempts; in addition, on
 * the answers of a server. */
KILN_API kiln_status kiln_store_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                                      kiln_lease **ret_lease);

/* Releases a lease and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_lease_release(kiln_lease **lease);

/* What a store contains, and what it did. */
typedef struct kiln_store_stat {
    size_t struct_size;
    kiln_stats totals; /* the sum over all processes that used the store */
    uint64_t entries;  /* without capture requests, here and in the totals */
    uint64_t bytes;    /* of all files, as allocated on disk; on a server, of the entries' values */
    uint64_t max_bytes; /* of the directories; 0: only servers are in use, which keep no totals */
} kiln_store_stat;

enum {
    /* Uses the numbers that writers keep, without a walk. Files that another program removed are
     * still counted until the store is counted again. This happens once a day in a store that is
     * used. If the numbers are missing, the store is counted. */
    KILN_STAT_KNOWN = 1u
};

/* Counts what a store contains.
 *
 * @flags     KILN_STAT_… or-ed
 * @ret_stat  [in, out] the caller sets its struct_size
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: unknown flags; KILN_E_DENIED: a folder is
 * not trusted, as for kiln_store_each; KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: on a walk
 * through the whole store, unless KILN_STAT_KNOWN avoids it. */
KILN_API kiln_status kiln_store_get_stat(kiln_store *store, uint32_t flags,
                                         kiln_store_stat *ret_stat);

/* Adds to the store's totals. A store itself counts what it writes, removes and finds damaged.
 * Hits, misses, builds and times are counted by its users: contexts of kiln/program.h and the
 * layers add theirs, and a program that uses only get and put adds its own with this call. If
 * another process holds the lock of the totals for longer than 5 ms, this handle adds the numbers
 * later, at the latest when it is closed.
 *
 * @delta  what to add
 * Returns KILN_OK; KILN_E_READONLY: also a store on a server, which keeps no totals; KILN_E_IO;
 * KILN_E_INVALID. Threads: any. Blocks: on that lock, for at most 5 ms. */
KILN_API kiln_status kiln_store_add_stats(kiln_store *store, const kiln_stats *delta);

/* What a trim did. */
typedef struct kiln_trim_report {
    size_t struct_size;
    uint64_t removed, removed_bytes, entries,
        bytes; /* entries and bytes: what remains, counted as in kiln_store_stat */
} kiln_trim_report;

enum {
    /* Removes entries until the store is no larger than max_bytes. Without this flag, nothing is
     * removed because of the store's size. */
    KILN_TRIM_BY_SIZE = 1u,
    KILN_TRIM_DRY_RUN = 2u, /* only report what would be removed; nothing is changed */
    /* Entries of a newer format do not stay: they are removed like entries that cost nothing to
     * build. Files that their writers left behind are removed too. */
    KILN_TRIM_NEWER = 4u
};

/* What a trim removes. */
typedef struct kiln_trim_params {
    size_t struct_size;
    uint32_t flags;        /* KILN_TRIM_… or-ed */
    uint64_t max_bytes;    /* with KILN_TRIM_BY_SIZE: how much may be left */
    uint64_t older_than_s; /* entries that were not used for this many seconds are removed; 0: age
                              does not matter */
} kiln_trim_params;

/* Removes entries that are too old. Then removes entries in the order of the store's policy until
 * the store is small enough; if the policy evicts nothing, the least recently used entries go
 * first. Also removes files that dead writers left behind. Only one process trims at a time. In a
 * chain, each store that is written to, except servers, is trimmed separately, to at most its own
 * size. A dry run also works on a read-only store and does not wait for other processes. Their
 * changes can make its report inexact.
 *
 * A Redis server or a bucket of S3 that was opened by itself is trimmed, too: docs/trimming.md says
 * in which order. Nothing is removed before all entries have been judged, and an entry that was
 * replaced meanwhile stays. If the call fails, repeating it continues the work.
 *
 * @params      read during the call
 * @ret_report  [in, out] the caller sets its struct_size; may be NULL
 * Returns KILN_OK; KILN_BUSY: another process is trimming; KILN_E_INVALID; KILN_E_UNSUPPORTED:
 * unknown flags or parameters, KILN_TRIM_NEWER for a server, or a kind of store that is not
 * trimmed; KILN_E_READONLY; KILN_E_DENIED: as for kiln_store_each, or a server refuses this user;
 * KILN_E_IO; KILN_E_NO_MEMORY. Threads: any. Blocks: until the trim is done. */
KILN_API kiln_status kiln_store_trim(kiln_store *store, const kiln_trim_params *params,
                                     kiln_trim_report *ret_report);

#ifdef __cplusplus
}
#endif

#endif
