/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a store: what tools need that list, check and repair one. A program that only uses a
 * store does not need it.
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

/* One stored item as a walk finds it. Valid during the callback. */
typedef struct kiln_item kiln_item;

/* What is told of an item. */
typedef struct kiln_item_info {
    size_t struct_size;
    kiln_digest digest;
    kiln_status state; /* KILN_OK, KILN_E_VERSION, KILN_E_CORRUPT: as far as the head tells */
    uint32_t kind;     /* kiln_entry_kind */
    const char *device, *name, *tool; /* "" where the head is damaged */
    uint64_t bytes;                   /* of the payload */
    uint64_t stored_bytes;            /* of the file */
    uint64_t build_ns;
    int64_t created_s, last_used_s; /* Unix seconds */
    const char *path; /* of its file, or of the payload's, below what the store was opened with; of
                         an item in a pack: the pack's */
} kiln_item_info;

/* What the entry's head says; the payload is not read. Texts live as long as the item. */
KILN_API kiln_status kiln_item_get_info(kiln_item *item, kiln_item_info *ret_info);

/* Reads and verifies all of it: as kiln_store_get. */
KILN_API kiln_status kiln_item_read(kiln_item *item, kiln_entry **ret_entry);

/* Removes it. Returns KILN_OK; KILN_MISS: gone, or replaced meanwhile; KILN_EXISTS: of a newer
 * format, or unreadable, and left there; KILN_E_READONLY; KILN_E_IO. */
KILN_API kiln_status kiln_item_remove(kiln_item *item);

/* A result other than 0 ends the walk. */
typedef int (*kiln_item_fn)(void *user, kiln_item *item);

/* Walks all items, in no order, requests included. What is put or removed meanwhile may or may not
 * be met. Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: a part of a pack's index is damaged, and
 * the rest was met; KILN_E_DENIED: a folder of the store is a symbolic link, another user's, or may
 * be written by others, and the rest was met; KILN_E_IO; KILN_E_NO_MEMORY. Blocks: on reading. */
KILN_API kiln_status kiln_store_each(kiln_store *store, kiln_item_fn visit, void *user);

/* The same for requests alone, which cost no walk through the rest: entries whose key begins with
 * a part named KILN_REQUEST_PART. */
KILN_API kiln_status kiln_store_each_request(kiln_store *store, kiln_item_fn visit, void *user);

/* The key that a build was last done for since the store did not have it, as far as those who built
 * noted that (KILN_STORE_NOTE_MISSES). Long parts of it may be kept as digests.
 *
 * @ret_key       [out] one reference
 * @ret_missed_s  [out] when, in Unix seconds
 * Returns KILN_OK; KILN_MISS: none was noted; KILN_E_CORRUPT; KILN_E_VERSION;
 * KILN_E_UNAUTHENTICATED; KILN_E_UNSUPPORTED: not kept in such a store; KILN_E_DENIED; KILN_E_IO;
 * KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading, 0.1 s for who writes. */
KILN_API kiln_status kiln_store_get_last_miss(kiln_store *store, kiln_key **ret_key,
                                              int64_t *ret_missed_s);

/* What a check found. */
typedef struct kiln_verify_report {
    size_t struct_size;
    uint64_t checked, ok, corrupt, newer; /* requests included */
    uint64_t removed;                     /* by this check, which removes nothing */
    uint64_t unauthenticated;             /* sound, but not signed with the store's key */
} kiln_verify_report;

/* Called for each item that was checked: with KILN_OK and NULL where it is as it should be, else
 * with why it is not. */
typedef void (*kiln_verify_fn)(void *user, kiln_item *item, kiln_status status, const char *why);

/* Reads and verifies every entry; removes nothing. @report may be NULL.
 *
 * @ret_report  [out] written on every failure too but KILN_E_INVALID: it tells of what was checked
 * Returns as kiln_store_each. */
KILN_API kiln_status kiln_store_verify(kiln_store *store, kiln_verify_fn report, void *user,
                                       kiln_verify_report *ret_report);

#ifdef __cplusplus
}
#endif

#endif
