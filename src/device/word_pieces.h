/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a word can be assembled, with the ## operator, from names in texts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the longest word. */
enum { KILNI_WORD_PIECES_MAX = 26 };

/* The pieces found of one word; a zeroed structure has none. Bit e of ends[b] is set if the
 * characters b to e of the word (without e) occurred as a name of their own. */
typedef struct kilni_word_pieces {
    uint32_t ends[KILNI_WORD_PIECES_MAX];
} kilni_word_pieces;

/* Notes every place in the word where a name is a piece of it. Returns whether it is the whole
 * word. */
bool kilni_word_pieces_note(kilni_word_pieces *pieces, const char *word, const char *name,
                            size_t length);

/* Whether two or more of the pieces make up the word. */
bool kilni_word_pieces_make(const kilni_word_pieces *pieces, const char *word);
