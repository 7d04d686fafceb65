/* SPDX-License-Identifier: Apache-2.0
 *
 * __DATE__, __TIME__ and __TIMESTAMP__: what a text that says them comes to is different every
 * time. They are looked for in all texts of a compilation, comments and branches that are not taken
 * included, and so is what ## can make them of. Across texts, names of one letter don't count for
 * that: each large set of headers has all letters as names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device/word_pieces.h"

enum { KILNI_CLOCK_WORD_COUNT = 3 };

/* Zeroed, it has seen nothing. */
typedef struct kilni_clock_words {
    bool found;  /* in one text alone */
    bool pastes; /* there is a ## */
    kilni_word_pieces pieces[KILNI_CLOCK_WORD_COUNT];
} kilni_clock_words;

/* Takes a whole text. */
void kilni_clock_words_see(kilni_clock_words *words, const void *text, size_t size);

/* Adds what several texts say. */
void kilni_clock_words_add(kilni_clock_words *to, const kilni_clock_words *from);

/* Whether one of them is there, or can be put together by ## of what is there. */
bool kilni_clock_words_tell_time(const kilni_clock_words *words);
