/* SPDX-License-Identifier: Apache-2.0
 *
 * Blobs of an OCI image layout: files that are named after their SHA-256. Functions that fail
 * report the error, and return an exit code.
 */
#pragma once

#include <sodium/crypto_hash_sha256.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BLOB_DIGEST_SIZE 72u /* of "sha256:", 64 digits and a zero byte */

typedef struct blob {
    char digest[BLOB_DIGEST_SIZE];
    uint64_t size;
} blob;

typedef struct blob_writer {
    const char *layout; /* the folder of the layout */
    char *temporary;
    FILE *stream;
    crypto_hash_sha256_state hash;
    uint64_t size;
} blob_writer;

/* Returns the path of a blob, which the caller frees. NULL if @digest is not the text of a SHA-256.
 * Nothing else can become a part of the path. */
char *blob_path(const char *layout, const char *digest);

/* Begins a blob. The caller passes the writer to blob_end. */
int blob_begin(const char *layout, blob_writer *ret_writer);

/* Appends bytes. blob_end reports errors. */
void blob_add(blob_writer *writer, const void *data, size_t size);

/* Appends @size bytes of a file. Returns EXIT_OK; EXIT_IO, if the file cannot be read or ends
 * earlier. */
int blob_add_file(blob_writer *writer, FILE *file, const char *path, uint64_t size);

/* Ends a blob and gives it its name. If @exit_code is not EXIT_OK, removes it instead and returns
 * @exit_code. */
int blob_end(blob_writer *writer, int exit_code, blob *ret_blob);
