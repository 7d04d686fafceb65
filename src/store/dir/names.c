/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes and recognizes the names of all files in a store, except those of pairs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "key/hash.h"
#include "store/dir/dir.h"

#define TEMPORARY_PREFIX ".tmp-"
#define ASIDE_SUFFIX "-aside"
#define TEMPORARY_DIGITS 16u

unsigned kilni_dir_shard_of(const kiln_key *key)
{
    return kilni_store_is_request(key) ? KILNI_DIR_REQUESTS : kiln_key_digest(key).bytes[0];
}

bool kilni_dir_has_entries(unsigned shard)
{
    return shard != KILNI_DIR_REQUESTS;
}

void kilni_dir_shard_path(unsigned shard, char *path)
{
    if (shard == KILNI_DIR_REQUESTS) {
        snprintf(path, KILNI_DIR_PATH_SIZE, "%s", KILNI_DIR_VERSION "/requests");
    } else {
        snprintf(path, KILNI_DIR_PATH_SIZE, KILNI_DIR_VERSION "/%02x", shard & 0xffu);
    }
}

void kilni_dir_name_of(const kiln_key *key, char *name)
{
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, name);
}

void kilni_dir_path_of(const kiln_key *key, char *path)
{
    kilni_dir_shard_path(kilni_dir_shard_of(key), path);
    const size_t length = strlen(path);
    path[length] = '/';
    kilni_dir_name_of(key, path + length + 1);
}

bool kilni_dir_temporary_path(const char *folder, uint64_t number, char *path, size_t size)
{
    const int length = snprintf(path, size, "%s/" TEMPORARY_PREFIX "%016" PRIx64, folder, number);
    return length > 0 && (size_t)length < size;
}

void kilni_dir_aside_name(const char *name, char *aside)
{
    snprintf(aside, KILNI_DIR_PATH_SIZE, TEMPORARY_PREFIX "%016" PRIx64 ASIDE_SUFFIX,
             kilni_checksum(name, strlen(name)));
}

static bool is_hex(const char *text, size_t length)
{
    return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

bool kilni_dir_is_entry_name(const char *name, unsigned shard, kiln_digest *ret_digest)
{
    return is_hex(name, KILN_DIGEST_TEXT_SIZE - 1) &&
           kiln_digest_parse(name, ret_digest) == KILN_OK &&
           (shard == KILNI_DIR_REQUESTS || ret_digest->bytes[0] == shard);
}

/* Returns the part of a temporary's name that follows the digits; NULL: this is not the name of a
 * temporary. */
static const char *after_temporary_digits(const char *name)
{
    const size_t prefix = sizeof TEMPORARY_PREFIX - 1;
    const bool is_one = strncmp(name, TEMPORARY_PREFIX, prefix) == 0 &&
                        strspn(name + prefix, "0123456789abcdef") == TEMPORARY_DIGITS;
    return is_one ? name + prefix + TEMPORARY_DIGITS : NULL;
}

bool kilni_dir_is_aside_name(const char *name)
{
    const char *suffix = after_temporary_digits(name);
    return suffix && strcmp(suffix, ASIDE_SUFFIX) == 0;
}

bool kilni_dir_is_temporary_name(const char *name)
{
    const char *suffix = after_temporary_digits(name);
    return suffix && (suffix[0] == '\0' || strcmp(suffix, ASIDE_SUFFIX) == 0);
}
