/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry: one built result at rest, enough by itself. It carries its key, where it came from,
 * the answers that its payload can't give, the build log, the payload, and a checksum over all of
 * that. An entry in memory is those very bytes, verified once,
 * immutable, and counted: a store writes them as they are, and no one copies the payload again.
 *
 *     kiln_entry *entry = NULL;
 *     const kiln_entry_params params = {
 *         .struct_size = sizeof params,
 *         .key = key,
 *         .kind = KILN_ENTRY_BLOB,
 *         .payload = {bytes, size},
 *     };
 *     if (kiln_entry_new(&params, &entry) == KILN_OK) {
 *         kiln_store_put(store, entry);
 *     }
 *     kiln_entry_release(&entry);
 */
#ifndef KILN_ENTRY_H
#define KILN_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable and counted. Any thread. */
typedef struct kiln_entry kiln_entry;

/* Bytes that someone else owns. */
typedef struct kiln_bytes {
    const void *data; /* may be NULL where size is 0 */
    size_t size;
} kiln_bytes;

/* What an entry is the result of. Values are stored. */
typedef enum kiln_entry_kind {
    KILN_ENTRY_PROGRAM = 1,
    KILN_ENTRY_KERNEL = 2,
    KILN_ENTRY_CONSTANT = 3,
    KILN_ENTRY_REQUEST = 4, /* inputs of a build that a helper is to repeat; listings hide it */
    KILN_ENTRY_BLOB = 5     /* bytes of an author's own */
} kiln_entry_kind;

/* "program", "kernel", …; "unknown" for a value that is none. Static text. */
KILN_API const char *kiln_entry_kind_name(uint32_t kind);

/* Where an entry came from: for people and for eviction, never for deciding a hit. */
typedef struct kiln_provenance {
    size_t struct_size;
    const char *tool;   /* who wrote it, with version; NULL: this library */
    const char *device; /* for people: platform, device, driver; NULL: empty */
    const char *name;   /* for people: kernel names or a file's; NULL: empty */
    uint64_t build_ns;  /* what building it cost */
    int64_t created_s;  /* Unix seconds; 0: now */
} kiln_provenance;

/* What an entry is made of. */
typedef struct kiln_entry_params {
    size_t struct_size;
    const kiln_key *key; /* not NULL */
    uint32_t kind;       /* kiln_entry_kind */
    kiln_provenance provenance;
    kiln_bytes
        answers;    /* what the payload can't answer as the build did; the device's own format */
    kiln_bytes log; /* the build log, as text without a closing zero */
    kiln_bytes payload;
} kiln_entry_params;

/* Makes an entry; copies everything once.
 *
 * @params     lives for the call
 * @ret_entry  [out] one reference, to be given back with kiln_entry_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: more than 2^40 bytes; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_entry_new(const kiln_entry_params *params, kiln_entry **ret_entry);

/* Verifies stored bytes (magic, version, every length, checksum) and makes an entry of a copy.
 *
 * @ret_entry  [out] one reference
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT; KILN_E_VERSION: a newer format, to be left as
 * it is; KILN_E_NO_MEMORY. Threads: any. Blocks: never. Trusts nothing in @bytes. */
KILN_API kiln_status kiln_entry_decode(const void *bytes, size_t size, kiln_entry **ret_entry);

/* One reference more; returns its argument. NULL is allowed. */
KILN_API kiln_entry *kiln_entry_retain(const kiln_entry *entry);

/* Gives a reference back and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_entry_release(kiln_entry **entry);

/* All that follows points into the entry and lives as long as it; of NULL it is nothing: no key,
 * kind 0, empty texts and bytes. Any thread; never blocks. */
KILN_API const kiln_key *kiln_entry_key(const kiln_entry *entry);
KILN_API uint32_t kiln_entry_kind_of(const kiln_entry *entry);
KILN_API kiln_provenance kiln_entry_provenance(const kiln_entry *entry);
KILN_API kiln_bytes kiln_entry_answers(const kiln_entry *entry);
KILN_API kiln_bytes kiln_entry_log(const kiln_entry *entry);
KILN_API kiln_bytes kiln_entry_payload(const kiln_entry *entry);

/* 1 where it carries a signature, whoever made that; else 0. A store that has a key file gives none
 * that is not signed with it. */
KILN_API int kiln_entry_is_signed(const kiln_entry *entry);

/* The whole entry as stored. */
KILN_API kiln_bytes kiln_entry_encoding(const kiln_entry *entry);

#ifdef __cplusplus
}
#endif

#endif
