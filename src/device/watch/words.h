/* SPDX-License-Identifier: Apache-2.0
 *
 * Words by which a text reads a clock, a file or a place. They are looked for in all texts of a
 * compilation, comments, strings and branches that are not taken included, and so is what ## can
 * make of them. Names of one letter that are in files which the compiler read count for that only
 * with longer pieces in the same file: each large set of headers has all letters as names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/word_pieces.h"

enum { KILNI_WORDS_MAX = 28 };

/* Of any text: bits beyond those of words. */
#define KILNI_SEEN_PRAGMA_STRING (UINT32_C(1) << 28) /* a #pragma that has a string */
#define KILNI_SEEN_ASSEMBLY_FILE (UINT32_C(1) << 29) /* .incbin, .include, .macro or .irp */
/* A string that these may begin in, or be hidden in by numbered characters; or a dot that may
 * become such a string. */
#define KILNI_SEEN_OPEN_STRING (UINT32_C(1) << 30)
/* A carriage return without a newline behind it, in any list: some compilers see a newline in it,
 * or a part of a line splice. */
#define KILNI_SEEN_LONE_RETURN (UINT32_C(1) << 31)

/* What is looked for. Word n is bit n of a set. */
typedef struct kilni_word_list {
    const char *const *words;
    size_t count;
    size_t pasted_count; /* so many of them may also be made by ## */
    uint32_t of_pragmas; /* count in the line of a #pragma alone, and in all lines if there is */
    uint32_t pragma_operators; /* one of these */
    uint32_t also;             /* bits beyond the words that count */
} kilni_word_list;

/* Zeroed but for the list, it has seen nothing. */
typedef struct kilni_words {
    const kilni_word_list *list;
    uint32_t found;  /* in one text alone */
    uint32_t beside; /* words of pragmas in other lines */
    bool pastes;     /* there is a ## */
    kilni_word_pieces pieces[KILNI_WORDS_MAX];
} kilni_words;

/* Takes a whole text that was given to the compiler. */
void kilni_words_scan(kilni_words *words, const void *text, size_t size);

/* The same for a file that the compiler read. */
void kilni_words_scan_file(kilni_words *words, const void *text, size_t size);

/* Adds what several texts say, of the same list. */
void kilni_words_add(kilni_words *to, const kilni_words *from);

/* The words that are there, or can be put together by ## of what is there. */
uint32_t kilni_words_found(const kilni_words *words);

/* __DATE__, __TIME__ and __TIMESTAMP__: what a text that says them comes to is different every
 * time. */
extern const kilni_word_list kilni_clock_words;
