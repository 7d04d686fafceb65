/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout "sycl". Each entry has the files <n>.src and <n>.bin in the folder <device>/<image>/<spec
 * constants>/<build options>. The name of each of the four folders is a hash (XXH3-128) of those
 * parts of the key that have this kind. The parts are hashed one after the other, in the encoding
 * that they have in the key. If the key has no such part, the name is the hash of the empty string.
 */
#include <string.h>

#include "key/encoding.h"
#include "key/hash.h"
#include "store/dir/file_pair.h"

enum { DEVICE, IMAGE, SPEC_CONSTANTS, BUILD_OPTIONS, LEVEL_COUNT };

/* The levels of parts, by the names of the parts. All other parts belong to the image. */
static const struct {
    const char *word;
    unsigned level;
} words[] = {
    {"device", DEVICE},
    {"platform", DEVICE},
    {"driver", DEVICE},
    {"backend", DEVICE},
    {"runtime", DEVICE},
    {"cpu", DEVICE},
    {"env", DEVICE},
    {"constant", SPEC_CONSTANTS},
    {"spec", SPEC_CONSTANTS},
    {"spec constants", SPEC_CONSTANTS},
    {"spec_constants", SPEC_CONSTANTS},
    {"options", BUILD_OPTIONS},
    {"build options", BUILD_OPTIONS},
    {"build_options", BUILD_OPTIONS},
    {"compile options", BUILD_OPTIONS},
    {"compile_options", BUILD_OPTIONS},
    {"link options", BUILD_OPTIONS},
    {"link_options", BUILD_OPTIONS},
};

/* Returns the level of a part. It depends on the text before the first '.' of the part's name. */
static unsigned level_of(const char *name)
{
    const size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i].word) == length && memcmp(words[i].word, name, length) == 0) {
            return words[i].level;
        }
    }
    return IMAGE;
}

static kiln_digest hash_level(const kiln_key *key, unsigned level)
{
    kilni_hasher hasher;
    kilni_hasher_begin(&hasher);
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (level_of(part.name) == level) {
            /* In a key's encoding, the length of a part's name precedes the name, and the other
             * fields and the value follow it. */
            kilni_hasher_add(&hasher, part.name - 1,
                             KILNI_KEY_PART_FIXED_SIZE + strlen(part.name) + (size_t)part.size);
        }
    }
    return kilni_hasher_end(&hasher);
}

static kiln_status hash_levels(const kiln_key *key, kiln_digest *ret_levels)
{
    if (key->stripped) {
        return KILN_E_UNSUPPORTED; /* the key lacks bytes that the hashes need */
    }
    for (unsigned level = 0; level < LEVEL_COUNT; level++) {
        ret_levels[level] = hash_level(key, level);
    }
    return KILN_OK;
}

static const kilni_pair_naming naming = {
    .levels = LEVEL_COUNT,
    .key_suffix = ".src",
    .payload_suffix = ".bin",
    .hash_levels = hash_levels,
};

const kilni_dir_layout kilni_layout_sycl = {
    .naming = &naming,
    .get = kilni_pair_get,
    .contains = kilni_pair_contains,
    .put = kilni_pair_put,
    .remove = kilni_pair_remove,
    .walk = kilni_pair_walk,
    .walk_from = kilni_pair_walk_from,
    .check_place = kilni_pair_check_place,
    .digest_of = kilni_pair_digest_of,
    .remove_place = kilni_pair_remove_place,
    .remove_half = kilni_pair_remove_half,
    .tidy = kilni_pair_tidy,
};
