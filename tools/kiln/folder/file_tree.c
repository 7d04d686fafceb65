/* SPDX-License-Identifier: Apache-2.0 */
#include "file_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int64_t changed_ns_of(const struct stat *status)
{
    return (int64_t)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec;
}

static bool is_as_listed(const struct stat *status, const listed_file *file)
{
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size == file->size &&
           changed_ns_of(status) == file->changed_ns;
}

/* ---- scanning ---- */

static bool is_kept(const folder_cache *cache, const char *path, const char *name)
{
    for (size_t i = 0; i < FOLDER_NAMES_MAX && cache->left_out[i] != NULL; i++) {
        if (fnmatch(cache->left_out[i], name, 0) == 0) {
            return false;
        }
    }
    return cache->files == NULL || fnmatch(cache->files, path, 0) == 0;
}

static DIR *open_stream(int parent, const char *name)
{
    const int opened = openat(parent, name, FOLDER_FLAGS);
    DIR *stream = opened < 0 ? NULL : fdopendir(opened);
    if (stream == NULL && opened >= 0) {
        close(opened);
    }
    return stream;
}

static bool scan(int parent, const char *name, const char *above, const folder_cache *cache,
                 file_list *list);

static bool scan_item(int folder, const char *name, const char *above, const folder_cache *cache,
                      file_list *list)
{
    struct stat status;
    owned char *path = text_of("%s%s%s", above, above[0] == '\0' ? "" : "/", name);
    if (!file_path_is_sound(path, strlen(path)) ||
        fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return true; /* it cannot be kept, or is no longer there */
    }
    if (S_ISDIR(status.st_mode)) {
        return scan(folder, name, path, cache, list);
    }
    if (S_ISREG(status.st_mode) && is_kept(cache, path, name)) {
        file_list_add(list, (listed_file){.path = must(strdup(path)),
                                          .size = (uint64_t)status.st_size,
                                          .changed_ns = changed_ns_of(&status),
                                          .is_executable = (status.st_mode & S_IXUSR) != 0});
    }
    return list->count <= FILE_LIST_MAX;
}

static bool scan(int parent, const char *name, const char *above, const folder_cache *cache,
                 file_list *list)
{
    DIR *stream = open_stream(parent, name);
    if (stream == NULL) {
        return errno == ENOENT;
    }
    bool is_complete = true;
    const struct dirent *item;
    while (is_complete && (item = readdir(stream)) != NULL) {
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0) {
            is_complete = scan_item(dirfd(stream), item->d_name, above, cache, list);
        }
    }
    closedir(stream);
    return is_complete;
}

bool file_tree_scan(int folder, const folder_cache *cache, file_list *ret_list)
{
    file_list list = {0};
    if (!scan(folder, ".", "", cache, &list)) {
        file_list_free(&list);
        return false;
    }
    file_list_sort(&list);
    *ret_list = list;
    return true;
}

/* ---- reading ---- */

/* Opens the folder in which a path's last part is. Creates missing folders if @creates. Returns -1
 * if there is no such folder. */
static int open_above(int folder, const char *path, bool creates, const char **ret_name)
{
    int above = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    const char *slash;
    while (above >= 0 && (slash = strchr(path, '/')) != NULL) {
        char name[NAME_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
        if (creates) {
            mkdirat(above, name, 0700);
        }
        const int below = openat(above, name, FOLDER_FLAGS);
        close(above);
        above = below;
        path = slash + 1;
    }
    *ret_name = path;
    return above;
}

/* A process can get a lease for reading only if no process has the file open for writing, or has
 * mapped it so. The lease is given back at once: while it is held, a process that opens the file
 * for writing would have to wait. */
static bool is_closed(int file)
{
    if (fcntl(file, F_SETLEASE, F_RDLCK) != 0) {
        return false;
    }
    fcntl(file, F_SETLEASE, F_UNLCK);
    return true;
}

/* Opens a file that no process has open for writing, and that is still as it is listed. Returns -1
 * if there is no such file. */
static int open_closed(int folder, const listed_file *file)
{
    const char *name;
    struct stat status;
    const int above = open_above(folder, file->path, false, &name);
    const int opened =
        above < 0 ? -1 : openat(above, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (above >= 0) {
        close(above);
    }
    if (opened >= 0 &&
        (fstat(opened, &status) != 0 || !is_as_listed(&status, file) || !is_closed(opened))) {
        close(opened);
        return -1;
    }
    return opened;
}

static bool read_all(int file, unsigned char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t count = read(file, bytes + done, size - done);
        if (count <= 0 && !(count < 0 && errno == EINTR)) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

void *file_tree_read(int folder, const listed_file *file)
{
    const int opened = open_closed(folder, file);
    if (opened < 0) {
        return NULL;
    }
    struct stat status;
    unsigned char *bytes = must(malloc(file->size + 1));
    if (!read_all(opened, bytes, file->size) || !is_closed(opened) || fstat(opened, &status) != 0 ||
        !is_as_listed(&status, file)) {
        free(bytes);
        bytes = NULL;
    }
    close(opened);
    return bytes;
}

/* ---- writing ---- */

static bool write_all(int file, const unsigned char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t count = write(file, bytes + done, size - done);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

bool file_tree_write(int folder, const listed_file *file, const void *bytes)
{
    const char *name;
    const int above = open_above(folder, file->path, true, &name);
    if (above < 0) {
        return false;
    }
    const int opened = openat(above, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                              file->is_executable ? 0700 : 0600);
    bool is_written = opened >= 0 && write_all(opened, bytes, file->size);
    if (opened >= 0 && close(opened) != 0) {
        is_written = false;
    }
    if (opened >= 0 && !is_written) {
        unlinkat(above, name, 0);
    }
    close(above);
    return is_written;
}

void file_tree_remove(int parent, const char *name)
{
    DIR *stream = open_stream(parent, name);
    const struct dirent *item;
    while (stream != NULL && (item = readdir(stream)) != NULL) {
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 &&
            unlinkat(dirfd(stream), item->d_name, 0) != 0) {
            file_tree_remove(dirfd(stream), item->d_name);
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
    unlinkat(parent, name, AT_REMOVEDIR);
}
