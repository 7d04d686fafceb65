/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out whether the ## operator can assemble a word from names in texts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the longest word. */
enum { KILNI_PASTED_NAMES_MAX = 26 };

/* The pieces of one word that were found. A zeroed structure has no pieces. Bit e of ends[b] is set
 * if the characters of the word from index b up to index e, excluding e, occurred as a separate
 * name. */
typedef struct kilni_pasted_names {
    uint32_t ends[KILNI_PASTED_NAMES_MAX];
} kilni_pasted_names;

/* Records every position at which the name occurs within the word. Returns true if the name is the
 * whole word. */
bool kilni_pasted_names_note(kilni_pasted_names *pieces, const char *word, const char *name,
                             size_t length);

/* Returns true if two or more of the pieces together make up the word. */
bool kilni_pasted_names_make(const kilni_pasted_names *pieces, const char *word);
