/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefixes of digests, as users name entries.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/key.h>

/* The first digits of a digest, in lower case. */
typedef struct digest_prefix {
    char text[KILN_DIGEST_TEXT_SIZE];
    size_t length;
} digest_prefix;

#define DIGEST_PREFIX_MIN 4

/* Reads DIGEST_PREFIX_MIN to 32 hexadecimal digits. For anything else, prints a message and ends
 * the tool with EXIT_USAGE. */
digest_prefix digest_prefix_parse(const char *text);

/* Returns whether a prefix is a whole digest. */
bool digest_prefix_is_whole(const digest_prefix *prefix);

bool digest_prefix_matches(const digest_prefix *prefix, const char *digest);
