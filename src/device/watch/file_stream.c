/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/file_stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_BYTES_MAX ((off_t)64 << 20)

enum { DESCRIPTORS_MAX = 1024 };

typedef struct file_stream {
    int descriptor;
    struct stat facts;
    bool is_used;    /* the compiler has read from the stream, or changed its position */
    bool is_dropped; /* the stream reads from the descriptor */
    off_t position;  /* in the copy */
    char *path;
    char bytes[];
} file_stream;

/* The open streams, by their descriptors. A thread stores the stream with release, after the copy,
 * and clears it with release before it closes the descriptor. All threads load the stream with
 * acquire before they access the copy. This is safe, because a thread must not use a descriptor
 * while a different thread closes it. */
static struct {
    _Atomic(const FILE *) stream; /* NULL: none */
    file_stream *copy;
} streams[DESCRIPTORS_MAX];

/* ---- the functions of a stream ---- */

static ssize_t read_copy(void *cookie, char *bytes, size_t size)
{
    file_stream *s = cookie;
    s->is_used = true;
    if (s->is_dropped) {
        return read(s->descriptor, bytes, size);
    }
    const off_t left = s->position < s->facts.st_size ? s->facts.st_size - s->position : 0;
    const size_t count = (off_t)size < left ? size : (size_t)left;
    memcpy(bytes, s->bytes + s->position * (count > 0), count);
    s->position += (off_t)count;
    return (ssize_t)count;
}

static int seek_copy(void *cookie, off64_t *position, int from)
{
    file_stream *s = cookie;
    s->is_used = true;
    if (s->is_dropped) {
        const off_t now = lseek(s->descriptor, *position, from);
        *position = now >= 0 ? now : *position;
        return now >= 0 ? 0 : -1;
    }
    const off_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? s->position : s->facts.st_size;
    off_t sum;
    if (__builtin_add_overflow(base, *position, &sum) || sum < 0) {
        errno = EINVAL;
        return -1;
    }
    s->position = *position = sum;
    return 0;
}

static void free_copy(file_stream *s)
{
    if (s) {
        free(s->path);
        free(s);
    }
}

static int close_copy(void *cookie)
{
    file_stream *s = cookie;
    atomic_store_explicit(&streams[s->descriptor].stream, NULL, memory_order_release);
    const int result = close(s->descriptor);
    free_copy(s);
    return result;
}

/* ---- opening ---- */

/* Reads a whole file without changing the offset of its descriptor. Returns NULL if it cannot be
 * read, or does not have the size that fstat reported. Tries to read one byte more, to notice if
 * the file has grown. */
static file_stream *read_file(int descriptor, const char *path, const struct stat *facts)
{
    const off_t size = facts->st_size;
    file_stream *s = malloc(sizeof *s + (size_t)size + 1);
    if (!s) {
        return NULL;
    }
    *s = (file_stream){.descriptor = descriptor, .facts = *facts, .path = strdup(path)};
    off_t count = 0;
    ssize_t more = 0;
    do {
        more = pread(descriptor, s->bytes + count, (size_t)(size + 1 - count), count);
        count += more > 0 ? more : 0;
    } while ((more > 0 && count < size) || (more < 0 && errno == EINTR));
    if (!s->path || more < 0 || count != size) {
        free_copy(s);
        return NULL;
    }
    return s;
}

FILE *kilni_file_stream_open(int descriptor, const char *path, const char *mode,
                             const struct stat *facts, const void **ret_bytes)
{
    const cookie_io_functions_t functions = {
        .read = read_copy, .seek = seek_copy, .close = close_copy};
    if (descriptor >= DESCRIPTORS_MAX || facts->st_size > COPY_BYTES_MAX ||
        atomic_load_explicit(&streams[descriptor].stream, memory_order_acquire)) {
        return NULL;
    }
    file_stream *s = read_file(descriptor, path, facts);
    FILE *stream = s ? fopencookie(s, mode, functions) : NULL;
    if (!stream) {
        free_copy(s);
        return NULL;
    }
    /* Compilers read with getc. The C library would take the lock of such a stream for each
     * character, even in a process with one thread. */
    __fsetlocking(stream, FSETLOCKING_BYCALLER);
    streams[descriptor].copy = s;
    atomic_store_explicit(&streams[descriptor].stream, stream, memory_order_release);
    *ret_bytes = s->bytes;
    return stream;
}

/* ---- descriptors ---- */

int kilni_file_stream_descriptor(const FILE *stream)
{
    int descriptor = 0;
    while (descriptor < DESCRIPTORS_MAX &&
           atomic_load_explicit(&streams[descriptor].stream, memory_order_acquire) != stream) {
        descriptor++;
    }
    return descriptor < DESCRIPTORS_MAX ? descriptor : -1;
}

/* Returns NULL if there is no such stream. */
static file_stream *find(int descriptor)
{
    const bool is_open =
        descriptor >= 0 && descriptor < DESCRIPTORS_MAX &&
        atomic_load_explicit(&streams[descriptor].stream, memory_order_acquire) != NULL;
    return is_open ? streams[descriptor].copy : NULL;
}

const char *kilni_file_stream_path(int descriptor)
{
    const file_stream *s = find(descriptor);
    return s ? s->path : NULL;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool kilni_file_stream_is_same(int descriptor, const struct stat *now)
{
    const file_stream *s = find(descriptor);
    return !s ||
           (s->facts.st_dev == now->st_dev && s->facts.st_ino == now->st_ino &&
            s->facts.st_size == now->st_size && is_same_time(s->facts.st_mtim, now->st_mtim) &&
            is_same_time(s->facts.st_ctim, now->st_ctim));
}

bool kilni_file_stream_drop_copy(int descriptor)
{
    file_stream *s = find(descriptor);
    if (!s) {
        return true;
    }
    if (!s->is_dropped) {
        const int error = errno;
        lseek(descriptor, s->position, SEEK_SET);
        errno = error;
        s->is_dropped = true;
    }
    return !s->is_used;
}
