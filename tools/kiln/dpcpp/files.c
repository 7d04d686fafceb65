/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "names.h"

void close_descriptor(const int *descriptor)
{
    const int error = errno;
    if (*descriptor >= 0) {
        close(*descriptor);
    }
    errno = error;
}

/* Opens a file without setting a new access time, if possible. Only the file's owner is allowed to
 * do so. */
static int open_untraced(int directory, const char *name, int flags)
{
    int file = openat(directory, name, flags | O_NOATIME);
    return file < 0 && errno == EPERM ? openat(directory, name, flags) : file;
}

int open_directory_below(int root, const char *path)
{
    static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int directory = open_untraced(root, ".", flags);
    while (directory >= 0 && path[0] != '\0') {
        char name[NAME_MAX + 1];
        size_t length = strcspn(path, "/");
        owned_descriptor parent = directory;
        if (length == 0 || length > NAME_MAX) {
            errno = EINVAL;
            return -1;
        }
        memcpy(name, path, length);
        name[length] = '\0';
        directory = open_untraced(parent, name, flags);
        path += length + (path[length] == '/');
    }
    return directory;
}

bool open_file_in(int directory, const char *name, open_file *ret_file)
{
    /* Does not block, even if the file is a pipe. */
    int file = open_untraced(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    struct stat facts;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(file);
        errno = EINVAL;
        return false;
    }
    *ret_file = (open_file){.descriptor = file, .size = (uint64_t)facts.st_size};
    return true;
}

void close_file(open_file *file)
{
    close(file->descriptor);
    file->descriptor = -1;
}

static bool read_file(void *user, uint64_t offset, void *buffer, size_t size)
{
    const open_file *file = user;
    for (size_t done = 0; done < size;) {
        ssize_t count =
            pread(file->descriptor, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        done += (size_t)count;
    }
    return true;
}

byte_source file_source(open_file *file)
{
    return (byte_source){.size = file->size, .read = read_file, .user = file};
}

bool read_number_in(int directory, const char *name, bool *ret_is_number, uint64_t *ret_number)
{
    open_file file;
    if (!open_file_in(directory, name, &file)) {
        return false;
    }
    char text[32];
    bool fits = file.size > 0 && file.size <= sizeof text;
    bool was_read = !fits || read_file(&file, 0, text, (size_t)file.size);
    *ret_is_number = fits && was_read && parse_number(text, (size_t)file.size, ret_number);
    close_file(&file);
    if (!was_read) {
        errno = EIO;
    }
    return was_read;
}
