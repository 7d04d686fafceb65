/* SPDX-License-Identifier: Apache-2.0 */
#include "store/signing/secret_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "store/private_file.h"

#define NOUN "secret key file"
#define PREFIX "kiln-secret-key "
#define LINE_SIZE (sizeof PREFIX + KILN_PUBLIC_KEY_TEXT_SIZE)

/* Parses the file's line. The text after the prefix has the form of a public key, but contains the
 * seed instead of the key. */
static bool parse_line(char *line, size_t length, kilni_secret_key *key)
{
    const size_t prefix = sizeof PREFIX - 1;
    if (length <= prefix || line[length - 1] != '\n' || memcmp(line, PREFIX, prefix) != 0 ||
        memchr(line, 0, length)) {
        return false;
    }
    line[length - 1] = '\0';
    kiln_public_key seed;
    const bool is_key = kiln_public_key_parse(line + prefix, &seed) == KILN_OK &&
                        !sodium_is_zero(seed.bytes, sizeof seed.bytes);
    if (is_key) {
        memcpy(key->public_key.name, seed.name, sizeof seed.name);
        kilni_secret_key_from_seed(seed.bytes, key);
    }
    sodium_memzero(&seed, sizeof seed);
    return is_key;
}

kiln_status kilni_secret_key_read(const char *path, kilni_secret_key *ret_key, kiln_error *error)
{
    char line[LINE_SIZE];
    size_t length = 0;
    kiln_status status = kilni_private_file_read(path, NOUN, line, sizeof line, &length, error);
    if (status == KILN_OK && !parse_line(line, length, ret_key)) {
        status = kilni_error_set(error, KILN_E_DENIED, 0, NOUN " %s contains no secret key", path);
    }
    sodium_memzero(line, sizeof line);
    return status;
}

kiln_status kiln_secret_key_get_public(const char *path, kiln_public_key *ret_key,
                                       kiln_error *error)
{
    if (!path || !ret_key) {
        return KILN_E_INVALID;
    }
    kilni_secret_key key;
    const kiln_status status = kilni_secret_key_read(path, &key, error);
    if (status == KILN_OK) {
        *ret_key = key.public_key;
    }
    sodium_memzero(&key, sizeof key);
    return status;
}

/* ---- making ---- */

static kiln_status fail(const char *path, kiln_status status, kiln_error *error)
{
    return kilni_error_set(error, status == KILN_MISS ? KILN_E_INVALID : status, errno,
                           NOUN " %s: %s", path, strerror(errno));
}

static kiln_status write_file(const char *path, const char *line, kiln_error *error)
{
    int file = kilni_os()->openat(AT_FDCWD, path,
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        return fail(path, kilni_status_from_errno(errno), error);
    }
    kilni_file_ensure_mode(file, 0600);
    kiln_status status = kilni_file_write(file, line, strlen(line));
    if (status == KILN_OK && kilni_os()->fdatasync(file) != 0) {
        status = KILN_E_IO;
    }
    if (status != KILN_OK) {
        status = fail(path, status, error);
        kilni_os()->unlinkat(AT_FDCWD, path, 0);
    }
    kilni_file_close(&file);
    return status;
}

static bool set_name(const char *name, kiln_public_key *key)
{
    const size_t length = strlen(name);
    const bool is_name = kilni_public_key_is_name(name, length);
    if (is_name) {
        memcpy(key->name, name, length);
    }
    return is_name;
}

kiln_status kiln_secret_key_make(const char *path, const char *name, kiln_public_key *ret_key,
                                 kiln_error *error)
{
    if (!path || !name || !ret_key || path[0] != '/') {
        return KILN_E_INVALID;
    }
    kiln_public_key seed = {0};
    if (!set_name(name, &seed)) {
        return kilni_error_set(error, KILN_E_PARSE, 0,
                               "\"%s\": a key's name has 1 to %d letters, digits, '.', '_' and "
                               "'-', a letter or digit first",
                               name, KILN_SIGNER_NAME_SIZE - 1);
    }
    if (kilni_os()->getrandom(seed.bytes, sizeof seed.bytes, 0) != (ssize_t)sizeof seed.bytes) {
        return kilni_error_set(error, KILN_E_IO, errno, "no random bytes: %s", strerror(errno));
    }
    char line[LINE_SIZE] = PREFIX;
    kiln_public_key_format(&seed, line + sizeof PREFIX - 1);
    strcat(line, "\n");
    const kiln_status status = write_file(path, line, error);
    if (status == KILN_OK) {
        kilni_secret_key key = {.public_key = seed};
        kilni_secret_key_from_seed(seed.bytes, &key);
        *ret_key = key.public_key;
        sodium_memzero(&key, sizeof key);
    }
    sodium_memzero(line, sizeof line);
    sodium_memzero(&seed, sizeof seed);
    return status;
}
