/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeats a build in this process, by calling the compiler as a program does. Kiln's layers, which
 * the process has loaded, find or store the result.
 */
#pragma once

#include "link_inputs.h"
#include "recipe.h"

/* With what is built. Texts may be NULL. */
typedef struct build_terms {
    /* The files of these libraries; NULL: those that the loader finds. */
    const char *nvrtc, *nvjitlink, *hiprtc;

    /* Such as "90" or "gfx90a", for the compilers of its vendor; NULL: that of the entry. */
    const char *architecture;
} build_terms;

/* Exit codes of the process. These numbers are unusual because compilers and their libraries also
 * call exit. Before the process ends with one of the last two, it prints the compiler's log, or the
 * reason, to stdout. */
typedef enum build_end { BUILD_DONE = 40, BUILD_FAILED, BUILD_IMPOSSIBLE } build_end;

/* ---- the compilers ---- */

build_end build_opencl(const recipe *of);

/* Compiles with NVRTC or HIPRTC.
 *
 * @folder  an absolute path: where a program is whose name had a folder */
build_end build_nvrtc(const recipe *of, const build_terms *terms, const char *folder);

build_end build_nvjitlink(const recipe *of, const build_terms *terms, const link_inputs *inputs);

/* ---- what they share ---- */

/* Prints a reason, and returns BUILD_IMPOSSIBLE. */
build_end build_impossible(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens the library in a file, or, if @file is NULL, the first that the loader finds of several
 * names, which NULL ends. Returns NULL if there is none; dlerror says why. */
void *build_open_library(const char *file, const char *const *names);

/* Texts, which are owned. */
typedef struct build_texts {
    char **items;
    size_t count, capacity;
} build_texts;

/* Returns the parts of that name, in order. */
build_texts build_texts_of(const kiln_key *key, const char *name);
void build_texts_free(build_texts *texts);

#define owned_texts __attribute__((cleanup(build_texts_free))) build_texts

/* Makes options name an architecture, in place of their own; NULL: they stay as they are. */
void build_replace_architecture(build_texts *options, const char *architecture);
