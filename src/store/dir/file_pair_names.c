/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "os/os.h"
#include "store/dir/file_pair.h"

const kilni_pair_naming *kilni_pair_naming_of(const kilni_dir *dir)
{
    return dir->layout->naming;
}

/* Keeps the first @bits bits of a hash, and clears all others. Tests that need collisions use only
 * a few bits. */
static void cut(kiln_digest *digest, unsigned bits)
{
    for (unsigned i = 0; i < sizeof digest->bytes; i++) {
        const unsigned left = bits > i * 8 ? bits - i * 8 : 0;
        const unsigned kept = left < 8 ? left : 8;
        digest->bytes[i] &= (unsigned char)(0xff00u >> kept);
    }
}

kiln_status kilni_pair_hash_path_of(const kilni_dir *dir, const kiln_key *key, char *path)
{
    const kilni_pair_naming *naming = kilni_pair_naming_of(dir);
    kiln_digest levels[KILNI_PAIR_MAX_LEVELS];
    const kiln_status status = naming->hash_levels(key, levels);
    if (status != KILN_OK) {
        return status;
    }
    for (unsigned i = 0; i < naming->levels; i++) {
        cut(&levels[i], dir->hash_bits);
        char *text = path + i * KILN_DIGEST_TEXT_SIZE;
        kiln_digest_format(&levels[i], text);
        text[KILN_DIGEST_TEXT_SIZE - 1] = i + 1 < naming->levels ? '/' : '\0';
    }
    return KILN_OK;
}

kiln_status kilni_pair_folder_of(const kilni_dir *dir, const kiln_key *key, char *path)
{
    const char *backend = dir->store.options.backend;
    size_t length = 0;
    if (backend[0] != '\0') {
        length = strlen(backend);
        memcpy(path, backend, length);
        path[length++] = '/';
    }
    return kilni_pair_hash_path_of(dir, key, path + length);
}

void kilni_pair_slot_name(uint32_t number, char *name)
{
    snprintf(name, KILNI_PAIR_NAME_SIZE, "%u", (unsigned)number);
}

bool kilni_pair_is_slot_real(const kilni_dir *dir, int folder, uint32_t number)
{
    if (!kilni_pair_naming_of(dir)->has_slots) {
        return true;
    }
    char name[KILNI_PAIR_NAME_SIZE];
    struct stat stat;
    kilni_pair_slot_name(number, name);
    return kilni_os()->fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
           kilni_dir_trusts_folder(dir, &stat);
}

void kilni_pair_key_name(const kilni_dir *dir, uint32_t number, char *name)
{
    snprintf(name, KILNI_PAIR_NAME_SIZE, "%u%s", (unsigned)number,
             kilni_pair_naming_of(dir)->key_suffix);
}

void kilni_pair_payload_name(const kilni_dir *dir, uint32_t number, char *name)
{
    snprintf(name, KILNI_PAIR_NAME_SIZE, "%u%s", (unsigned)number,
             kilni_pair_naming_of(dir)->payload_suffix);
}

bool kilni_pair_is_level_name(const char *name, kiln_digest *ret_digest)
{
    const size_t length = KILN_DIGEST_TEXT_SIZE - 1;
    return strlen(name) == length && strspn(name, "0123456789abcdef") == length &&
           kiln_digest_parse(name, ret_digest) == KILN_OK;
}

/* Parses a number that has no leading zeros. Returns the text after the number, or NULL if @name
 * does not begin with such a number. */
static const char *parse_number(const char *name, uint32_t *ret_number)
{
    const size_t digits = strspn(name, "0123456789");
    if (digits == 0 || digits > 9 || (name[0] == '0' && digits > 1)) {
        return NULL;
    }
    uint32_t number = 0;
    for (size_t i = 0; i < digits; i++) {
        number = number * 10 + (uint32_t)(name[i] - '0');
    }
    *ret_number = number;
    return name + digits;
}

bool kilni_pair_parse_name(const kilni_dir *dir, const char *name, kilni_pair_slot *ret_slot)
{
    const kilni_pair_naming *naming = kilni_pair_naming_of(dir);
    kilni_pair_slot slot = {0};
    const char *suffix = parse_number(name, &slot.number);
    if (!suffix) {
        return false;
    }
    slot.has_key = strcmp(suffix, naming->has_slots ? "" : naming->key_suffix) == 0;
    slot.has_payload = strcmp(suffix, naming->has_slots ? "" : naming->payload_suffix) == 0;
    if (!slot.has_key && !slot.has_payload) {
        return false;
    }
    *ret_slot = slot;
    return true;
}
