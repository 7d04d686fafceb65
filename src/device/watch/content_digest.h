/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest of a file's content. Each program of a process reads the same headers, and their times
 * do not show reliably whether they have changed. So they are read each time, but BLAKE2b, which
 * takes most of that time, is computed once for each content.
 */
#pragma once

#include <stddef.h>

#include "device/watch/path_lookup.h"

/* Returns the BLAKE2b-256 of a content, which may be remembered. Threads: any. Blocks: never. */
void kilni_content_digest(const void *bytes, size_t size,
                          unsigned char ret_digest[KILNI_FILE_DIGEST_BYTES]);
