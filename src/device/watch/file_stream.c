/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/file_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger files become ordinary streams. */
#define COPY_BYTES_MAX ((off_t)64 << 20)

typedef struct file_stream {
    struct file_stream *next;
    FILE *stream;
    int descriptor; /* for compilers that ask the C library for it, to call fstat */
    off_t position;
    off_t size;
    char *path;
    char bytes[];
} file_stream;

/* Guards the list of open streams. Not held while files are read or closed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static file_stream *streams;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static pthread_once_t once_registered = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_forks(void)
{
    is_registered = pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

/* ---- the functions of a stream ---- */

static ssize_t read_copy(void *cookie, char *bytes, size_t size)
{
    file_stream *s = cookie;
    const off_t left = s->position < s->size ? s->size - s->position : 0;
    const size_t count = (off_t)size < left ? size : (size_t)left;
    memcpy(bytes, s->bytes + s->position * (count > 0), count);
    s->position += (off_t)count;
    return (ssize_t)count;
}

static int seek_copy(void *cookie, off64_t *position, int from)
{
    file_stream *s = cookie;
    const off_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? s->position : s->size;
    off_t sum;
    if (__builtin_add_overflow(base, *position, &sum) || sum < 0) {
        errno = EINVAL;
        return -1;
    }
    s->position = *position = sum;
    return 0;
}

static int close_copy(void *cookie)
{
    file_stream *s = cookie;
    pthread_mutex_lock(&lock);
    file_stream **link = &streams;
    while (*link && *link != s) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = s->next;
    }
    pthread_mutex_unlock(&lock);
    const int result = close(s->descriptor);
    free(s->path);
    free(s);
    return result;
}

/* ---- opening ---- */

/* Reads a whole file without changing the offset of its descriptor. Returns NULL if it cannot be
 * read, or does not have the size that fstat reported. Tries to read one byte more, to notice if
 * the file has grown. */
static file_stream *read_file(int descriptor, off_t size)
{
    file_stream *s = malloc(sizeof *s + (size_t)size + 1);
    if (!s) {
        return NULL;
    }
    *s = (file_stream){.descriptor = descriptor, .size = size};
    off_t count = 0;
    ssize_t more = 0;
    do {
        more = pread(descriptor, s->bytes + count, (size_t)(size + 1 - count), count);
        count += more > 0 ? more : 0;
    } while ((more > 0 && count < size) || (more < 0 && errno == EINTR));
    if (more < 0 || count != size) {
        free(s);
        return NULL;
    }
    return s;
}

/* Returns NULL if there is no memory for the stream. */
static FILE *make_stream(file_stream *s, const char *path, const char *mode)
{
    const cookie_io_functions_t functions = {
        .read = read_copy, .seek = seek_copy, .close = close_copy};
    s->path = strdup(path);
    s->stream = s->path ? fopencookie(s, mode, functions) : NULL;
    if (s->stream) {
        /* Compilers read with getc, and use a stream in one thread. The C library would take the
         * lock of such a stream for each character, even in a process with one thread. */
        __fsetlocking(s->stream, FSETLOCKING_BYCALLER);
        pthread_mutex_lock(&lock);
        s->next = streams;
        streams = s;
        pthread_mutex_unlock(&lock);
    }
    return s->stream;
}

/* Returns NULL if the descriptor's file cannot be copied. */
static file_stream *copy_file(int descriptor, const char *path, const char *mode,
                              struct stat *ret_facts)
{
    pthread_once(&once_registered, register_forks);
    if (!is_registered || fstat(descriptor, ret_facts) != 0 || !S_ISREG(ret_facts->st_mode) ||
        ret_facts->st_size > COPY_BYTES_MAX) {
        return NULL;
    }
    file_stream *s = read_file(descriptor, ret_facts->st_size);
    if (s && !make_stream(s, path, mode)) {
        free(s->path);
        free(s);
        s = NULL;
    }
    return s;
}

FILE *kilni_file_stream_open(const char *path, const char *mode, struct stat *ret_facts,
                             const void **ret_bytes)
{
    *ret_bytes = NULL;
    if (strchr(mode, ',')) { /* a character set follows, in which the C library decodes the file */
        return fopen(path, mode);
    }
    const int descriptor = open(path, O_RDONLY | (strchr(mode, 'e') ? O_CLOEXEC : 0));
    if (descriptor < 0) {
        return NULL;
    }
    const file_stream *s = copy_file(descriptor, path, mode, ret_facts);
    if (s) {
        *ret_bytes = s->bytes;
        return s->stream;
    }
    FILE *plain = fdopen(descriptor, mode);
    if (!plain) {
        const int error = errno;
        close(descriptor);
        errno = error;
    }
    return plain;
}

/* ---- descriptors ---- */

int kilni_file_stream_descriptor(const FILE *stream)
{
    int descriptor = -1;
    pthread_mutex_lock(&lock);
    for (const file_stream *s = streams; s && descriptor < 0; s = s->next) {
        descriptor = s->stream == stream ? s->descriptor : -1;
    }
    pthread_mutex_unlock(&lock);
    return descriptor;
}

const char *kilni_file_stream_path(int descriptor)
{
    const char *path = NULL;
    pthread_mutex_lock(&lock);
    for (const file_stream *s = streams; s && !path; s = s->next) {
        path = s->descriptor == descriptor ? s->path : NULL;
    }
    pthread_mutex_unlock(&lock);
    return path;
}
