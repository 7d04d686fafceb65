/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry: one stored result, complete in itself. It contains its key, where it came from, facts
 * that its payload does not contain, the build log, the payload, and a checksum over all of these.
 * An entry in memory consists of exactly the bytes that are stored. They are verified once,
 * immutable and reference-counted. A store writes them unchanged, and the payload is never copied
 * again.
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

/* Immutable and reference-counted. Any thread may use it. */
typedef struct kiln_entry kiln_entry;

/* Borrowed bytes. */
typedef struct kiln_bytes {
    const void *data; /* may be NULL if size is 0 */
    size_t size;
} kiln_bytes;

/* What kind of result an entry contains. The values are stored and never change. */
typedef enum kiln_entry_kind {
    KILN_ENTRY_PROGRAM = 1,
    KILN_ENTRY_KERNEL = 2,
    KILN_ENTRY_CONSTANT = 3,
    KILN_ENTRY_REQUEST = 4, /* the inputs of a build that a helper will repeat; listings hide it */
    KILN_ENTRY_BLOB = 5     /* bytes whose meaning only the caller knows */
} kiln_entry_kind;

/* Returns "program", "kernel", …; "unknown" for an unknown value. The text is static. Threads: any.
 * Blocks: never. */
KILN_API const char *kiln_entry_kind_name(uint32_t kind);

/* Where an entry came from. Kiln shows this to users, and takes it into account when it evicts
 * entries. It never affects which entry a look-up finds. */
typedef struct kiln_provenance {
    size_t struct_size;
    const char *tool;   /* the program that wrote the entry, and its version; NULL: this library */
    const char *device; /* platform, device and driver, as text; NULL: "" */
    const char *name;   /* names of kernels or of a file, as text; NULL: "" */
    uint64_t build_ns;  /* how long the build took */
    int64_t created_s;  /* Unix seconds; 0: now */
} kiln_provenance;

/* The contents of a new entry. */
typedef struct kiln_entry_params {
    size_t struct_size;
    const kiln_key *key; /* not NULL */
    uint32_t kind;       /* a kiln_entry_kind */
    kiln_provenance provenance;
    kiln_bytes answers; /* facts about the build that the payload does not contain, in the device's
                           own format */
    kiln_bytes log;     /* the build log: text without a terminating NUL */
    kiln_bytes payload;
} kiln_entry_params;

/* Makes an entry. Everything is copied once.
 *
 * @params     read during the call
 * @ret_entry  [out] one reference, to be released with kiln_entry_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_TOO_LARGE: more than 2^40 bytes; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_entry_new(const kiln_entry_params *params, kiln_entry **ret_entry);

/* Verifies stored bytes (magic, version, every length, checksum) and makes an entry of a copy.
 * Trusts nothing in @bytes.
 *
 * @bytes      read during the call; not NULL
 * @size       in bytes
 * @ret_entry  [out] one reference, to be released with kiln_entry_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT; KILN_E_VERSION: the bytes have a newer format,
 * and should be left as they are; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_entry_decode(const void *bytes, size_t size, kiln_entry **ret_entry);

/* Adds a reference and returns its argument. NULL is allowed. */
KILN_API kiln_entry *kiln_entry_retain(const kiln_entry *entry);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_entry_release(kiln_entry **entry);

/* Return the fields of an entry. The results point into the entry and are valid as long as it
 * exists. For NULL, they are empty: no key, kind 0, empty texts and bytes. Threads: any. Blocks:
 * never. */
KILN_API const kiln_key *kiln_entry_key(const kiln_entry *entry);
KILN_API uint32_t kiln_entry_kind_of(const kiln_entry *entry);
KILN_API kiln_provenance kiln_entry_provenance(const kiln_entry *entry);
KILN_API kiln_bytes kiln_entry_answers(const kiln_entry *entry);
KILN_API kiln_bytes kiln_entry_log(const kiln_entry *entry);
KILN_API kiln_bytes kiln_entry_payload(const kiln_entry *entry);

/* Returns 1 if the entry is signed with any signing key; otherwise 0. The signature is not checked.
 * Signatures of key pairs (kiln/signature.h) do not count. */
KILN_API int kiln_entry_is_signed(const kiln_entry *entry);

/* Returns the bytes of the whole entry, as they are stored. They are valid as long as the entry is.
 * For NULL, they are empty. */
KILN_API kiln_bytes kiln_entry_encoding(const kiln_entry *entry);

/* What a compiler found at a path, or what else a result depends on. */
typedef enum kiln_finding {
    KILN_FOUND_NOTHING = 1,
    KILN_FOUND_FILE = 2,
    KILN_FOUND_FOLDER = 3,
    KILN_FOUND_LINK = 4,          /* the compiler read a link, or resolved the links in the path */
    KILN_ONLY_FOR_PROGRAM_IN = 5, /* the result is valid only for a program in that folder */
    KILN_ONLY_FOR_PROCESS_IN = 6  /* the result is valid only for a process in that working
                                     directory */
} kiln_finding;

/* Something that a result depends on: a path that a compiler looked up while it was watched, or the
 * only folder in which the result is valid. kiln_nvrtc_each_read and kiln_opencl_each_read report
 * them. Later versions may append members. */
typedef struct kiln_read {
    const char *path;        /* valid as long as the entry is */
    uint32_t found;          /* a kiln_finding */
    int relative_to_program; /* 1: the path is relative to the program's folder; otherwise 0 */
    uint64_t size;           /* of a file, in bytes */
    kiln_status now; /* KILN_OK: unchanged; KILN_MISS: changed; KILN_E_UNSUPPORTED: unknown here */
    uint32_t found_now; /* the kiln_finding at the path now; 0: unknown, or no path was looked up */
    uint32_t place;     /* the place of this read among those of the result; 0: the first */
    uint32_t same; /* of a file or folder: the place of the first read that led to the same one */
    const unsigned char *digest; /* of a file: the 32 bytes of the BLAKE2b-256 of its content */
} kiln_read;

/* Receives one kiln_read, which is valid during the call. A result other than 0 ends the list. */
typedef int (*kiln_read_fn)(void *user, const kiln_read *read);

#ifdef __cplusplus
}
#endif

#endif
