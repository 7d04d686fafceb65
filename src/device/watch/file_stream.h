/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams for compilers that open files with fopen. A stream has a copy of the file's content, so
 * the caller of kilni_file_stream_open knows exactly what the compiler reads, and the compiler need
 * not read the file again. The stream keeps the file's descriptor, for compilers that ask for it.
 *
 * The C library's functions for wide characters, and freopen, crash with such a stream. The C
 * library's fileno does not know its descriptor. So a compiler that gets such a stream must call
 * the replacements in intercepted_calls.h. The functions below take no locks. All but
 * kilni_file_stream_open keep errno.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

/* Makes a stream with a copy of a file. Only one thread may use the stream: the C library does not
 * lock it.
 *
 * @descriptor  of a regular file, at its beginning; on success, closed together with the stream
 * @path        of the file
 * @mode        one of fopen's modes for reading
 * @facts       what fstat reported
 * @ret_bytes   [out] the stream's content, as many bytes as @facts->st_size; valid until the stream
 *              is closed
 * Returns NULL if the file cannot be copied: it is larger than 64 MiB, cannot be read, or has
 * changed its size; @descriptor is too large or has such a stream already; or memory runs out.
 * Threads: any. Blocks: on reading the file. */
FILE *kilni_file_stream_open(int descriptor, const char *path, const char *mode,
                             const struct stat *facts, const void **ret_bytes);

/* Returns the descriptor of the file of a stream with a copy, or -1 if @stream is any other stream.
 * Threads: any. */
int kilni_file_stream_descriptor(const FILE *stream);

/* Returns the path of the stream with a copy whose descriptor this is, valid until the stream is
 * closed, or NULL if there is no such stream. Threads: any. */
const char *kilni_file_stream_path(int descriptor);

/* Returns true if @now, a result of fstat for the descriptor of a stream with a copy, describes the
 * file that was copied. Threads: any. */
bool kilni_file_stream_is_same(int descriptor, const struct stat *now);

/* Call this before the compiler uses the offset of the descriptor of a stream with a copy. From now
 * on, the stream reads from the descriptor, as an ordinary stream does.
 *
 * Returns false if the compiler has already read from the stream. The offset is then not what it
 * would be with an ordinary stream. Threads: only the one that uses the stream. */
bool kilni_file_stream_drop_copy(int descriptor);
