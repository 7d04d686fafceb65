/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches texts for words with which a text can obtain a time, read a file, or obtain a file's
 * path. All texts of a compilation are searched, including comments, strings and branches that are
 * not taken. A word also counts as found if ## can assemble it from names in the texts. A
 * one-letter name in a file that the compiler read counts as a piece of a word only if the file
 * also contains a longer piece of that word. The reason is that any large set of headers contains
 * every letter as a name.
 *
 * A word that is the beginning of longer names ends with '_', and the rest of such a name has no
 * '_'. It counts as found if a name begins with it, or if its pieces occur, even without ##, since
 * compilers also join strings that are beside each other. A one-letter name in a file that the
 * compiler read does not count as a piece of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/pasted_names.h"

enum { KILNI_WORDS_MAX = 29 };

/* Bits of a set, in addition to those of the words. Each stands for a property that any text can
 * have. */
/* A # that may be the operator that makes strings, with which a lone dot can become a part of an
 * assembler's directive. */
#define KILNI_SEEN_STRING_OPERATOR (UINT64_C(1) << 57)
#define KILNI_SEEN_LONE_DOT (UINT64_C(1) << 58)
#define KILNI_SEEN_ESCAPE (UINT64_C(1) << 59) /* an escape sequence that can stand for a letter */
#define KILNI_SEEN_PRAGMA_STRING (UINT64_C(1) << 60) /* a #pragma that has a string */
#define KILNI_SEEN_ASSEMBLY_FILE (UINT64_C(1) << 61) /* .incbin, .include, .macro or .irp */
/* A string that might contain the beginning of one of these directives, or one of them in escape
 * sequences. */
#define KILNI_SEEN_OPEN_STRING (UINT64_C(1) << 62)
/* A carriage return without a newline after it: some compilers treat it as a newline, or as a part
 * of a line splice. This bit applies to every list of words. */
#define KILNI_SEEN_LONE_RETURN (UINT64_C(1) << 63)

/* The words to search for. Word n is bit n of a set. */
typedef struct kilni_word_list {
    const char *const *words;
    size_t count;
    size_t pasted_count; /* ## can assemble only the first pasted_count of the words */
    uint64_t of_pragmas; /* words that count only in a #pragma line, unless the texts contain a word
                            of pragma_operators */
    uint64_t pragma_operators; /* words that let macros make a #pragma */
    uint64_t beginnings;       /* the beginnings of longer names; see above */
    uint64_t also;             /* additional bits that count */
} kilni_word_list;

/* The words that were found. All members except the list begin as zero. */
typedef struct kilni_words {
    const kilni_word_list *list;
    uint64_t found;  /* words that one of the texts contains, whole or in pieces that ## can join */
    uint64_t beside; /* words of pragmas, in lines of any kind */
    bool pastes;     /* a text contains ## */
    kilni_pasted_names pieces[KILNI_WORDS_MAX];
} kilni_words;

/* Scans a whole text that was passed to the compiler. */
void kilni_words_scan(kilni_words *words, const void *text, size_t size);

/* Scans a file that the compiler read. */
void kilni_words_scan_file(kilni_words *words, const void *text, size_t size);

/* Adds the words of other texts to those in @to. Both must have the same list. */
void kilni_words_add(kilni_words *to, const kilni_words *from);

/* Returns the set of words that occur, or that ## can assemble from names that occur. */
uint64_t kilni_words_found(const kilni_words *words);

/* The words __DATE__, __TIME__ and __TIMESTAMP__. If a text contains one of them, each compilation
 * of the text has a different result. */
extern const kilni_word_list kilni_clock_words;

/* Returns a static text that says why the result of texts with clock words cannot be kept, or NULL
 * if it can. */
const char *kilni_clock_words_refusal(const kilni_words *words);

/* The reason for refusing texts with KILNI_SEEN_LONE_RETURN. */
#define KILNI_LONE_RETURN_REFUSAL "a carriage return without a newline"
