/* SPDX-License-Identifier: Apache-2.0
 *
 * What Kiln has to know of a compiler in this process to watch it. A compiler takes its options as
 * NVRTC does: with one or two dashes, and a value behind '=' or in the next option.
 */
#pragma once

typedef struct kilni_compiler {
    const char *entry_point; /* a function that the compiler's library exports */

    /* Options without their dashes, NULL-ended lists. */
    const char *const *unkept_options; /* whose results are different every time, or that keep
                                          state in the process or in files of the compiler's own */
    const char *const *placed_options; /* after which the result says where it was compiled */
} kilni_compiler;
