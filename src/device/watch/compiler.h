/* SPDX-License-Identifier: Apache-2.0
 *
 * What Kiln must know about a compiler in this process to be able to watch the compiler. The
 * compiler must accept options in the same form as NVRTC: with one or two dashes, and with the
 * value after '=' or in the next option.
 */
#pragma once

#include "device/watch/words.h"

typedef struct kilni_compiler {
    const char *entry_point; /* a function that the compiler's library exports */

    /* Options without their dashes, NULL-terminated lists. */
    const char *const *unkept_options; /* if one is given, each result differs, or the compiler
                                          keeps state in the process or in files of its own */
    const char *const *placed_options; /* if one is given, the result contains its source's path */

    /* If a text contains one of these words, no result is kept. The first three are those of
     * kilni_clock_words. */
    const kilni_word_list *words;
} kilni_compiler;
