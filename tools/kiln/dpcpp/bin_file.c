/* SPDX-License-Identifier: Apache-2.0 */
#include "bin_file.h"

/* No machine has this many devices. Without a limit, a sparse file could keep the loop busy for
 * days. */
#define MAX_BINARIES 4096

const char *bin_file_parse(const byte_source *source, bin_file *ret_bin)
{
    bin_file bin = {0};
    uint64_t offset = sizeof(uint64_t);
    if (!byte_source_number(source, 0, &bin.binary_count)) {
        return "is truncated";
    }
    if (bin.binary_count == 0 || bin.binary_count > MAX_BINARIES) {
        return "contains an impossible number of binaries";
    }
    for (uint64_t i = 0; i < bin.binary_count; i++) {
        uint64_t size;
        if (!byte_source_number(source, offset, &size)) {
            return "is truncated";
        }
        offset += sizeof size;
        if (size > source->size - offset) {
            return "is shorter than its lengths say";
        }
        if (size == 0) {
            return "contains an empty binary";
        }
        if (i == 0) {
            bin.offset = offset;
            bin.size = size;
        }
        offset += size;
    }
    if (offset != source->size) {
        return "is longer than its lengths say";
    }
    *ret_bin = bin;
    return NULL;
}
