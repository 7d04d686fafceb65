/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that show that the result of a build might depend not only on its source, but also on a
 * clock, on files, or on a file's path. Some of these words, such as __DATE__, make a build
 * uncacheable. The others only show that the build might read files or might ask for a file's name.
 */
#pragma once

#include <stdbool.h>

#include "device/watch/words.h"

/* The words to look for in all texts and in the files that they include. */
extern const kilni_word_list kilni_opencl_words;

/* Returns a static text that says why the result of texts with these words can't be kept, or NULL
 * if it can. */
const char *kilni_opencl_words_refusal(const kilni_words *words);

/* Returns true if texts with these words ask for the name of a file. Drivers might return a path
 * that begins with the working directory. */
bool kilni_opencl_words_ask_place(const kilni_words *words);

/* Returns true if texts with these words test whether a file exists. A compiler that knows that a
 * path is a folder might answer "no" without looking at the path. */
bool kilni_opencl_words_ask_existence(const kilni_words *words);

/* Returns true if a build of texts with these words might read files. */
bool kilni_opencl_words_may_read(const kilni_words *words);

/* Returns true if texts with these words might name a defeating constant (defeating_constant.h).
 * This is also so if a string has an escape sequence that can stand for a letter. */
bool kilni_opencl_words_may_name_constant(const kilni_words *words);
