/* SPDX-License-Identifier: Apache-2.0
 *
 * __DATE__, __TIME__ and __TIMESTAMP__: a text that uses them has a different meaning every time.
 * All texts of a compilation are searched for these words, comments and untaken branches included,
 * and for pieces from which ## can make them. Across texts, names of one letter do not count as
 * pieces, since every large set of headers uses all letters as names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device/word_pieces.h"

enum { KILNI_CLOCK_WORD_COUNT = 3 };

/* A zeroed structure has seen no text. */
typedef struct kilni_clock_words {
    bool found;  /* one text has a word, or can make one on its own */
    bool pastes; /* a text has a ## */
    kilni_word_pieces pieces[KILNI_CLOCK_WORD_COUNT];
} kilni_clock_words;

/* Searches a whole text. */
void kilni_clock_words_scan(kilni_clock_words *words, const void *text, size_t size);

/* Adds what was found in other texts. */
void kilni_clock_words_add(kilni_clock_words *to, const kilni_clock_words *from);

/* Whether one of the words was found, or ## can make one from the pieces that were found. */
bool kilni_clock_words_found(const kilni_clock_words *words);
