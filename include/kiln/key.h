/* SPDX-License-Identifier: Apache-2.0
 *
 * A key: everything that decides what a build yields, as an ordered list of named parts.
 *
 *     kiln_key_builder *builder = NULL;
 *     kiln_key *key = NULL;
 *     kiln_key_builder_new(&builder);
 *     kiln_key_builder_add_text(builder, "source", source);
 *     kiln_key_builder_add_number(builder, "level", 2);
 *     if (kiln_key_builder_finish(builder, &key) == KILN_OK) {
 *         remember(kiln_key_digest(key));
 *     }
 *     kiln_key_release(&key);
 *     kiln_key_builder_free(&builder);
 *
 * Parts have one canonical encoding , so that no two lists share their bytes, and
 * one digest (XXH3-128) of it. The digest is for finding, never for believing: two keys are equal
 * when their parts are. Making a key encodes and hashes it once; from then on it is immutable,
 * counted, and may be used by any number of threads.
 */
#ifndef KILN_KEY_H
#define KILN_KEY_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable and counted. Any thread. */
typedef struct kiln_key kiln_key;

/* Collects the parts of a key. One thread at a time.
 *
 * A builder keeps the first error. After it, additions do nothing, and they and
 * kiln_key_builder_finish return it, since a key that lacks a part would be the key of a different
 * build. So a caller may add all parts and check the status of kiln_key_builder_finish alone:
 *
 *     kiln_key_builder_add_text(builder, "options", "-O2");
 *     kiln_key_builder_add(builder, "source", source, size);
 *     status = kiln_key_builder_finish(builder, &key);
 */
typedef struct kiln_key_builder kiln_key_builder;

/* In canonical (big-endian) byte order, so that its hexadecimal text sorts as it does. */
typedef struct kiln_digest {
    unsigned char bytes[16];
} kiln_digest;

/* Characters of a digest's text: 32 lower-case hexadecimal digits and a zero byte. */
#define KILN_DIGEST_TEXT_SIZE 33

/* A part's bytes may be away: packs that strip keys keep the length and a BLAKE2b-256 digest. */
typedef struct kiln_key_part {
    const char *name;  /* ends with a zero byte; 1 to 255 bytes */
    const void *bytes; /* NULL where only the digest was kept */
    uint64_t size;     /* of the whole part, in bytes, also where only the digest was kept */
    const unsigned char *digest; /* 32 bytes of BLAKE2b-256 where only that was kept, else NULL */
} kiln_key_part;

/* Makes an empty builder.
 *
 * @ret_builder  [out] to be given back with kiln_key_builder_free
 * Returns KILN_OK; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_builder_new(kiln_key_builder **ret_builder);

/* Frees a builder and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_key_builder_free(kiln_key_builder **builder);

/* Appends a part. Order counts, and a name may come more than once.
 *
 * @name   1 to 255 bytes, copied
 * @bytes  copied; may be NULL if size is 0
 * @size   in bytes, at most 2^40
 * Returns KILN_OK; the builder's first error: KILN_E_INVALID, KILN_E_TOO_LARGE, KILN_E_NO_MEMORY.
 * Threads: one at a time. Blocks: never. */
KILN_API kiln_status kiln_key_builder_add(kiln_key_builder *builder, const char *name,
                                          const void *bytes, size_t size);

/* The same for a text: its bytes without the closing zero. @text may not be NULL. */
KILN_API kiln_status kiln_key_builder_add_text(kiln_key_builder *builder, const char *name,
                                               const char *text);

/* The same for a number: eight bytes, little-endian. */
KILN_API kiln_status kiln_key_builder_add_number(kiln_key_builder *builder, const char *name,
                                                 uint64_t number);

/* Makes the key of all parts added so far. The builder keeps them: more may be added and another
 * key made, so that keys with a common beginning share the work.
 *
 * @ret_key  [out] one reference, to be given back with kiln_key_release
 * Returns KILN_OK; the builder's first error; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY.
 * Blocks: never. */
KILN_API kiln_status kiln_key_builder_finish(const kiln_key_builder *builder, kiln_key **ret_key);

/* Makes a key from an encoding, such as that which an entry holds. Every length in it is checked.
 *
 * @bytes    copied
 * @ret_key  [out] one reference
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: not the canonical encoding of any key;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_decode(const void *bytes, size_t size, kiln_key **ret_key);

/* A key that keeps only size and BLAKE2b-256 of each part of more than @above bytes. It has the
 * digest of the whole key and equals it. A key that is stripped already is stripped further.
 *
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_strip(const kiln_key *key, uint64_t above, kiln_key **ret_key);

/* One reference more; returns its argument. NULL is allowed. */
KILN_API kiln_key *kiln_key_retain(const kiln_key *key);

/* Gives a reference back and sets the pointer to NULL; takes NULL and a pointer to NULL. */
KILN_API void kiln_key_release(kiln_key **key);

/* XXH3-128 of the canonical encoding of the whole parts. */
KILN_API kiln_digest kiln_key_digest(const kiln_key *key);

/* The key's encoding. It lives as long as the key. @ret_size may not be NULL. */
KILN_API const void *kiln_key_encoding(const kiln_key *key, size_t *ret_size);

/* 1 where all parts are equal in name, order and bytes (a part that was stripped on either side
 * is compared by size and BLAKE2b-256), else 0. Two NULLs are equal. Threads: any. */
KILN_API int kiln_key_equals(const kiln_key *a, const kiln_key *b);

/* How many parts a key has. Threads: any. */
KILN_API size_t kiln_key_part_count(const kiln_key *key);

/* @index     less than kiln_key_part_count
 * @ret_part  [out] points into the key
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_part_at(const kiln_key *key, size_t index, kiln_key_part *ret_part);

/* How a part differs between two keys. */
typedef enum kiln_key_change {
    KILN_KEY_CHANGED = 1, /* both keys have the part, with different bytes */
    KILN_KEY_ADDED = 2,   /* only the second key has it */
    KILN_KEY_REMOVED = 3  /* only the first key has it */
} kiln_key_change;

/* @before is NULL for KILN_KEY_ADDED, @after for KILN_KEY_REMOVED. A result other than 0 ends the
 * walk. */
typedef int (*kiln_key_difference_fn)(void *user, kiln_key_change change,
                                      const kiln_key_part *before, const kiln_key_part *after);

/* Calls @report for each part in which two keys differ, in the order of the second, then what
 * only the first has. The n-th part of a name is compared with the n-th of the same name.
 *
 * @report  may be NULL: then the differences are only counted
 * Returns how many parts differ, as far as the walk went. Threads: any. Blocks: as @report does. */
KILN_API size_t kiln_key_difference(const kiln_key *first, const kiln_key *second,
                                    kiln_key_difference_fn report, void *user);

/* Writes 32 hexadecimal digits and a zero byte into @text, of KILN_DIGEST_TEXT_SIZE bytes. */
KILN_API void kiln_digest_format(const kiln_digest *digest, char *text);

/* Reads exactly 32 hexadecimal digits followed by a zero byte; upper case is taken too.
 * Returns KILN_OK; KILN_E_PARSE. */
KILN_API kiln_status kiln_digest_parse(const char *text, kiln_digest *ret_digest);

#ifdef __cplusplus
}
#endif

#endif
