/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical encoding of a key (docs/format.md), and a key in memory: its encoding and an index
 * of the parts, in one allocation.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>

#define KILNI_KEY_MAGIC "KILNKEY\x01"
#define KILNI_KEY_MAGIC_SIZE 8
#define KILNI_KEY_HEADER_SIZE 16   /* magic, flags, part count */
#define KILNI_KEY_FLAG_STRIPPED 1u /* the whole key's digest follows the header */
#define KILNI_KEY_DIGEST_SIZE 16
#define KILNI_KEY_PART_DIGEST_SIZE 32
#define KILNI_KEY_MAX_NAME 255
#define KILNI_KEY_MAX_PARTS 65535
#define KILNI_KEY_PART_FIXED_SIZE 11 /* length of the name, its terminating NUL, form, size */
#define KILNI_KEY_PART_MIN_SIZE (KILNI_KEY_PART_FIXED_SIZE + 1)

enum { KILNI_KEY_FORM_WHOLE = 0, KILNI_KEY_FORM_STRIPPED = 1 };

struct kiln_key {
    /* Incremented with relaxed order, because a caller that retains the key already holds a
     * reference. Decremented with acquire and release, because the thread that releases the last
     * reference must see everything that other holders did. */
    atomic_size_t references;
    /* kilni_hash_keyed of the encoding with whole parts, for tables in this process. If a key was
     * decoded from a stripped encoding, its whole parts are unknown, so its hash differs from the
     * hash of the whole key. */
    uint64_t hash;
    kiln_digest digest;
    bool stripped;
    unsigned char *encoding; /* in the same allocation, after the parts */
    size_t encoding_size;
    size_t part_count;
    kiln_key_part parts[];
};

/* Creates a key with one reference. The caller writes its encoding, and then calls kilni_key_index.
 * Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_key_allocate(size_t part_count, size_t encoding_size, kiln_key **ret_key);

/* Reads the encoding, checks every byte of it, and sets hash, digest, stripped and parts. The part
 * count must be the one for which the key was allocated. Returns KILN_OK or KILN_E_CORRUPT. */
kiln_status kilni_key_index(kiln_key *key);

/* Computes the BLAKE2b-256 that replaces the bytes of a stripped part. */
void kilni_key_part_digest(const void *bytes, uint64_t size,
                           unsigned char digest[KILNI_KEY_PART_DIGEST_SIZE]);
