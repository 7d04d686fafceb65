/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a word can be put together by ## of what stands in texts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters of the longest word. */
enum { KILNI_WORD_PIECES_MAX = 20 };

/* Of one word; zeroed, nothing was seen. Bit e of ends[b]: the characters b to e of the word stood
 * alone as a name. */
typedef struct kilni_word_pieces {
    uint32_t ends[KILNI_WORD_PIECES_MAX];
} kilni_word_pieces;

/* Notes where a name is a piece of the word. Returns whether it is the whole word. */
bool kilni_word_pieces_see(kilni_word_pieces *pieces, const char *word, const char *name,
                           size_t length);

/* Whether two or more of the pieces make the word. */
bool kilni_word_pieces_make(const kilni_word_pieces *pieces, const char *word);
