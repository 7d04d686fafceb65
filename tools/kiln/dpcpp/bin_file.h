/* SPDX-License-Identifier: Apache-2.0
 *
 * A .bin file: the number of binaries, then a u64 length and the bytes of each binary. Runtimes
 * since 2025 write only one binary. Older runtimes wrote a binary for each device. From such a
 * file, newer runtimes load the first binary.
 */
#pragma once

#include "byte_source.h"

typedef struct bin_file {
    uint64_t binary_count;
    uint64_t offset, size; /* of the first binary, in bytes */
} bin_file;

/* Returns NULL if the lengths add up to the file's size. Otherwise returns what is wrong with the
 * file. */
const char *bin_file_parse(const byte_source *source, bin_file *ret_bin);
