/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams for compilers that open files with fopen. A stream has a copy of the file's content, so
 * the caller of kilni_file_stream_open knows exactly what the compiler reads, and the compiler need
 * not read the file again.
 */
#pragma once

#include <stdio.h>
#include <sys/stat.h>

/* Opens a file for reading, as fopen does.
 *
 * @mode       one of fopen's modes for reading
 * @ret_facts  [out] of the file, if @ret_bytes is not NULL
 * @ret_bytes  [out] the stream's content, as many bytes as ret_facts->st_size; valid until the
 * stream is closed. NULL: this is an ordinary stream of the C library, for example because the path
 * leads to a folder Returns NULL, with errno, if the file cannot be opened. Threads: any. Blocks:
 * on reading the file. */
FILE *kilni_file_stream_open(const char *path, const char *mode, struct stat *ret_facts,
                             const void **ret_bytes);

/* Returns the descriptor of the file of a stream with a copy, or -1 if @stream is any other stream.
 * Keeps errno. Threads: any. */
int kilni_file_stream_descriptor(const FILE *stream);

/* Returns the path of the stream with a copy whose descriptor this is, valid until the stream is
 * closed, or NULL if there is no such stream. Keeps errno. Threads: any. */
const char *kilni_file_stream_path(int descriptor);
