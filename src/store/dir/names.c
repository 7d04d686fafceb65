/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/dir/dir.h"

#define TEMPORARY_PREFIX ".tmp-"
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

void kilni_dir_entry_path(unsigned shard, const kiln_digest *digest, char *path)
{
    kilni_dir_shard_path(shard, path);
    const size_t length = strlen(path);
    path[length] = '/';
    kiln_digest_format(digest, path + length + 1);
}

void kilni_dir_path_of(const kiln_key *key, char *path)
{
    const kiln_digest digest = kiln_key_digest(key);
    kilni_dir_entry_path(kilni_dir_shard_of(key), &digest, path);
}

void kilni_dir_temporary_path(unsigned shard, uint64_t number, char *path)
{
    kilni_dir_shard_path(shard, path);
    const size_t length = strlen(path);
    snprintf(path + length, KILNI_DIR_PATH_SIZE - length, "/" TEMPORARY_PREFIX "%016" PRIx64,
             number);
}

void kilni_dir_path_beside(const char *path, uint64_t number, char *beside)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    snprintf(beside, KILNI_DIR_PATH_SIZE, "%.*s" TEMPORARY_PREFIX "%016" PRIx64, folder, path,
             number);
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

bool kilni_dir_is_temporary_name(const char *name)
{
    const size_t prefix = sizeof TEMPORARY_PREFIX - 1;
    return strncmp(name, TEMPORARY_PREFIX, prefix) == 0 && is_hex(name + prefix, TEMPORARY_DIGITS);
}
