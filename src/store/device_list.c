/* SPDX-License-Identifier: Apache-2.0
 *
 * Signed lists of devices. A list is an entry, so that it is signed and verified like one: a BLOB
 * whose key no request has, and whose payload has, for each device, the time of its last use (8
 * bytes), the length of its text (4 bytes), and the text.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/store_tools.h>

#include "base/bytes.h"
#include "base/error.h"
#include "entry/entry.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/signing/secret_key.h"
#include "store/signing/trusted_keys.h"

#define LIST_PART "list of devices"
#define LIST_VERSION "1"
#define FILE_MAX_BYTES ((off_t)16 << 20)
#define HEAD_BYTES 12u /* of a device: time and length */

/* ---- making a list ---- */

static kiln_status make_key(kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        kiln_key_builder_add_text(builder, LIST_PART, LIST_VERSION);
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status encode(const kiln_device_use *uses, size_t count, void **ret_bytes,
                          size_t *ret_size)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(uses[i].device);
        if (length > (size_t)FILE_MAX_BYTES || size > (size_t)FILE_MAX_BYTES) {
            return KILN_E_TOO_LARGE;
        }
        size += HEAD_BYTES + length;
    }
    void *bytes = malloc(size + 1);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    kilni_byte_writer writer = {.at = bytes, .left = size};
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(uses[i].device);
        kilni_write_u64(&writer, (uint64_t)uses[i].last_s);
        kilni_write_u32(&writer, (uint32_t)length);
        kilni_write_bytes(&writer, uses[i].device, length);
    }
    *ret_bytes = bytes;
    *ret_size = size;
    return KILN_OK;
}

static kiln_status make_entry(const kiln_device_use *uses, size_t count, kiln_entry **ret_entry)
{
    kiln_key *key = NULL;
    void *bytes = NULL;
    size_t size = 0;
    kiln_status status = encode(uses, count, &bytes, &size);
    if (status == KILN_OK) {
        status = make_key(&key);
    }
    if (status == KILN_OK) {
        const kiln_entry_params params = {.struct_size = sizeof params,
                                          .key = key,
                                          .kind = KILN_ENTRY_BLOB,
                                          .provenance = {.struct_size = sizeof params.provenance},
                                          .payload = {bytes, size}};
        status = kiln_entry_new(&params, ret_entry);
    }
    kiln_key_release(&key);
    free(bytes);
    return status;
}

kiln_status kiln_device_list_make(const kiln_device_use *uses, size_t count,
                                  const char *secret_key_file, uint64_t valid_s,
                                  kiln_entry **ret_list, kiln_error *error)
{
    if ((!uses && count > 0) || !secret_key_file || valid_s == 0 || valid_s > INT64_MAX / 2 ||
        !ret_list) {
        return KILN_E_INVALID;
    }
    kilni_secret_key key;
    kiln_entry *plain = NULL;
    kiln_status status = kilni_secret_key_read(secret_key_file, &key, error);
    if (status != KILN_OK) {
        return status;
    }
    status = make_entry(uses, count, &plain);
    if (status == KILN_OK) {
        status = kilni_entry_sign(plain, &key, kilni_clock_unix_s() + (int64_t)valid_s, ret_list);
    }
    kiln_entry_release(&plain);
    sodium_memzero(&key, sizeof key);
    return status == KILN_OK ? KILN_OK
                             : kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
}

/* ---- reading a list ---- */

static kiln_status fail(const char *path, int system_error, kiln_error *error)
{
    const kiln_status status = kilni_status_from_errno(system_error);
    return kilni_error_set(error, status, system_error, "%s: %s", path,
                           system_error == ELOOP ? "is a symbolic link" : strerror(system_error));
}

/* A person who could write to the file could put back an older list. */
static kiln_status judge(int file, const char *path, size_t *ret_size, kiln_error *error)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) != 0) {
        return fail(path, errno, error);
    }
    const uid_t user = kilni_os()->geteuid();
    const kilni_trust trust = kilni_trust_of(&stat, S_IFREG, user, true, KILNI_WRITE_BY_OTHERS);
    *ret_size = (size_t)stat.st_size;
    return trust == KILNI_TRUSTED && stat.st_size > FILE_MAX_BYTES
               ? kilni_error_set(error, KILN_E_TOO_LARGE, 0, "%s: is too large", path)
               : kilni_trust_report(trust, &stat, user, path, "a regular file", error);
}

static kiln_status read_opened(int file, const char *path, void **ret_bytes, size_t *ret_size,
                               kiln_error *error)
{
    size_t size = 0, count = 0;
    const kiln_status status = judge(file, path, &size, error);
    if (status != KILN_OK) {
        return status;
    }
    void *bytes = malloc(size + 1);
    if (!bytes) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    if (kilni_file_read(file, bytes, size, &count) != KILN_OK) {
        free(bytes);
        return fail(path, errno, error);
    }
    *ret_bytes = bytes;
    *ret_size = count;
    return KILN_OK;
}

static kiln_status read_file(const char *path, void **ret_bytes, size_t *ret_size,
                             kiln_error *error)
{
    /* O_NONBLOCK: opening a FIFO must not block. */
    const int file = kilni_os()->openat(
        AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) {
        return fail(path, errno, error);
    }
    const kiln_status status = read_opened(file, path, ret_bytes, ret_size, error);
    kilni_os()->close(file);
    return status;
}

/* A writer also trusts its own key, unless it is revoked. */
static kiln_status read_keys(const kiln_store_credentials *credentials, kilni_trusted_keys *keys,
                             kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < KILN_TRUSTED_KEY_FILES && status == KILN_OK; i++) {
        const char *path = credentials->trusted_key_files[i];
        status = path ? kilni_trusted_keys_read(path, keys, error) : KILN_OK;
        status = status == KILN_MISS ? KILN_OK : status;
    }
    if (status == KILN_OK && credentials->secret_key_file) {
        kilni_secret_key own;
        status = kilni_secret_key_read(credentials->secret_key_file, &own, error);
        if (status == KILN_OK) {
            status = kilni_trusted_keys_append(keys, &own.public_key, false);
            sodium_memzero(&own, sizeof own);
        }
    }
    return status;
}

static bool has_expired(const void *bytes, size_t size, int64_t now_s)
{
    kiln_entry *entry = NULL;
    kiln_signature signature = {.struct_size = sizeof signature};
    const bool has_signature = kiln_entry_decode(bytes, size, &entry) == KILN_OK &&
                               kiln_entry_get_signature(entry, &signature) == KILN_OK;
    kiln_entry_release(&entry);
    return has_signature && signature.expires_s != 0 && now_s >= signature.expires_s;
}

/* Takes @bytes, whether or not the call succeeds. */
static kiln_status adopt(const char *path, void *bytes, size_t size, const kilni_trusted_keys *keys,
                         kiln_entry **ret_entry, kiln_error *error)
{
    const kilni_entry_trust trust = {.keys = keys, .now_s = kilni_clock_unix_s()};
    const kiln_status status = kilni_entry_adopt_trusted(bytes, size, &trust, ret_entry);
    if (status == KILN_OK) {
        return KILN_OK;
    }
    const bool is_old = has_expired(bytes, size, trust.now_s);
    free(bytes);
    return kilni_error_set(error, status, 0, "%s: %s", path,
                           is_old                             ? "its signature has expired"
                           : status == KILN_E_UNAUTHENTICATED ? "no trusted key has signed it"
                                                              : kiln_status_text(status));
}

static kiln_status visit_devices(const kiln_entry *list, kiln_device_use_fn visit, void *user)
{
    const kiln_bytes payload = kiln_entry_payload(list);
    kilni_byte_reader reader = {.at = payload.data, .left = payload.size};
    while (reader.left > 0) {
        const int64_t last_s = (int64_t)kilni_read_u64(&reader);
        const uint32_t length = kilni_read_u32(&reader);
        const unsigned char *text = kilni_read_bytes(&reader, length);
        if (reader.failed) {
            return KILN_E_CORRUPT;
        }
        char *device = strndup((const char *)text, length);
        if (!device) {
            return KILN_E_NO_MEMORY;
        }
        const kiln_device_use use = {.device = device, .last_s = last_s};
        const bool ends = visit(user, &use) != 0;
        free(device);
        if (ends) {
            break;
        }
    }
    return KILN_OK;
}

/* A trusted key also signs other entries, which are no lists. */
static kiln_status check_key(const kiln_entry *entry)
{
    kiln_key *key = NULL;
    kiln_status status = make_key(&key);
    if (status == KILN_OK && (kiln_entry_kind_of(entry) != KILN_ENTRY_BLOB ||
                              !kiln_key_equals(kiln_entry_key(entry), key))) {
        status = KILN_E_PARSE;
    }
    kiln_key_release(&key);
    return status;
}

kiln_status kiln_device_list_read(const char *path, const kiln_store_credentials *credentials,
                                  kiln_device_use_fn visit, void *user, kiln_error *error)
{
    if (!path || !credentials || !visit) {
        return KILN_E_INVALID;
    }
    kilni_trusted_keys keys = {0};
    void *bytes = NULL;
    size_t size = 0;
    kiln_entry *list = NULL;
    kiln_status status = read_keys(credentials, &keys, error);
    if (status == KILN_OK) {
        status = read_file(path, &bytes, &size, error);
    }
    if (status == KILN_OK) {
        status = adopt(path, bytes, size, &keys, &list, error);
    }
    kilni_trusted_keys_done(&keys);
    if (status != KILN_OK) {
        return status;
    }
    status = check_key(list);
    if (status == KILN_OK) {
        status = visit_devices(list, visit, user);
    }
    kiln_entry_release(&list);
    return status == KILN_OK
               ? KILN_OK
               : kilni_error_set(error, status, 0, "%s: it is no list of devices", path);
}
