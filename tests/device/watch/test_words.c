/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests device/watch/words.h: words in capital letters are found in the same way in blocks as one
 * character after the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "device/watch/words.h"

enum { TEXTS = 40000, PARTS_MAX = 250, TEXT_BYTES = 1 << 14 };

static const char *const parts[] = {"_",
                                    "D",
                                    "A",
                                    "T",
                                    "E",
                                    "M",
                                    "I",
                                    "DATE",
                                    "TIME",
                                    "MP",
                                    "STAMP",
                                    "__",
                                    "#",
                                    "##",
                                    "%:",
                                    "?",
                                    "\\",
                                    "?\?/",
                                    "?\?=",
                                    "\\\\",
                                    "\n",
                                    "\r",
                                    "\r\n",
                                    " ",
                                    "\t",
                                    "a",
                                    "0",
                                    "//",
                                    "/*",
                                    "*/",
                                    "\"",
                                    ".",
                                    "\\\n",
                                    "\\ \n",
                                    "?\?/\n",
                                    "\\\r\n",
                                    "x9",
                                    "name",
                                    "                ",
                                    "",
                                    "__DATE__",
                                    "__TIME__",
                                    "__TIMESTAMP__",
                                    "a_long_name_of_small_letters",
                                    "A_LONG_NAME_OF_CAPITAL_LETTERS"};

static size_t at_random(size_t count)
{
    return (size_t)random() % count;
}

/* Fills a text with some of the parts; an empty one stands for any character. */
static size_t make_text(char *text)
{
    const size_t part_count = sizeof parts / sizeof *parts;
    const size_t count = at_random(PARTS_MAX), first = at_random(part_count),
                 kinds = 1 + at_random(part_count);
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const char *part = parts[(first + at_random(kinds)) % part_count];
        const size_t length = strlen(part);
        memcpy(text + size, part, length);
        text[size + length] = (char)at_random(256);
        size += length > 0 ? length : 1;
    }
    return size;
}

static void assert_same(const char *text, size_t size,
                        void (*scan)(kilni_words *words, const void *text, size_t size))
{
    /* A list with additional bits is not searched in blocks. */
    kilni_word_list slow_list = kilni_clock_words;
    slow_list.also = KILNI_SEEN_ESCAPE;
    kilni_words fast = {.list = &kilni_clock_words}, slow = {.list = &slow_list};
    /* A copy of exactly this size lets AddressSanitizer find reads behind it. */
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    scan(&fast, copy, size);
    scan(&slow, copy, size);
    free(copy);
    assert_int_equal(fast.found, slow.found & ~KILNI_SEEN_ESCAPE);
    assert_int_equal(fast.pastes, slow.pastes);
    assert_memory_equal(fast.pieces, slow.pieces, sizeof fast.pieces);
}

static void test_blocks(void **state)
{
    static char text[TEXT_BYTES];
    (void)state;
    srandom(1);
    for (int i = 0; i < TEXTS; i++) {
        const size_t size = make_text(text);
        assert_same(text, size, i % 2 ? kilni_words_scan : kilni_words_scan_file);
    }
}

/* A word at each position relative to the blocks. */
static void test_positions(void **state)
{
    static const char *const words[] = {"__DATE__",  "__DA\\\nTE__",  "x\\\n__DATE__",
                                        "x__DATE__", "+\\\n__DATE__", "__DA##TE__"};
    static const uint64_t found[] = {1, 1, 0, 0, 1, 1};
    char text[200];
    (void)state;
    for (size_t n = 0; n < sizeof words / sizeof *words; n++) {
        for (size_t at = 0; at + strlen(words[n]) <= sizeof text; at++) {
            memset(text, ' ', sizeof text);
            memcpy(text + at, words[n], strlen(words[n]));
            kilni_words words_of_text = {.list = &kilni_clock_words};
            kilni_words_scan(&words_of_text, text, sizeof text);
            assert_int_equal(kilni_words_found(&words_of_text), found[n]);
            assert_same(text, sizeof text, kilni_words_scan);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
