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
#include <stdint.h>

enum { KILNI_CLOCK_WORD_COUNT = 3, KILNI_CLOCK_WORD_MAX = 13 };

/* Zeroed, it has seen nothing. */
typedef struct kilni_clock_words {
    bool found;  /* in one text alone */
    bool pastes; /* there is a ## */
    /* Bit e of pieces[n][b]: the characters b to e of word n stood alone as a name. */
    uint16_t pieces[KILNI_CLOCK_WORD_COUNT][KILNI_CLOCK_WORD_MAX];
} kilni_clock_words;

/* Takes a whole text. */
void kilni_clock_words_see(kilni_clock_words *words, const void *text, size_t size);

/* Whether one of them is there, or can be put together by ## of what is there. */
bool kilni_clock_words_tell_time(const kilni_clock_words *words);
