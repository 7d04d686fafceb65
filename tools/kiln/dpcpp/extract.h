/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying a part of a file out of a cache.
 */
#pragma once

#include "byte_source.h"

/* Writes it to a file, which never stands for a part of the bytes; "-" is stdout. Returns EXIT_OK;
 * else the fault was named, and this is what to exit with. */
int extract(const byte_source *source, uint64_t offset, uint64_t size, const char *path);
