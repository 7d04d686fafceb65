/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/clock_words.h"

#include <string.h>

static const char *const words_of_time[KILNI_CLOCK_WORD_COUNT] = {"__DATE__", "__TIME__",
                                                                  "__TIMESTAMP__"};

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether a piece of one of the words can begin with a character. */
static bool is_in_words(char c)
{
    return c != '\0' && strchr("_ADEIMPST", c);
}

static bool begins_with(const char *at, const char *end, const char *word)
{
    const size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* Returns the text after a backslash and a newline, with blanks between them or not, or @at if
 * there is no such splice. Up to C++14 a trigraph may stand for the backslash. */
static const char *behind_splice(const char *at, const char *end)
{
    const bool is_trigraph = begins_with(at, end, "?\?/");
    if (!is_trigraph && !begins_with(at, end, "\\")) {
        return at;
    }
    const char *next = at + (is_trigraph ? 3 : 1);
    while (next < end && (*next == ' ' || *next == '\t' || *next == '\r')) {
        next++;
    }
    return next < end && *next == '\n' ? next + 1 : at;
}

static const char *behind_splices(const char *at, const char *end)
{
    if (at == end || (*at != '\\' && *at != '?')) {
        return at; /* the usual case, in megabytes of headers */
    }
    for (const char *next = behind_splice(at, end); next != at; next = behind_splice(at, end)) {
        at = next;
    }
    return at;
}

/* Notes a name that is one of the words or a piece of one. */
static void see_name(kilni_clock_words *words, const char *name, size_t length)
{
    for (size_t n = 0; n < KILNI_CLOCK_WORD_COUNT; n++) {
        words->found |= kilni_word_pieces_note(&words->pieces[n], words_of_time[n], name, length);
    }
}

/* Reads one name, across splices. A name longer than the words is not a piece of one. */
static const char *take_name(kilni_clock_words *words, const char *at, const char *end)
{
    char name[KILNI_WORD_PIECES_MAX];
    size_t length = 0;
    while (at < end && is_name_character(*at)) {
        if (length < sizeof name) {
            name[length] = *at;
        }
        length++;
        at = behind_splices(at + 1, end);
    }
    if (length <= sizeof name && is_in_words(name[0])) {
        see_name(words, name, length);
    }
    return at;
}

static void scan(kilni_clock_words *words, const void *text, size_t size)
{
    const char *at = text, *end = size > 0 ? at + size : at;
    while (at < end) {
        if (is_name_character(*at)) {
            at = take_name(words, at, end);
            continue;
        }
        const char *next = behind_splices(at + 1, end);
        const bool is_hash = *at == '#' && next < end && *next == '#';
        const bool is_digraph = *at == '%' && next < end && *next == ':';
        words->pastes |= is_hash || is_digraph || (*at == '?' && begins_with(at, end, "?\?="));
        at = next;
    }
}

void kilni_clock_words_add(kilni_clock_words *to, const kilni_clock_words *from)
{
    to->found |= from->found;
    to->pastes |= from->pastes;
    for (size_t n = 0; n < KILNI_CLOCK_WORD_COUNT; n++) {
        for (size_t b = 0; b < KILNI_WORD_PIECES_MAX; b++) {
            to->pieces[n].ends[b] |= from->pieces[n].ends[b];
        }
    }
}

/* Names of one letter do not count across texts. */
static void forget_letters(kilni_clock_words *words)
{
    for (size_t n = 0; n < KILNI_CLOCK_WORD_COUNT; n++) {
        for (size_t b = 0; words_of_time[n][b]; b++) {
            const uint32_t letter = words_of_time[n][b] == '_' ? 0 : UINT32_C(2) << b;
            words->pieces[n].ends[b] &= ~letter;
        }
    }
}

void kilni_clock_words_scan(kilni_clock_words *words, const void *text, size_t size)
{
    kilni_clock_words alone = {0};
    scan(&alone, text, size);
    alone.found = kilni_clock_words_found(&alone);
    forget_letters(&alone);
    kilni_clock_words_add(words, &alone);
}

bool kilni_clock_words_found(const kilni_clock_words *words)
{
    for (size_t n = 0; words->pastes && n < KILNI_CLOCK_WORD_COUNT; n++) {
        if (kilni_word_pieces_make(&words->pieces[n], words_of_time[n])) {
            return true;
        }
    }
    return words->found;
}
