/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/key.h>

#include <stdbool.h>
#include <string.h>

#include "key/encoding.h"

static bool has_equal_content(const kiln_key_part *a, const kiln_key_part *b)
{
    if (a->size != b->size) {
        return false;
    }
    if (a->bytes && b->bytes) {
        return memcmp(a->bytes, b->bytes, (size_t)a->size) == 0;
    }
    unsigned char made[KILNI_KEY_PART_DIGEST_SIZE];
    const unsigned char *digest_a = a->digest, *digest_b = b->digest;
    if (a->bytes) {
        kilni_key_part_digest(a->bytes, a->size, made);
        digest_a = made;
    } else if (b->bytes) {
        kilni_key_part_digest(b->bytes, b->size, made);
        digest_b = made;
    }
    return memcmp(digest_a, digest_b, KILNI_KEY_PART_DIGEST_SIZE) == 0;
}

int kiln_key_equals(const kiln_key *a, const kiln_key *b)
{
    if (a == b || !a || !b) {
        return a == b;
    }
    if (!a->stripped && !b->stripped) {
        /* A list of parts has exactly one encoding. */
        return a->encoding_size == b->encoding_size &&
               memcmp(&a->digest, &b->digest, sizeof a->digest) == 0 &&
               memcmp(a->encoding, b->encoding, a->encoding_size) == 0;
    }
    if (a->part_count != b->part_count) {
        return 0;
    }
    for (size_t i = 0; i < a->part_count; i++) {
        if (strcmp(a->parts[i].name, b->parts[i].name) != 0 ||
            !has_equal_content(&a->parts[i], &b->parts[i])) {
            return 0;
        }
    }
    return 1;
}

/* Returns the part of @other that corresponds to part @index of @key: the n-th part with a name in
 * one key corresponds to the n-th part with the same name in the other. Returns NULL if there is
 * none. */
static const kiln_key_part *counterpart(const kiln_key *key, size_t index, const kiln_key *other)
{
    const char *name = key->parts[index].name;
    size_t earlier = 0;
    for (size_t i = 0; i < index; i++) {
        earlier += strcmp(key->parts[i].name, name) == 0;
    }
    for (size_t i = 0; i < other->part_count; i++) {
        if (strcmp(other->parts[i].name, name) == 0 && earlier-- == 0) {
            return &other->parts[i];
        }
    }
    return NULL;
}

size_t kiln_key_difference(const kiln_key *first, const kiln_key *second,
                           kiln_key_difference_fn report, void *user)
{
    size_t count = 0;
    for (size_t i = 0; i < second->part_count; i++) {
        const kiln_key_part *after = &second->parts[i];
        const kiln_key_part *before = counterpart(second, i, first);
        if (before && has_equal_content(before, after)) {
            continue;
        }
        count++;
        kiln_key_change change = before ? KILN_KEY_CHANGED : KILN_KEY_ADDED;
        if (report && report(user, change, before, after) != 0) {
            return count;
        }
    }
    for (size_t i = 0; i < first->part_count; i++) {
        if (counterpart(first, i, second)) {
            continue;
        }
        count++;
        if (report && report(user, KILN_KEY_REMOVED, &first->parts[i], NULL) != 0) {
            return count;
        }
    }
    return count;
}
