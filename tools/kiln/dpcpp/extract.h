/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies a part of a file out of a cache.
 */
#pragma once

#include "byte_source.h"

/* Writes the bytes to a file, which gets its name only when it is complete; "-" is stdout. Returns
 * EXIT_OK; after a failure, which it has reported, the exit code. */
int extract(const byte_source *source, uint64_t offset, uint64_t size, const char *path);
