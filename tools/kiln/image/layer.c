/* SPDX-License-Identifier: Apache-2.0
 *
 * The archive is in the format ustar, and is not compressed, because the entries of a pack are. So
 * its digest depends only on the pack, and not on the version of a compressor.
 */
#include "layer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

#define BLOCK_SIZE 512u
#define MAX_SIZE ((1ull << 33) - 1) /* 11 octal digits */

typedef struct header {
    char name[100];
    char mode[8], user[8], group[8];
    char size[12], modified[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6], version[2];
    char rest[247];
} header;
_Static_assert(sizeof(header) == BLOCK_SIZE, "a header is a block");

static const char zeros[BLOCK_SIZE * 2];

/* Returns the number of bytes that fill the last block of a file. */
static size_t padding_of(uint64_t size)
{
    return (size_t)(-size % BLOCK_SIZE);
}

static header header_of(const char *name, uint64_t size)
{
    header made = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    snprintf(made.name, sizeof made.name, "%s", name);
    memcpy(made.mode, "0000644", 8);
    memcpy(made.user, "0000000", 8);
    memcpy(made.group, "0000000", 8);
    snprintf(made.size, sizeof made.size, "%011" PRIo64, size);
    memcpy(made.modified, "00000000000", 12);
    memset(made.checksum, ' ', sizeof made.checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof made; i++) {
        sum += ((const unsigned char *)&made)[i];
    }
    snprintf(made.checksum, sizeof made.checksum, "%06o", sum);
    return made;
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        complain("%s: %s", path, strerror(errno));
    }
    return file;
}

static int add_pack(blob_writer *writer, FILE *file, const char *path, const char *name)
{
    struct stat stat;
    if (fstat(fileno(file), &stat) != 0 || (uint64_t)stat.st_size > MAX_SIZE) {
        complain("%s: the pack is too large for an image", path);
        return EXIT_IO;
    }
    const header first = header_of(name, (uint64_t)stat.st_size);
    blob_add(writer, &first, sizeof first);
    const int exit_code = blob_add_file(writer, file, path, (uint64_t)stat.st_size);
    blob_add(writer, zeros, padding_of((uint64_t)stat.st_size));
    blob_add(writer, zeros, sizeof zeros);
    return exit_code;
}

int layer_write(const char *layout, const char *pack, const char *name, blob *ret_blob)
{
    FILE *file = open_file(pack, "re");
    if (file == NULL) {
        return EXIT_IO;
    }
    blob_writer writer;
    int exit_code = blob_begin(layout, &writer);
    if (exit_code == EXIT_OK) {
        exit_code = blob_end(&writer, add_pack(&writer, file, pack, name), ret_blob);
    }
    fclose(file);
    return exit_code;
}

/* Reads the header of a layer's only file. Returns false unless layer_write has written it. */
static bool read_header(FILE *file, uint64_t *ret_size)
{
    header found;
    uint64_t size;
    struct stat stat;
    if (fread(&found, sizeof found, 1, file) != 1 || found.name[sizeof found.name - 1] != '\0' ||
        found.size[sizeof found.size - 1] != '\0' || sscanf(found.size, "%11" SCNo64, &size) != 1) {
        return false;
    }
    const header expected = header_of(found.name, size);
    *ret_size = size;
    return memcmp(&found, &expected, sizeof found) == 0 && fstat(fileno(file), &stat) == 0 &&
           (uint64_t)stat.st_size == sizeof found + size + padding_of(size) + sizeof zeros;
}

static int copy_part(FILE *file, const char *path, uint64_t size, FILE *into)
{
    unsigned char bytes[1 << 16];
    while (size > 0) {
        const size_t wanted = size < sizeof bytes ? (size_t)size : sizeof bytes;
        const size_t found = fread(bytes, 1, wanted, file);
        if (found == 0 || fwrite(bytes, 1, found, into) != found) {
            complain("%s: %s", path, strerror(errno));
            return EXIT_IO;
        }
        size -= found;
    }
    return EXIT_OK;
}

/* Writes the pack of a layer to a file. */
static int extract(FILE *file, const char *path, const char *pack)
{
    uint64_t size;
    if (!read_header(file, &size)) {
        complain("%s is not a layer that kiln pack has written, or was compressed", path);
        return EXIT_IO;
    }
    FILE *into = open_file(pack, "wxe");
    if (into == NULL) {
        return EXIT_IO;
    }
    const int exit_code = copy_part(file, path, size, into);
    if (fclose(into) != 0 && exit_code == EXIT_OK) {
        complain("%s: %s", pack, strerror(errno));
        return EXIT_IO;
    }
    return exit_code;
}

static int copy(FILE *file, const char *path, const char *into, blob *ret_blob)
{
    struct stat stat;
    blob_writer writer;
    if (fstat(fileno(file), &stat) != 0) {
        complain("%s: %s", path, strerror(errno));
        return EXIT_IO;
    }
    rewind(file);
    const int exit_code = blob_begin(into, &writer);
    return exit_code != EXIT_OK
               ? exit_code
               : blob_end(&writer, blob_add_file(&writer, file, path, (uint64_t)stat.st_size),
                          ret_blob);
}

int layer_copy(const char *from, const char *digest, const char *into, const char *pack,
               blob *ret_blob)
{
    owned char *path = blob_path(from, digest);
    FILE *file = path == NULL ? NULL : open_file(path, "re");
    if (file == NULL) {
        return EXIT_IO;
    }
    int exit_code = extract(file, path, pack);
    if (exit_code == EXIT_OK) {
        exit_code = copy(file, path, into, ret_blob);
    }
    fclose(file);
    if (exit_code == EXIT_OK && strcmp(ret_blob->digest, digest) != 0) {
        complain("%s is damaged", path);
        owned char *copied = blob_path(into, ret_blob->digest);
        unlink(copied);
        return EXIT_DAMAGED;
    }
    return exit_code;
}
