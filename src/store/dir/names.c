/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/dir/dir.h"

#define TEMPORARY_PREFIX ".tmp-"
#define TEMPORARY_DIGITS 16u

void kilni_dir_shard_path(unsigned shard, char *path)
{
    snprintf(path, KILNI_DIR_PATH_SIZE, KILNI_DIR_VERSION "/%02x", shard & 0xffu);
}

void kilni_dir_entry_path(const kiln_digest *digest, char *path)
{
    static const char pattern[] = KILNI_DIR_VERSION "/ab/";
    const size_t prefix = sizeof pattern - 1;
    memcpy(path, pattern, prefix);
    kiln_digest_format(digest, path + prefix);
    memcpy(path + prefix - 3, path + prefix, 2);
}

void kilni_dir_temporary_path(unsigned shard, uint64_t number, char *path)
{
    snprintf(path, KILNI_DIR_PATH_SIZE, KILNI_DIR_VERSION "/%02x/" TEMPORARY_PREFIX "%016" PRIx64,
             shard & 0xffu, number);
}

static bool is_hex(const char *text, size_t length)
{
    return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

bool kilni_dir_is_entry_name(const char *name, unsigned shard, kiln_digest *ret_digest)
{
    return is_hex(name, KILN_DIGEST_TEXT_SIZE - 1) &&
           kiln_digest_parse(name, ret_digest) == KILN_OK && ret_digest->bytes[0] == shard;
}

bool kilni_dir_is_temporary_name(const char *name)
{
    const size_t prefix = sizeof TEMPORARY_PREFIX - 1;
    return strncmp(name, TEMPORARY_PREFIX, prefix) == 0 && is_hex(name + prefix, TEMPORARY_DIGITS);
}
