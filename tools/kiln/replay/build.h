/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeats a build in this process, by calling the compiler as a program does. Kiln's layers, which
 * the process has loaded, find or store the result.
 */
#pragma once

#include "recipe.h"

/* With what is built. Texts may be NULL. */
typedef struct build_terms {
    const char *nvrtc,
        *hiprtc;              /* the files of these libraries; NULL: those that the loader finds */
    const char *architecture; /* such as "90" or "gfx90a", for the compilers of its vendor; NULL:
                                 that of the entry */
} build_terms;

/* Exit codes of the process. These numbers are unusual because compilers and their libraries also
 * call exit. Before the process ends with one of the last two, it prints the compiler's log, or the
 * reason, to stdout. */
typedef enum build_end { BUILD_DONE = 40, BUILD_FAILED, BUILD_IMPOSSIBLE } build_end;

/* Prints a reason, and returns BUILD_IMPOSSIBLE. */
build_end build_impossible(const char *format, ...) __attribute__((format(printf, 1, 2)));

build_end build_opencl(const recipe *of);

/* Compiles with NVRTC or HIPRTC.
 *
 * @folder  an absolute path: where a program is whose name had a folder */
build_end build_nvrtc(const recipe *of, const build_terms *terms, const char *folder);
