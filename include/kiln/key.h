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
 * A list of parts has exactly one canonical encoding, so two different lists never have the same
 * bytes. The digest of a key is the XXH3-128 of its encoding. The digest only finds candidates: two
 * keys are equal only if all their parts are. A key is encoded and hashed once, when it is made.
 * After that, it is immutable and reference-counted, and any number of threads may use it.
 *
 * All calls: arguments must not be NULL unless their comment allows it.
 */
#ifndef KILN_KEY_H
#define KILN_KEY_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable and reference-counted. Any thread may use it. */
typedef struct kiln_key kiln_key;

/* Collects the parts of a key. Only one thread at a time may use it.
 *
 * A builder keeps its first error. After that error, additions do nothing. Additions and
 * kiln_key_builder_finish return the error, because a key that lacks a part would be the key of a
 * different build. A caller may therefore add all parts and check only the status of
 * kiln_key_builder_finish:
 *
 *     kiln_key_builder_add_text(builder, "options", "-O2");
 *     kiln_key_builder_add(builder, "source", source, size);
 *     status = kiln_key_builder_finish(builder, &key); */
typedef struct kiln_key_builder kiln_key_builder;

/* The digest of a key, in canonical (big-endian) byte order, so digests and their hexadecimal texts
 * sort in the same order. */
typedef struct kiln_digest {
    unsigned char bytes[16];
} kiln_digest;

/* The size of a digest's text: 32 lower-case hexadecimal digits and a zero byte. */
#define KILN_DIGEST_TEXT_SIZE 33

/* One part of a key. Its bytes can be missing: a stripped key (kiln_key_strip) has only the size
 * and BLAKE2b-256 of a long part. Servers store stripped keys, and so do packs with
 * KILN_PACK_STRIP_KEYS. */
typedef struct kiln_key_part {
    const char *name;  /* 1 to 255 bytes, and a terminating NUL */
    const void *bytes; /* NULL if only the digest was kept */
    uint64_t size;     /* of the whole part, in bytes, even if only the digest was kept */
    const unsigned char
        *digest; /* 32 bytes of BLAKE2b-256 if only the digest was kept; otherwise NULL */
} kiln_key_part;

/* Makes an empty builder.
 *
 * @ret_builder  [out] to be freed with kiln_key_builder_free
 * Returns KILN_OK; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_builder_new(kiln_key_builder **ret_builder);

/* Frees a builder and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_key_builder_free(kiln_key_builder **builder);

/* Appends a part. The order of parts matters, and a name may be used more than once.
 *
 * @name   1 to 255 bytes, copied
 * @bytes  copied; may be NULL if size is 0
 * @size   in bytes, at most 2^40
 * Returns KILN_OK; the builder's first error: KILN_E_INVALID, KILN_E_TOO_LARGE, KILN_E_NO_MEMORY.
 * Threads: one at a time. Blocks: never. */
KILN_API kiln_status kiln_key_builder_add(kiln_key_builder *builder, const char *name,
                                          const void *bytes, size_t size);

/* Does the same as kiln_key_builder_add, for the bytes of a text without its terminating NUL. */
KILN_API kiln_status kiln_key_builder_add_text(kiln_key_builder *builder, const char *name,
                                               const char *text);

/* Does the same as kiln_key_builder_add, for a number as eight little-endian bytes. */
KILN_API kiln_status kiln_key_builder_add_number(kiln_key_builder *builder, const char *name,
                                                 uint64_t number);

/* Makes the key of all parts added so far. The builder keeps these parts. A caller may add more
 * parts and make a second key, so keys with a common beginning share the work.
 *
 * @ret_key  [out] one reference, to be released with kiln_key_release
 * Returns KILN_OK; the builder's first error; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY. Threads: one
 * at a time. Blocks: never. */
KILN_API kiln_status kiln_key_builder_finish(const kiln_key_builder *builder, kiln_key **ret_key);

/* Makes a key from an encoding, such as the one inside an entry. Every length in it is checked. If
 * the encoding is that of a stripped key, the new key equals the whole key. A cache of objects
 * (kiln/cache.h) nevertheless treats the two as different keys: an object that was cached under one
 * is not found under the other.
 *
 * @bytes    copied
 * @size     in bytes
 * @ret_key  [out] one reference, to be released with kiln_key_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: not the canonical encoding of any key;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_decode(const void *bytes, size_t size, kiln_key **ret_key);

/* Makes a key that keeps only the size and BLAKE2b-256 of each part longer than @above bytes. The
 * new key has the same digest as the whole key, and equals it. A stripped key can be stripped
 * further.
 *
 * @ret_key  [out] one reference, to be released with kiln_key_release
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_strip(const kiln_key *key, uint64_t above, kiln_key **ret_key);

/* Adds a reference and returns its argument. NULL is allowed. */
KILN_API kiln_key *kiln_key_retain(const kiln_key *key);

/* Releases a reference and sets the pointer to NULL. NULL and a pointer to NULL are allowed. */
KILN_API void kiln_key_release(kiln_key **key);

/* Returns the XXH3-128 of the canonical encoding of the whole parts. Threads: any. Blocks: never.
 */
KILN_API kiln_digest kiln_key_digest(const kiln_key *key);

/* Returns the key's encoding, which is valid as long as the key is. @ret_size receives its size in
 * bytes. Threads: any. Blocks: never. */
KILN_API const void *kiln_key_encoding(const kiln_key *key, size_t *ret_size);

/* Returns 1 if all parts are equal in name, order and bytes, otherwise 0. A part that is stripped
 * in either key is compared by size and BLAKE2b-256. NULL is allowed, and equals only NULL.
 * Threads: any. Blocks: never. */
KILN_API int kiln_key_equals(const kiln_key *a, const kiln_key *b);

/* Returns the number of parts. Threads: any. Blocks: never. */
KILN_API size_t kiln_key_part_count(const kiln_key *key);

/* Reads one part.
 *
 * @index     less than kiln_key_part_count
 * @ret_part  [out] points into the key
 * Returns KILN_OK; KILN_E_INVALID. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_key_part_at(const kiln_key *key, size_t index, kiln_key_part *ret_part);

/* How a part differs between two keys. */
typedef enum kiln_key_change {
    KILN_KEY_CHANGED = 1, /* both keys have the part, but with different bytes */
    KILN_KEY_ADDED = 2,   /* only the second key has it */
    KILN_KEY_REMOVED = 3  /* only the first key has it */
} kiln_key_change;

/* Receives one difference. @before is NULL for KILN_KEY_ADDED, and @after is NULL for
 * KILN_KEY_REMOVED; both are valid during the call. A result other than 0 ends the walk. */
typedef int (*kiln_key_difference_fn)(void *user, kiln_key_change change,
                                      const kiln_key_part *before, const kiln_key_part *after);

/* Calls @report for each part in which two keys differ: first in the order of the second key, then
 * the parts that only the first key has. If a name occurs more than once, the n-th part of that
 * name in one key is compared with the n-th part of that name in the other.
 *
 * @report  NULL: the differences are only counted
 * @user    passed to @report; may be NULL
 * Returns the number of differences; if @report ended the walk, up to and including that
 * difference. Threads: any. Blocks: as long as @report does. */
KILN_API size_t kiln_key_difference(const kiln_key *first, const kiln_key *second,
                                    kiln_key_difference_fn report, void *user);

/* Writes 32 hexadecimal digits and a zero byte to @text, which must have room for
 * KILN_DIGEST_TEXT_SIZE bytes. Threads: any. Blocks: never. */
KILN_API void kiln_digest_format(const kiln_digest *digest, char *text);

/* Reads exactly 32 hexadecimal digits, in lower or upper case, and a zero byte. Returns KILN_OK;
 * KILN_E_PARSE. Threads: any. Blocks: never. */
KILN_API kiln_status kiln_digest_parse(const char *text, kiln_digest *ret_digest);

#ifdef __cplusplus
}
#endif

#endif
