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

    /* The words to look for in all texts, and a function that returns a static text that says why
     * the result of texts with these words cannot be kept, or NULL if it can. */
    const kilni_word_list *words;
    const char *(*refuse_words)(const kilni_words *words);
} kilni_compiler;
