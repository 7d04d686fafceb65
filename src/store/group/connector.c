/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations on named bytes. Each name is a file. Keeps rules 2, 4 and 5 of group.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/dir.h"
#include "store/group/group.h"

#define FILE_MODE ((mode_t)(S_IRUSR | S_IWUSR | S_IRGRP))
#define NAME_TRIES 4
#define PAGE_NAMES 1024u

/* Puts look for entries to remove so often that, on average, all processes together put this part
 * of the limit between two looks. */
#define PARTS_OF_LIMIT 32u

/* How long a put looks for entries to remove, however many files there are. */
#define ROOM_NS UINT64_C(2000000000)

struct kilni_remote {
    uint64_t max_bytes;
    char path[];
};

static kiln_status open_group(const kilni_remote_server *server, kilni_remote **ret_remote,
                              kiln_error *error)
{
    int folder = -1;
    const kiln_status status = kilni_group_enter(server->path, &folder, error);
    if (status != KILN_OK) {
        return status;
    }
    kilni_file_close(&folder);
    const size_t size = strlen(server->path) + 1;
    kilni_remote *remote = malloc(sizeof *remote + size);
    if (!remote) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    remote->max_bytes = server->max_bytes;
    memcpy(remote->path, server->path, size);
    *ret_remote = remote;
    return KILN_OK;
}

static void close_group(kilni_remote *remote)
{
    free(remote);
}

/* No call here waits for anybody. Only kilni_group_make_room takes long, and looks at the limit. */
static void limit_calls(const _Atomic uint64_t *end_ns)
{
    (void)end_ns;
}

/* ---- reading ---- */

/* Copies at most @size bytes of an open file to memory. */
static kiln_status copy_bytes(int file, size_t size, kilni_remote_bytes *ret_bytes)
{
    kilni_remote_bytes bytes = {.data = malloc(size + 1)};
    if (!bytes.data) {
        return KILN_E_NO_MEMORY;
    }
    const kiln_status status = kilni_file_read(file, bytes.data, size, &bytes.size);
    if (status != KILN_OK) {
        free(bytes.data);
        return status;
    }
    *ret_bytes = bytes;
    return KILN_OK;
}

/* Reads the beginning of a value. The value of a name that belongs to something that Kiln does not
 * open has no bytes, so it is a damaged entry for all callers.
 *
 * @head_size  how much is read at most */
static kiln_status read_value(int folder, const char *name, size_t head_size, uint64_t max_bytes,
                              kilni_remote_bytes *ret_bytes, uint64_t *ret_whole_size)
{
    int file = -1;
    struct stat stat = {.st_size = 0};
    kiln_status status = kilni_group_open_file(folder, name, O_RDONLY, &file, &stat);
    if (status != KILN_OK && status != KILN_E_CORRUPT) {
        return status;
    }
    const uint64_t whole_size = (uint64_t)stat.st_size;
    if (whole_size > max_bytes) {
        status = KILN_E_TOO_LARGE;
    } else {
        status =
            copy_bytes(file, whole_size < head_size ? (size_t)whole_size : head_size, ret_bytes);
    }
    kilni_file_close(&file);
    if (status == KILN_OK) {
        *ret_whole_size = whole_size;
    }
    return status;
}

static kiln_status get(kilni_remote *remote, const char *name, uint64_t max_bytes,
                       uint64_t deadline_ns, kilni_remote_bytes *ret_bytes)
{
    (void)deadline_ns;
    int folder = -1;
    uint64_t whole_size;
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status == KILN_OK) {
        status = read_value(folder, name, SIZE_MAX - 1, max_bytes, ret_bytes, &whole_size);
    }
    kilni_file_close(&folder);
    return status;
}

static kiln_status get_head(kilni_remote *remote, const char *name, size_t size,
                            uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                            uint64_t *ret_whole_size)
{
    (void)deadline_ns;
    int folder = -1;
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status == KILN_OK) {
        status = read_value(folder, name, size, UINT64_MAX, ret_bytes, ret_whole_size);
    }
    kilni_file_close(&folder);
    return status;
}

static kiln_status contains(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    (void)deadline_ns;
    int folder = -1, file = -1;
    struct stat stat;
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status == KILN_OK) {
        status = kilni_group_open_file(folder, name, O_PATH, &file, &stat);
    }
    kilni_file_close(&file);
    kilni_file_close(&folder);
    return status == KILN_E_CORRUPT ? KILN_MISS : status;
}

/* ---- writing ---- */

static bool random_number(uint64_t *ret_number)
{
    return kilni_os()->getrandom(ret_number, sizeof *ret_number, 0) == (ssize_t)sizeof *ret_number;
}

/* Creates a file that no other process can have opened before. */
static kiln_status create_temporary(int folder, char *name, size_t size, int *ret_file)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number;
        if (!random_number(&number)) {
            return KILN_E_IO;
        }
        snprintf(name, size, KILNI_GROUP_TEMPORARY "%016" PRIx64, number);
        const int file = kilni_os()->openat(
            folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
        if (file >= 0) {
            *ret_file = file;
            return KILN_OK;
        }
        if (errno != EEXIST) {
            return kilni_dir_write_status(errno);
        }
    }
    return KILN_E_IO;
}

/* Writes and closes a temporary. */
static kiln_status fill_temporary(int file, const void *data, size_t size)
{
    kiln_status status = kilni_file_write(file, data, size);
    if (status == KILN_OK && kilni_os()->fchmod(file, FILE_MODE) != 0) {
        status = KILN_E_IO;
    }
    if (kilni_os()->close(file) != 0 && status == KILN_OK) {
        status = kilni_dir_write_status(errno);
    }
    return status;
}

/* Gives a file a new name. If the name belongs to something that this process is not allowed to
 * replace, such as a directory, or a file of another member in a sticky directory, it stays. */
static kiln_status rename_file(int folder, const char *from, const char *to)
{
    if (kilni_os()->renameat(folder, from, folder, to) == 0) {
        return KILN_OK;
    }
    switch (errno) {
    case EACCES:
    case EPERM:
    case EBUSY:
    case EISDIR:
    case ENOTDIR:
    case EEXIST:
    case ENOTEMPTY:
        return KILN_EXISTS;
    default:
        return kilni_dir_write_status(errno);
    }
}

static kiln_status put_file(int folder, const char *name, const void *data, size_t size)
{
    char temporary[64];
    int file = -1;
    kiln_status status = create_temporary(folder, temporary, sizeof temporary, &file);
    if (status != KILN_OK) {
        return status;
    }
    status = fill_temporary(file, data, size);
    if (status == KILN_OK) {
        status = rename_file(folder, temporary, name);
    }
    if (status != KILN_OK) {
        kilni_os()->unlinkat(folder, temporary, 0);
    }
    return status == KILN_MISS ? KILN_E_IO : status;
}

/* Decides by chance whether a put of @size bytes looks for entries to remove. So there is no
 * counter, which other members could change. */
static bool looks_for_room(const kilni_remote *remote, size_t size)
{
    const uint64_t part = remote->max_bytes / PARTS_OF_LIMIT;
    uint64_t number;
    return remote->max_bytes != KILN_UNLIMITED &&
           (size >= part || (random_number(&number) && number % part < size));
}

static kiln_status put(kilni_remote *remote, const char *name, const void *data, size_t size,
                       uint64_t expire_ms, uint64_t deadline_ns)
{
    (void)expire_ms;
    int folder = -1;
    if (size > remote->max_bytes) {
        return KILN_E_TOO_LARGE;
    }
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status != KILN_OK) {
        return status;
    }
    status = put_file(folder, name, data, size);
    if (status == KILN_OK && looks_for_room(remote, size)) {
        const uint64_t end_ns = kilni_clock_ns() + ROOM_NS;
        kilni_group_make_room(folder, remote->max_bytes,
                              end_ns < deadline_ns ? end_ns : deadline_ns);
    }
    kilni_file_close(&folder);
    return status;
}

static kiln_status remove_name(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    (void)deadline_ns;
    int folder = -1;
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status == KILN_OK && kilni_os()->unlinkat(folder, name, 0) != 0) {
        status = errno == ENOENT                     ? KILN_MISS
                 : errno == EISDIR || errno == EBUSY ? KILN_E_DENIED
                                                     : kilni_dir_write_status(errno);
    }
    kilni_file_close(&folder);
    return status;
}

/* If a different process replaces the file between the comparison and the renaming, the new file is
 * moved. It is as if the new file had been removed. */
static kiln_status move_in(int folder, const char *name, const char *new_name,
                           kilni_remote_bytes value)
{
    kilni_remote_bytes now = {0};
    uint64_t whole_size;
    kiln_status status = read_value(folder, name, value.size + 1, value.size, &now, &whole_size);
    if (status != KILN_OK) {
        return status == KILN_E_TOO_LARGE ? KILN_MISS : status;
    }
    const bool is_same = now.size == value.size && memcmp(now.data, value.data, value.size) == 0;
    free(now.data);
    status = is_same ? rename_file(folder, name, new_name) : KILN_MISS;
    return status == KILN_EXISTS ? KILN_E_DENIED : status;
}

static kiln_status move(kilni_remote *remote, const char *name, const char *new_name,
                        kilni_remote_bytes value, uint64_t expire_ms, uint64_t deadline_ns)
{
    (void)expire_ms, (void)deadline_ns;
    int folder = -1;
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status == KILN_OK) {
        status = move_in(folder, name, new_name, value);
    }
    kilni_file_close(&folder);
    return status;
}

/* ---- listing ---- */

/* Visits the names of a page, and sets @cursor to the position of the next page. */
static kiln_status list_page(DIR *names, const char *prefix, char *cursor,
                             kilni_remote_visit_fn *visit, void *user)
{
    if (cursor[0] != '\0') {
        kilni_os()->seekdir(names, strtol(cursor, NULL, 10));
    }
    cursor[0] = '\0';
    for (unsigned i = 0; i < PAGE_NAMES; i++) {
        errno = 0;
        const struct dirent *next = kilni_os()->readdir(names);
        if (!next) {
            cursor[0] = '\0';
            return errno == 0 ? KILN_OK : KILN_E_IO;
        }
        snprintf(cursor, KILNI_REMOTE_CURSOR_SIZE, "%ld", (long)next->d_off);
        if (strncmp(next->d_name, prefix, strlen(prefix)) == 0) {
            visit(user,
                  &(kilni_remote_listed){.name = next->d_name, .name_size = strlen(next->d_name)});
        }
    }
    return KILN_OK;
}

static kiln_status list(kilni_remote *remote, const char *prefix,
                        char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                        kilni_remote_visit_fn *visit, void *user)
{
    (void)deadline_ns;
    int folder = -1;
    kiln_status status = kilni_group_enter(remote->path, &folder, NULL);
    if (status != KILN_OK) {
        return status;
    }
    DIR *names = kilni_file_list(folder);
    kilni_file_close(&folder);
    if (!names) {
        return KILN_E_IO;
    }
    status = list_page(names, prefix, cursor, visit, user);
    kilni_os()->closedir(names);
    return status;
}

/* ---- the connector ---- */

static kilni_server_fault fault(const kilni_remote *remote)
{
    (void)remote;
    return KILNI_FAULT_FILES;
}

/* The directory is used again by the next call. */
static bool is_away(kilni_remote *remote, kilni_server_state *ret_state)
{
    (void)remote, (void)ret_state;
    return false;
}

const kilni_connector kilni_group_connector = {
    .version = KILNI_CONNECTOR_VERSION,
    .open = open_group,
    .close = close_group,
    .limit_calls = limit_calls,
    .get = get,
    .get_head = get_head,
    .contains = contains,
    .put = put,
    .remove = remove_name,
    .move = move,
    .list = list,
    .fault = fault,
    .is_away = is_away,
};
