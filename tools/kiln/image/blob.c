/* SPDX-License-Identifier: Apache-2.0 */
#include "blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

static const char algorithm[] = "sha256:";

char *blob_path(const char *layout, const char *digest)
{
    const size_t length = strlen(algorithm);
    if (strncmp(digest, algorithm, length) != 0 || strlen(digest) != BLOB_DIGEST_SIZE - 1 ||
        strspn(digest + length, "0123456789abcdef") != BLOB_DIGEST_SIZE - 1 - length) {
        return NULL;
    }
    return text_of("%s/blobs/sha256/%s", layout, digest + length);
}

int blob_begin(const char *layout, blob_writer *ret_writer)
{
    owned char *temporary = text_of("%s/.blob-%ld", layout, (long)getpid());
    FILE *stream = fopen(temporary, "wxe");
    if (stream == NULL) {
        complain("%s: %s", temporary, strerror(errno));
        return EXIT_IO;
    }
    *ret_writer = (blob_writer){.layout = layout, .stream = stream, .temporary = temporary};
    temporary = NULL;
    crypto_hash_sha256_init(&ret_writer->hash);
    return EXIT_OK;
}

void blob_add(blob_writer *writer, const void *data, size_t size)
{
    crypto_hash_sha256_update(&writer->hash, data, size);
    writer->size += size;
    fwrite(data, 1, size, writer->stream);
}

int blob_add_file(blob_writer *writer, FILE *file, const char *path, uint64_t size)
{
    unsigned char bytes[1 << 16];
    while (size > 0) {
        const size_t wanted = size < sizeof bytes ? (size_t)size : sizeof bytes;
        const size_t found = fread(bytes, 1, wanted, file);
        if (found == 0) {
            complain("%s: %s", path, ferror(file) ? strerror(errno) : "is shorter than expected");
            return EXIT_IO;
        }
        blob_add(writer, bytes, found);
        size -= found;
    }
    return EXIT_OK;
}

/* Sets the name of a blob whose bytes have all been added. */
static void name(blob_writer *writer, blob *ret_blob)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(&writer->hash, hash);
    char *to = ret_blob->digest + sprintf(ret_blob->digest, "%s", algorithm);
    for (size_t i = 0; i < sizeof hash; i++) {
        to += sprintf(to, "%02x", hash[i]);
    }
    ret_blob->size = writer->size;
}

int blob_end(blob_writer *writer, int exit_code, blob *ret_blob)
{
    owned char *temporary = writer->temporary;
    const int failed = ferror(writer->stream);
    if (fclose(writer->stream) != 0 || failed) {
        complain("%s: %s", temporary, strerror(errno));
        exit_code = EXIT_IO;
    }
    if (exit_code == EXIT_OK) {
        name(writer, ret_blob);
        owned char *path = blob_path(writer->layout, ret_blob->digest);
        if (rename(temporary, path) == 0) {
            return EXIT_OK;
        }
        complain("%s: %s", path, strerror(errno));
        exit_code = EXIT_IO;
    }
    unlink(temporary);
    return exit_code;
}
