/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a .bin file and as a .src file of the SYCL runtime's cache, and as a name in
 * it. The parsed parts must add up to the input. Hashing in pieces must give the hash of the whole.
 * A name that parses must equal the name made from its parts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/kiln/dpcpp/bin_file.h"
#include "../tools/kiln/dpcpp/names.h"
#include "../tools/kiln/dpcpp/src_file.h"
#include "../tools/kiln/dpcpp/std_hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* Copies to a buffer, so that a sanitizer detects reads outside the input. */
static bool read_memory(void *user, uint64_t offset, void *buffer, size_t size)
{
    memcpy(buffer, (const uint8_t *)user + offset, size);
    return true;
}

static void parse_bin(const byte_source *source)
{
    bin_file bin;
    if (bin_file_parse(source, &bin) == NULL) {
        require(bin.binary_count > 0 && bin.size > 0 && bin.offset == 16);
        require(bin.size <= source->size - bin.offset);
        require(bin.binary_count > 1 || bin.offset + bin.size == source->size);
    }
}

static void parse_src(const byte_source *source, const uint8_t *data)
{
    src_file src;
    if (src_file_parse(source, &src) != NULL) {
        return;
    }
    require(src_file_hash(source, &src));
    uint64_t end = 0;
    for (int i = 0; i < SRC_RECORDS; i++) {
        const src_record *record = &src.records[i];
        require(record->offset == end + sizeof(uint64_t));
        end = record->offset + record->size;
        require(end <= source->size);
        require(record->hash == std_hash_of(data + record->offset, (size_t)record->size));
    }
    require(end == source->size);
}

static void parse_name(const uint8_t *data, size_t size)
{
    char *name = strndup((const char *)data, size);
    uint64_t number;
    slot_file file;
    char again[SLOT_NAME_SIZE];
    require(name != NULL);
    if (slot_name_parse(name, &number, &file)) {
        slot_name_format(number, file, again);
        require(strcmp(name, again) == 0);
    }
    require(!is_ir_directory_name(name) || strchr(name, '/') == NULL);
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    byte_source source = {.size = size, .read = read_memory, .user = bytes};
    parse_bin(&source);
    parse_src(&source, bytes);
    parse_name(bytes, size);
    free(bytes);
    return 0;
}
