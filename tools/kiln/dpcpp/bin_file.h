/* SPDX-License-Identifier: Apache-2.0
 *
 * A .bin file: the number of binaries, then a u64 length and the bytes of each binary. Runtimes
 * since 2025 write one binary. Older runtimes wrote one for each device; newer runtimes load the
 * first of these.
 */
#pragma once

#include "byte_source.h"

typedef struct bin_file {
    uint64_t binary_count;
    uint64_t offset, size; /* of the first binary */
} bin_file;

/* Returns NULL if the lengths add up to the file's size; otherwise what is wrong with the file. */
const char *bin_file_parse(const byte_source *source, bin_file *ret_bin);
