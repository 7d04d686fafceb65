/* SPDX-License-Identifier: Apache-2.0 */
#include "store/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"

static kiln_status fail(const char *path, int system_error, kiln_error *error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    if (status == KILN_MISS) {
        status = KILN_E_INVALID;
    } else if (status != KILN_E_DENIED && status != KILN_E_NO_MEMORY) {
        status = KILN_E_IO;
    }
    return kilni_error_set(error, status, system_error, "key file %s: %s", path,
                           system_error == ELOOP ? "is a symbolic link" : strerror(system_error));
}

static kiln_status deny(const char *path, const char *why, kiln_error *error)
{
    return kilni_error_set(error, KILN_E_DENIED, 0, "key file %s: %s", path, why);
}

static kiln_status judge(const char *path, const struct stat *stat, kiln_error *error)
{
    switch (kilni_trust_of(stat, S_IFREG, kilni_os()->geteuid(), false, S_IRWXG | S_IRWXO)) {
    case KILNI_OF_OTHER_KIND:
        return deny(path, "is not a regular file", error);
    case KILNI_OF_OTHER_USER:
        return deny(path, "belongs to another user", error);
    case KILNI_OPEN_TO_OTHERS:
        return deny(path, "others may read or write it: its mode must be 0600", error);
    case KILNI_TRUSTED:
        break;
    }
    if (stat->st_size != (off_t)sizeof(kilni_signing_key)) {
        return deny(path, "must hold 32 bytes", error);
    }
    return KILN_OK;
}

static kiln_status read_key(const char *path, int file, kilni_signing_key *key, kiln_error *error)
{
    size_t count = 0;
    if (kilni_file_read(file, key->bytes, sizeof key->bytes, &count) != KILN_OK) {
        return fail(path, errno, error);
    }
    if (count != sizeof key->bytes) {
        return deny(path, "must hold 32 bytes", error);
    }
    /* A power cut may leave zeros in a new file; anybody could guess that key. */
    if (sodium_is_zero(key->bytes, sizeof key->bytes)) {
        return deny(path, "holds nothing but zeros", error);
    }
    return KILN_OK;
}

kiln_status kilni_key_file_read(const char *path, kilni_signing_key *ret_key, kiln_error *error)
{
    if (path[0] != '/') {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "key file \"%s\": expected an absolute path", path);
    }
    /* O_NONBLOCK: opening a FIFO must not block. */
    int file = kilni_os()->openat(AT_FDCWD, path,
                                  O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (file < 0) {
        return fail(path, errno, error);
    }
    struct stat stat;
    kilni_signing_key key;
    kiln_status status =
        kilni_os()->fstat(file, &stat) == 0 ? judge(path, &stat, error) : fail(path, errno, error);
    if (status == KILN_OK) {
        status = read_key(path, file, &key, error);
    }
    kilni_os()->close(file);
    if (status == KILN_OK) {
        *ret_key = key;
    }
    sodium_memzero(&key, sizeof key);
    return status;
}
