/* SPDX-License-Identifier: Apache-2.0
 *
 * The key's canonical encoding (docs/format.md) and the key in memory: its encoding and an index
 * of the parts in it, in one allocation.
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
#define KILNI_KEY_PART_FIXED_SIZE 11 /* length of the name, its closing zero, form, size */
#define KILNI_KEY_PART_MIN_SIZE (KILNI_KEY_PART_FIXED_SIZE + 1)

enum { KILNI_KEY_FORM_WHOLE = 0, KILNI_KEY_FORM_STRIPPED = 1 };

struct kiln_key {
    /* Grows by relaxed additions: who retains holds a reference already. The last release must see
     * all that other holders did, so that subtractions acquire and release. */
    atomic_size_t references;
    kiln_digest digest;
    bool stripped;
    unsigned char *encoding; /* behind the parts */
    size_t encoding_size;
    size_t part_count;
    kiln_key_part parts[];
};

/* A key with one reference, whose encoding is to be filled and then indexed. KILN_E_NO_MEMORY. */
kiln_status kilni_key_allocate(size_t part_count, size_t encoding_size, kiln_key **ret_key);

/* Reads the encoding, checks every byte of it, and sets digest, stripped and parts. The part count
 * must be that of the allocation. KILN_OK; KILN_E_CORRUPT. */
kiln_status kilni_key_index(kiln_key *key);

/* BLAKE2b-256, which stands for the bytes of a stripped part. */
void kilni_key_part_digest(const void *bytes, uint64_t size,
                           unsigned char digest[KILNI_KEY_PART_DIGEST_SIZE]);
