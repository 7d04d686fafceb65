/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the search for includes on options, a source and headers that are only in memory. Bytes 0xFF
 * divide the input into options, source and headers. The first line of a header is its name. Each
 * input is used twice, and both results must be the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/key.h>

#include "device/opencl/inputs.h"
#include "os/os.h"

enum { MAX_HEADERS = 8, FIRST_FILE = 1000 };

typedef struct header {
    const char *name;
    size_t name_length;
    const char *bytes;
    size_t size;
    size_t at; /* how far the input has been read */
} header;

static header headers[MAX_HEADERS];
static size_t header_count;

/* ---- a file system with these headers ---- */

static int find_header(const char *path)
{
    for (size_t i = 0; i < header_count; i++) {
        size_t length = strlen(path);
        const header *h = &headers[i];
        if (length >= h->name_length && h->name_length > 0 &&
            memcmp(path + length - h->name_length, h->name, h->name_length) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int memory_stat(int index, struct stat *ret_stat)
{
    memset(ret_stat, 0, sizeof *ret_stat);
    ret_stat->st_dev = 1;
    ret_stat->st_ino = (ino_t)index + 2;
    ret_stat->st_mode = S_IFREG | 0600;
    ret_stat->st_size = (off_t)headers[index].size;
    return 0;
}

static int memory_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    (void)directory, (void)flags;
    size_t length = strlen(path);
    int index = find_header(path);
    if (index >= 0) {
        return memory_stat(index, ret_stat);
    }
    if (length > 0 && (path[length - 1] == '/' || strcmp(path, ".") == 0)) {
        memset(ret_stat, 0, sizeof *ret_stat);
        ret_stat->st_dev = 2;
        ret_stat->st_ino = length % 3; /* only a few, so that the search ends soon */
        ret_stat->st_mode = S_IFDIR | 0700;
        return 0;
    }
    errno = ENOENT;
    return -1;
}

static int memory_openat(int directory, const char *path, int flags, mode_t mode)
{
    (void)directory, (void)flags, (void)mode;
    int index = find_header(path);
    if (index < 0) {
        errno = ENOENT;
        return -1;
    }
    headers[index].at = 0;
    return FIRST_FILE + index;
}

static int memory_fstat(int file, struct stat *ret_stat)
{
    return memory_stat(file - FIRST_FILE, ret_stat);
}

static ssize_t memory_read(int file, void *buffer, size_t size)
{
    header *h = &headers[file - FIRST_FILE];
    size_t count = h->size - h->at < size ? h->size - h->at : size;
    if (count > 0) {
        memcpy(buffer, h->bytes + h->at, count);
    }
    h->at += count;
    return (ssize_t)count;
}

static int memory_close(int file)
{
    (void)file;
    return 0;
}

static void use_memory(void)
{
    static kilni_os_table table;
    if (table.openat) {
        return;
    }
    table = *kilni_os_system();
    table.fstatat = memory_fstatat;
    table.openat = memory_openat;
    table.fstat = memory_fstat;
    table.read = memory_read;
    table.close = memory_close;
    kilni_os_replace(&table);
}

/* ---- one input ---- */

/* Cuts off the next piece. */
static const char *next_piece(const char **at, const char *end, size_t *ret_size)
{
    const char *start = *at;
    const char *cut = start < end ? memchr(start, 0xFF, (size_t)(end - start)) : NULL;
    *ret_size = (size_t)((cut ? cut : end) - start);
    *at = cut ? cut + 1 : end;
    return start;
}

static void take_headers(const char *at, const char *end)
{
    header_count = 0;
    while (at < end && header_count < MAX_HEADERS) {
        size_t size;
        const char *piece = next_piece(&at, end, &size);
        const char *newline = size > 0 ? memchr(piece, '\n', size) : NULL;
        size_t length = newline ? (size_t)(newline - piece) : size;
        headers[header_count++] = (header){.name = piece,
                                           .name_length = length,
                                           .bytes = newline ? newline + 1 : piece + size,
                                           .size = newline ? size - length - 1 : 0};
    }
}

static kiln_status digest_inputs(const kiln_program_source *source, kiln_digest *ret_digest)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_key_builder *builder;
    if (kiln_key_builder_new(&builder) != KILN_OK) {
        abort();
    }
    kiln_status status = kilni_opencl_add_inputs(source, builder, &error);
    if (status == KILN_OK) {
        kiln_key *key;
        if (kiln_key_builder_finish(builder, &key) != KILN_OK) {
            abort();
        }
        *ret_digest = kiln_key_digest(key);
        kiln_key_release(&key);
    } else if (status != KILN_E_UNSUPPORTED || strlen(error.text) == 0) {
        abort();
    }
    kiln_key_builder_free(&builder);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    size_t options_size, code_size;
    const char *options = next_piece(&at, end, &options_size);
    const char *code = next_piece(&at, end, &code_size);
    char *text = strndup(options, options_size);
    use_memory();
    take_headers(at, end);
    kiln_program_source source = {.struct_size = sizeof source,
                                  .form = KILN_SOURCE_TEXT,
                                  .code = {.data = code, .size = code_size},
                                  .options = text};
    kiln_digest one = {{0}}, two = {{0}};
    if (digest_inputs(&source, &one) != digest_inputs(&source, &two) ||
        memcmp(&one, &two, sizeof one) != 0) {
        abort();
    }
    (void)kilni_opencl_inputs_include_files(&source);
    free(text);
    return 0;
}
