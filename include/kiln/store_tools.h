/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists, checks and repairs the contents of a store, for tools. A program that only uses a store
 * does not need this header.
 */
#ifndef KILN_STORE_TOOLS_H
#define KILN_STORE_TOOLS_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/status.h>
#include <kiln/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One stored item, as a walk finds it. Valid during the callback. */
typedef struct kiln_item kiln_item;

/* Facts about an item. */
typedef struct kiln_item_info {
    size_t struct_size;
    kiln_digest digest;
    kiln_status state; /* KILN_OK, KILN_E_VERSION or KILN_E_CORRUPT, as far as the header of the
                          entry shows */
    uint32_t kind;     /* a kiln_entry_kind */
    const char *device, *name, *tool; /* "" if the header of the entry is damaged */
    uint64_t bytes;                   /* of the payload */
    uint64_t stored_bytes;            /* of the file */
    uint64_t build_ns;
    int64_t created_s, last_used_s; /* Unix seconds */
    const char *path; /* the path of its file, or of the file of its payload, relative to the
                         location that was opened; for an item in a pack, the path of the pack */
} kiln_item_info;

/* Reads the header of an item's entry, but not the payload.
 *
 * @ret_info  [in, out] the caller sets its struct_size; the texts are valid as long as the item is
 * Returns KILN_OK; KILN_MISS: the item no longer exists; KILN_E_IO; KILN_E_INVALID;
 * KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_item_get_info(kiln_item *item, kiln_item_info *ret_info);

/* Reads and verifies the whole entry. @ret_entry receives one reference, to be released with
 * kiln_entry_release. Returns what kiln_store_get returns. */
KILN_API kiln_status kiln_item_read(kiln_item *item, kiln_entry **ret_entry);

/* Removes an item. Returns KILN_OK; KILN_MISS: the item no longer exists, or was replaced
 * meanwhile; KILN_EXISTS: the entry has a newer format or is unreadable, and stays; KILN_BUSY: as
 * for kiln_store_remove; KILN_E_READONLY; KILN_E_IO; KILN_E_INVALID. */
KILN_API kiln_status kiln_item_remove(kiln_item *item);

/* Moves a damaged entry on a server to a name under which no reader looks for it, so that it can be
 * examined there. Reads and checks it again first, and moves only bytes that are damaged for every
 * reader: an entry that is sound, of a newer format, or only not signed with a key that is trusted
 * here, stays.
 *
 * Redis: the value becomes kiln:v1:{DIGEST}:damaged, in one step, and is removed after 30 days. S3:
 * the object becomes kiln-v1-damaged/DIGEST; if a different process replaces it at the same moment,
 * its entry may be lost.
 *
 * Returns KILN_OK; KILN_MISS: the item no longer exists, or was replaced meanwhile; KILN_EXISTS: it
 * stays; KILN_E_UNSUPPORTED: the item is not on a server; KILN_E_READONLY; KILN_E_FULL;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_item_quarantine(kiln_item *item);

/* Receives an item. A result other than 0 ends the walk. */
typedef int (*kiln_item_fn)(void *user, kiln_item *item);

/* Visits all items, in no particular order, including capture requests. Items that are put or
 * removed during the walk might be visited or not.
 *
 * @visit  called on this thread for each item; not NULL
 * @user   passed to @visit; may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: a part of a pack's index is damaged, and all
 * other items were visited; KILN_E_DENIED: a folder of the store is a symbolic link, belongs to
 * another user, or is writable by others, and all other items were visited; KILN_E_IO;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading. */
KILN_API kiln_status kiln_store_each(kiln_store *store, kiln_item_fn visit, void *user);

/* Does the same as kiln_store_each, but visits only the items of one digest: at most an entry and a
 * capture request. Looks them up instead of walking through the store, except in a directory in a
 * layout of other programs. @digest is not NULL. */
KILN_API kiln_status kiln_store_each_of_digest(kiln_store *store, const kiln_digest *digest,
                                               kiln_item_fn visit, void *user);

/* Does the same as kiln_store_each, but visits only capture requests, and does not walk through the
 * other entries. Requests are the entries whose key begins with a part named KILN_REQUEST_PART. */
KILN_API kiln_status kiln_store_each_request(kiln_store *store, kiln_item_fn visit, void *user);

/* One store of a chain, and what its look-ups did, in all processes that name it in a chain with
 * the same first directory. Processes save their counts when they save those of kiln_stats. */
typedef struct kiln_tier_info {
    size_t struct_size;
    const char *location;  /* as the user wrote it */
    uint64_t hits, misses; /* look-ups that this tier answered */
    uint64_t read_bytes;   /* of the entries of the hits, as the tier has them */
    uint64_t puts;         /* entries written, copies of entries of lower tiers included */
    uint64_t damaged;      /* entries that were damaged, or not signed with a trusted key */
    uint64_t faults;       /* calls that failed because the tier could not be used */
    uint64_t latency_ns;   /* of a server: the median time of about the last thousand look-ups, to
                              within a quarter; 0: not known */
    const char *outage;    /* why the tier is not asked at present; NULL: it is asked */
    uint64_t retry_ns;     /* if it is not asked: after how long it is asked again */
    uint64_t dropped;      /* entries that were not put, because too many others waited for this
                              tier, or because the process ended first */
} kiln_tier_info;

/* Receives one tier. @info and its texts are valid during the call. */
typedef void (*kiln_tier_fn)(void *user, const kiln_tier_info *info);

/* Visits the tiers of a chain, from left to right. A store that is not a chain has no tiers.
 * Contacts no server: an outage is known only if a call of this process has met it, or if the
 * processes of this machine share it (docs/fleet.md).
 *
 * @visit  called on this thread for each tier; not NULL
 * @user   passed to @visit; may be NULL
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: on reading small files. */
KILN_API kiln_status kiln_store_each_tier(kiln_store *store, kiln_tier_fn visit, void *user);

/* Reads the key of the latest build that was done because the store did not have the entry.
 * Builders record this key only if KILN_STORE_NOTE_MISSES is set. Long parts of the key might be
 * kept as digests.
 *
 * @ret_key       [out] one reference, to be released with kiln_key_release
 * @ret_missed_s  [out] when it was recorded, in Unix seconds
 * Returns KILN_OK; KILN_MISS: no key was recorded; KILN_E_CORRUPT; KILN_E_VERSION;
 * KILN_E_UNAUTHENTICATED; KILN_E_UNSUPPORTED: this kind of store does not record one;
 * KILN_E_DENIED; KILN_E_IO; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading, and
 * for up to 0.1 s while another process writes the key. */
KILN_API kiln_status kiln_store_get_last_miss(kiln_store *store, kiln_key **ret_key,
                                              int64_t *ret_missed_s);

/* Reads when a device was last in use on any machine, as far as the servers of a store know. A
 * machine records this at most once a day, when it builds a program for the device, or uses one
 * that a store has, and writes to the server. Contexts of kiln/program.h and the layers do so;
 * kiln_store_get and kiln_store_put do not.
 *
 * @device      platform, device and driver, as in kiln_provenance and kiln_item_info
 * @ret_last_s  [out] in Unix seconds. In a chain, the latest time that any of its servers knows
 * Returns KILN_OK; KILN_MISS: no record of this device was found; KILN_E_UNSUPPORTED: the store has
 * no servers; KILN_E_UNAUTHENTICATED, KILN_E_CORRUPT, KILN_E_VERSION: a record can't be believed or
 * read; KILN_E_DENIED, KILN_E_IO: a server can't be asked; KILN_E_INVALID; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: on servers. */
KILN_API kiln_status kiln_store_get_device_use(kiln_store *store, const char *device,
                                               int64_t *ret_last_s);

/* When a device was last in use. */
typedef struct kiln_device_use {
    const char *device; /* as for kiln_store_get_device_use */
    int64_t last_s;     /* in Unix seconds */
} kiln_device_use;

/* Makes a list of devices, to be written to a file and read with kiln_device_list_read. A machine
 * without a server can so tell others which devices it uses.
 *
 * @uses             read during the call
 * @secret_key_file  absolute path of the secret key (kiln/signature.h) that signs the list
 * @valid_s          for how many seconds the list is believed; not 0
 * @ret_list         [out] whose encoding (kiln_entry_encoding) is the content of the file
 * @error            may be NULL; describes the failure
 * Returns KILN_OK; what kiln_secret_key_get_public returns; KILN_E_TOO_LARGE. Threads: any. Blocks:
 * on the file system. */
KILN_API kiln_status kiln_device_list_make(const kiln_device_use *uses, size_t count,
                                           const char *secret_key_file, uint64_t valid_s,
                                           kiln_entry **ret_list, kiln_error *error);

/* Receives a device from a list; valid during the call. Returns 0 to continue. */
typedef int (*kiln_device_use_fn)(void *user, const kiln_device_use *use);

/* Reads a list of devices. A key that is trusted must have signed it. The file must belong to this
 * user or to root, and others must not be able to write to it.
 *
 * @credentials  its files of trusted keys say whom to believe; its secret key is trusted, too
 * @visit        called for each device
 * @user         passed to @visit; may be NULL
 * @error        may be NULL; names the file and describes the failure
 * Returns KILN_OK; KILN_MISS: no such file; KILN_E_UNAUTHENTICATED: no trusted key has signed it,
 * or its signature has expired; KILN_E_CORRUPT: it is damaged; KILN_E_PARSE: it is no list of
 * devices; KILN_E_VERSION; KILN_E_DENIED: the wrong owner, mode or kind; what
 * kiln_trusted_keys_each and kiln_secret_key_get_public return; KILN_E_TOO_LARGE: more than 16 MiB;
 * KILN_E_IO; KILN_E_INVALID; KILN_E_NO_MEMORY. If it fails, @visit may have been called. Threads:
 * any. Blocks: on the file system. */
KILN_API kiln_status kiln_device_list_read(const char *path,
                                           const struct kiln_store_credentials *credentials,
                                           kiln_device_use_fn visit, void *user, kiln_error *error);

enum {
    KILN_COPY_TRUST = 1u /* copy entries although nothing authenticates them */
};

/* Which entries are copied. */
typedef struct kiln_copy_params {
    size_t struct_size;
    uint32_t flags; /* KILN_COPY_… or-ed */
    /* Both are called on this thread. NULL: everything is wanted. An item is read only if
     * @wants_item returns a value other than 0, and an entry is copied only if @wants_entry does.
     * The header of an item, which @wants_item receives, is not verified. */
    int (*wants_item)(void *user, const kiln_item_info *info);
    int (*wants_entry)(void *user, const kiln_entry *entry);
    void *user; /* passed to both */
} kiln_copy_params;

/* How many of the wanted entries were copied, and how many were not. */
typedef struct kiln_copy_report {
    size_t struct_size;
    uint64_t taken, taken_bytes; /* put into the destination, and the size of their payloads */
    uint64_t present; /* the destination already had a sound entry of the same digest, or one of a
                         newer format */
    uint64_t unauthenticated; /* without a signature that the source store believes */
    uint64_t damaged;         /* damaged, unreadable, or of a newer format */
    uint64_t refused;         /* by the destination; also capture requests, which belong to one
                                 machine */
    uint64_t gone;            /* removed meanwhile, or too large for the source store to read */
} kiln_copy_report;

/* Copies entries from the store @from into the store @into. Each entry is verified, and put like
 * any other entry: uncompressed into a directory, compressed and stripped to a server, and signed
 * if the store signs. An entry that @into already has is not copied, so repeating an interrupted
 * copy continues it. A chain has an entry if any of its stores does.
 *
 * Anybody can have written a pack or an entry on a server. So entries are read from a pack only if
 * there is a signing key, and from a server only if there is a signing key or if the store requires
 * signatures. KILN_COPY_TRUST lifts this rule.
 *
 * @from        not NULL
 * @into        not NULL
 * @params      read during the call; NULL: all defaults
 * @ret_report  [in, out] the caller sets its struct_size; filled with what was done even if the
 *              call fails, except with KILN_E_INVALID; not NULL
 * @error       may be NULL
 * Returns KILN_OK, even if some entries were not copied; KILN_E_INVALID; KILN_E_UNSUPPORTED:
 * unknown flags or fields, or a server that cannot list its entries; KILN_E_UNAUTHENTICATED:
 * nothing authenticates the entries of @from; KILN_E_READONLY: @into is read-only; KILN_E_CORRUPT:
 * a part of a pack's index is damaged, and the other entries were copied; KILN_E_DENIED, KILN_E_IO:
 * a store cannot be read or written, and @error names it; KILN_E_NO_MEMORY. Threads: any. Blocks:
 * on reading and writing. */
KILN_API kiln_status kiln_store_copy(kiln_store *from, kiln_store *into,
                                     const kiln_copy_params *params, kiln_copy_report *ret_report,
                                     kiln_error *error);

/* Opens the store that keeps the contents of the files that compilers included, and of the inputs
 * of nvJitLink, once each. It is in the folder v1/included of a store's directory, or of a chain's
 * first directory, and is a store like any other. Its entries are BLOBs. Only kiln_included_put
 * puts them.
 *
 * @beside        the store whose builds included the files; if it is read-only, or a missing
 *                directory is not created for it, the same holds for the new store; not NULL
 * @max_bytes     the maximum size on disk, as in kiln_store_params
 * @ret_included  [out] to be closed with kiln_store_close
 * Returns what kiln_store_open returns; KILN_E_UNSUPPORTED: @beside is not in a directory whose
 * path is absolute. Threads: any. Blocks: on the file system. */
KILN_API kiln_status kiln_included_open(const kiln_store *beside, uint64_t max_bytes,
                                        kiln_store **ret_included);

/* Keeps the content of a file or input, compressed.
 *
 * @digest   the 32 bytes of the BLAKE2b-256 of @content, as kiln_read has them; not NULL
 * @content  read during the call
 * Returns what kiln_store_put returns; KILN_E_INVALID: also if the content has another digest. */
KILN_API kiln_status kiln_included_put(kiln_store *included, const unsigned char *digest,
                                       kiln_bytes content);

/* Looks up a content, and checks its digest. Returns what kiln_store_get returns. */
KILN_API kiln_status kiln_included_get(kiln_store *included, const unsigned char *digest,
                                       kiln_entry **ret_content);

/* Checks whether kiln_included_get would find a content, without reading it. Returns what
 * kiln_store_contains returns. */
KILN_API kiln_status kiln_included_contains(kiln_store *included, const unsigned char *digest);

/* Copies all contents that @into does not have. Unlike kiln_store_copy, keeps them compressed.
 *
 * Returns what kiln_store_each returns, even if some contents could not be put. Threads: any.
 * Blocks: on reading and writing. */
KILN_API kiln_status kiln_included_copy(kiln_store *from, kiln_store *into);

/* What a check found. */
typedef struct kiln_verify_report {
    size_t struct_size;
    uint64_t checked, ok, corrupt, newer; /* requests included */
    uint64_t removed;                     /* always 0: a check removes nothing */
    uint64_t unauthenticated;             /* sound, but with no signature that the store believes */
} kiln_verify_report;

/* Receives an item that was checked: with KILN_OK and NULL if it is sound, otherwise with the
 * status and the reason. @why is valid during the call. */
typedef void (*kiln_verify_fn)(void *user, kiln_item *item, kiln_status status, const char *why);

/* Reads and verifies every entry. Removes nothing.
 *
 * @report      called on this thread for each item; may be NULL
 * @user        passed to @report; may be NULL
 * @ret_report  [in, out] the caller sets its struct_size; filled with what was checked even if the
 *              call fails, except with KILN_E_INVALID
 * Returns what kiln_store_each returns. Threads: any. Blocks: on reading. */
KILN_API kiln_status kiln_store_verify(kiln_store *store, kiln_verify_fn report, void *user,
                                       kiln_verify_report *ret_report);

#ifdef __cplusplus
}
#endif

#endif
