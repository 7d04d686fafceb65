/* SPDX-License-Identifier: Apache-2.0 */
#include "store/signing/trusted_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "entry/signature.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"

#define MAX_FILE_SIZE ((size_t)1 << 20)
#define REVOKED "revoked "
#define LOCK_WAIT_NS UINT64_C(5000000000)
#define LOCK_POLL_NS UINT64_C(1000000)

/* An open file of trusted keys, and the file's folder. */
typedef struct key_file {
    const char *path;
    int folder, file;
    size_t size;
} key_file;

/* ESTALE means that the file was replaced on a file server. So the file exists, and might revoke a
 * key. It must not be treated as missing. */
static kiln_status fail(const char *path, kiln_error *error)
{
    const kiln_status status = errno == ESTALE ? KILN_E_IO : kilni_status_from_errno(errno);
    return kilni_error_set(error, status, errno, "%s: %s", path,
                           errno == ELOOP ? "is a symbolic link" : strerror(errno));
}

static kiln_status judge(const char *path, int file, mode_t kind, size_t *ret_size,
                         kiln_error *error)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) != 0) {
        return fail(path, error);
    }
    const uid_t user = kilni_os()->geteuid();
    const kilni_trust trust = kilni_trust_of(&stat, kind, user, true, KILNI_WRITE_BY_OTHERS);
    *ret_size = (size_t)stat.st_size;
    return kilni_trust_report(trust, &stat, user, path,
                              kind == S_IFDIR ? "a directory" : "a regular file", error);
}

static void close_file(key_file *keys)
{
    kilni_file_close(&keys->file);
    kilni_file_close(&keys->folder);
}

/* Opens the folder and checks it, and then opens the file by the folder's descriptor. So the file
 * is certainly in the folder that was checked. */
static kiln_status open_file(const char *path, int flags, key_file *ret_file, kiln_error *error)
{
    char folder[PATH_MAX];
    const char *name = strrchr(path, '/');
    if (path[0] != '/' || name[1] == '\0' || strlen(path) >= sizeof folder) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "\"%s\": expected an absolute path", path);
    }
    snprintf(folder, sizeof folder, "%.*s", name == path ? 1 : (int)(name - path), path);
    key_file keys = {.path = path, .folder = -1, .file = -1};
    keys.folder = kilni_os()->openat(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (keys.folder < 0) {
        return fail(folder, error);
    }
    kiln_status status = judge(folder, keys.folder, S_IFDIR, &keys.size, error);
    if (status == KILN_OK) {
        /* O_NONBLOCK: opening a FIFO must not block. */
        keys.file = kilni_os()->openat(
            keys.folder, name + 1, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
        status =
            keys.file < 0 ? fail(path, error) : judge(path, keys.file, S_IFREG, &keys.size, error);
    }
    if (status == KILN_OK && keys.size > MAX_FILE_SIZE) {
        status = kilni_error_set(error, KILN_E_TOO_LARGE, 0, "%s: is too large", path);
    }
    if (status != KILN_OK) {
        close_file(&keys);
        return status;
    }
    *ret_file = keys;
    return KILN_OK;
}

/* Reads the whole file. Sets @ret_text to its text, which the caller frees. Refuses a file that
 * contains a zero byte, since the text would end there. */
static kiln_status read_text(const key_file *keys, char **ret_text, kiln_error *error)
{
    char *text = malloc(keys->size + 1);
    size_t count = 0;
    if (!text) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    kiln_status status = KILN_OK;
    if (kilni_file_read(keys->file, text, keys->size, &count) != KILN_OK) {
        status = fail(keys->path, error);
    } else if (count != keys->size || memchr(text, 0, count)) {
        status =
            kilni_error_set(error, KILN_E_PARSE, 0,
                            "%s: contains a zero byte, or changed while it was read", keys->path);
    }
    if (status != KILN_OK) {
        free(text);
        return status;
    }
    text[count] = '\0';
    *ret_text = text;
    return KILN_OK;
}

/* Removes blanks at both ends. */
static char *trim(char *line)
{
    static const char blanks[] = " \t\r";
    line += strspn(line, blanks);
    size_t length = strlen(line);
    while (length > 0 && strchr(blanks, line[length - 1])) {
        line[--length] = '\0';
    }
    return line;
}

static kiln_status visit_lines(const char *path, char *text, kiln_trusted_key_fn visit, void *user,
                               kiln_error *error)
{
    char *rest = text;
    for (unsigned number = 1; rest; number++) {
        char *line = trim(strsep(&rest, "\n"));
        const bool is_revoked = strncmp(line, REVOKED, sizeof REVOKED - 1) == 0;
        kiln_public_key key;
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        if (kiln_public_key_parse(is_revoked ? trim(line + sizeof REVOKED - 1) : line, &key) !=
            KILN_OK) {
            return kilni_error_set(error, KILN_E_PARSE, 0,
                                   "%s: line %u is neither NAME:KEY nor revoked NAME:KEY", path,
                                   number);
        }
        if (visit && visit(user, &key, is_revoked) != 0) {
            break;
        }
    }
    return KILN_OK;
}

kiln_status kiln_trusted_keys_each(const char *path, kiln_trusted_key_fn visit, void *user,
                                   kiln_error *error)
{
    if (!path || !visit) {
        return KILN_E_INVALID;
    }
    key_file keys;
    char *text = NULL;
    kiln_status status = open_file(path, O_RDONLY, &keys, error);
    if (status != KILN_OK) {
        return status;
    }
    status = read_text(&keys, &text, error);
    close_file(&keys);
    if (status == KILN_OK) {
        status = visit_lines(path, text, visit, user, error);
    }
    free(text);
    return status;
}

/* Locks the file until it is closed, and determines its size again. The lock keeps other writers
 * out. Without it, a writer that restores the old size after a failure could remove a line that
 * another writer has added. On a file system without locks, other writers are not kept out. */
static kiln_status lock_file(key_file *keys, kiln_error *error)
{
    const uint64_t end_ns = kilni_clock_ns() + LOCK_WAIT_NS;
    while (kilni_os()->lock(keys->file, F_WRLCK, 0, 0) != 0 &&
           (errno == EAGAIN || errno == EACCES)) {
        if (kilni_clock_ns() >= end_ns) {
            return kilni_error_set(error, KILN_BUSY, 0, "%s: another process is writing to it",
                                   keys->path);
        }
        kilni_sleep_ns(LOCK_POLL_NS);
    }
    return judge(keys->path, keys->file, S_IFREG, &keys->size, error);
}

/* Appends a line. Restores the file's old size if the line cannot be written completely. */
static kiln_status append(const key_file *keys, const char *line, kiln_error *error)
{
    kiln_status status = kilni_file_write(keys->file, line, strlen(line));
    if (status == KILN_OK && kilni_os()->fdatasync(keys->file) != 0) {
        status = KILN_E_IO;
    }
    if (status == KILN_OK) {
        return KILN_OK;
    }
    kilni_error_set(error, status, errno, "%s: %s", keys->path, strerror(errno));
    kilni_file_resize(keys->file, (off_t)keys->size);
    return status;
}

kiln_status kiln_trusted_keys_add(const char *path, const kiln_public_key *key, int is_revoked,
                                  kiln_error *error)
{
    if (!path || !key ||
        !kilni_public_key_is_name(key->name, strnlen(key->name, sizeof key->name))) {
        return KILN_E_INVALID;
    }
    key_file keys;
    char *text = NULL;
    kiln_status status = open_file(path, O_RDWR | O_APPEND | O_CREAT, &keys, error);
    if (status != KILN_OK) {
        return status;
    }
    status = lock_file(&keys, error);
    status = status == KILN_OK ? read_text(&keys, &text, error) : status;
    if (status == KILN_OK) {
        const bool ends_line = keys.size == 0 || text[keys.size - 1] == '\n';
        char name[KILN_PUBLIC_KEY_TEXT_SIZE], line[sizeof name + sizeof REVOKED + 2];
        kiln_public_key_format(key, name);
        snprintf(line, sizeof line, "%s%s%s\n", ends_line ? "" : "\n", is_revoked ? REVOKED : "",
                 name);
        status = visit_lines(path, text, NULL, NULL, error);
        status = status == KILN_OK ? append(&keys, line, error) : status;
    }
    close_file(&keys);
    free(text);
    return status;
}

/* ---- in memory ---- */

kiln_status kilni_trusted_keys_append(kilni_trusted_keys *keys, const kiln_public_key *key,
                                      bool is_revoked)
{
    kilni_trusted_key *grown = realloc(keys->keys, (keys->count + 1) * sizeof *grown);
    if (!grown) {
        return KILN_E_NO_MEMORY;
    }
    grown[keys->count++] = (kilni_trusted_key){.key = *key, .is_revoked = is_revoked};
    keys->keys = grown;
    return KILN_OK;
}

/* The state while a file is read: the keys that were found so far, and the first failure. */
typedef struct reading {
    kilni_trusted_keys *keys;
    kiln_status status;
} reading;

static int append_one(void *user, const kiln_public_key *key, int is_revoked)
{
    reading *work = user;
    work->status = kilni_trusted_keys_append(work->keys, key, is_revoked);
    return work->status != KILN_OK;
}

kiln_status kilni_trusted_keys_read(const char *path, kilni_trusted_keys *keys, kiln_error *error)
{
    reading work = {.keys = keys, .status = KILN_OK};
    const kiln_status status = kiln_trusted_keys_each(path, append_one, &work, error);
    return status != KILN_OK        ? status
           : work.status != KILN_OK ? kilni_error_set(error, work.status, 0, "out of memory")
                                    : KILN_OK;
}

bool kilni_trusted_keys_have_revoked(const kilni_trusted_keys *keys, const kiln_public_key *key)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].is_revoked &&
            memcmp(keys->keys[i].key.bytes, key->bytes, sizeof key->bytes) == 0) {
            return true;
        }
    }
    return false;
}

bool kilni_trusted_keys_are_any(const kilni_trusted_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (!kilni_trusted_keys_have_revoked(keys, &keys->keys[i].key)) {
            return true;
        }
    }
    return false;
}

void kilni_trusted_keys_done(kilni_trusted_keys *keys)
{
    free(keys->keys);
    *keys = (kilni_trusted_keys){0};
}
