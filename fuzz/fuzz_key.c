/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes any bytes as a key. A key that decodes must be canonical: rebuilt from its parts, or
 * decoded again, it has the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/key.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void require_encoding(const kiln_key *key, const uint8_t *bytes, size_t size)
{
    size_t encoded_size;
    const void *encoded = kiln_key_encoding(key, &encoded_size);
    require(encoded_size == size && memcmp(encoded, bytes, size) == 0);
}

static int is_whole(const kiln_key *key)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (!part.bytes) {
            return 0;
        }
    }
    return 1;
}

static void build_again(const kiln_key *key, const uint8_t *bytes, size_t size)
{
    kiln_key_builder *builder = NULL;
    kiln_key *built = NULL;
    kiln_key_part part;
    require(kiln_key_builder_new(&builder) == KILN_OK);
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        require(kiln_key_builder_add(builder, part.name, part.bytes, (size_t)part.size) == KILN_OK);
    }
    require(kiln_key_builder_finish(builder, &built) == KILN_OK);
    require_encoding(built, bytes, size);
    require(kiln_key_equals(built, key));
    kiln_key_release(&built);
    kiln_key_builder_free(&builder);
}

static void strip(const kiln_key *key)
{
    kiln_key *stripped = NULL, *decoded = NULL;
    require(kiln_key_strip(key, 4, &stripped) == KILN_OK);
    require(kiln_key_equals(stripped, key));
    size_t size;
    const void *bytes = kiln_key_encoding(stripped, &size);
    require(kiln_key_decode(bytes, size, &decoded) == KILN_OK);
    require(kiln_key_equals(decoded, key));
    kiln_digest a = kiln_key_digest(decoded), b = kiln_key_digest(key);
    require(memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0);
    if (kiln_key_part_count(key) < 64) {
        require(kiln_key_difference(key, decoded, NULL, NULL) == 0);
    }
    kiln_key_release(&decoded);
    kiln_key_release(&stripped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = calloc(1, size > 0 ? size : 1);
    if (!bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    kiln_key *key = NULL;
    if (kiln_key_decode(bytes, size, &key) == KILN_OK) {
        require_encoding(key, bytes, size);
        if (is_whole(key)) {
            build_again(key, bytes, size);
        }
        strip(key);
        kiln_key_release(&key);
    }
    free(bytes);
    return 0;
}
