/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between NVRTC and HIPRTC. Their functions have the same signatures and the same
 * order of calls, so the rest of the layer serves both.
 */
#pragma once

#include <stdbool.h>

#include <kiln/key.h>

#include "device/nvrtc/functions.h"
#include "device/watch/constant_folds.h"
#include "device/watch/inputs.h"
#include "device/watch/read_files.h"
#include "device/watch/watch.h"

typedef struct runtime {
    const char *door; /* for trace_request */
    const char *call; /* the name of the function that compiles, for the trace */
    const kilni_compiler *compiler;
    const char *family; /* for upgrade_note_build; NULL: `kiln replay` does not repeat its builds */

    /* Programs whose names differ only in the folder share results, where this is right. Otherwise
     * the whole name is in the key. */
    bool shares_between_folders;

    /* The layer itself knows how the runtime answers incorrect calls. Otherwise the runtime
     * compiles late, and answers such calls. */
    bool knows_errors;

    const char *contradiction; /* why no keys can be made after kilni_…_add_identity was wrong */

    int (*suffices)(const kilni_nvrtc_functions *real);
    kiln_status (*add_identity)(const kilni_nvrtc_functions *real, kiln_key_builder *key,
                                kiln_error *error);
    kiln_status (*add_environment)(const char *const *more, kiln_key_builder *key,
                                   kiln_error *error);

    /* Return why a program with these options cannot be looked up, and, after a compilation, why
     * its result cannot be kept; NULL if it can. */
    const char *(*refuse_lookup)(int count, const char *const *options);
    const char *(*refuse_result)(int count, const char *const *options);

    /* Called before each compilation whose result is not kept. */
    void (*note_options)(int count, const char *const *options);

    /* Calls the function that compiles. */
    int (*call_compile)(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                        int option_count, const char *const *options);

    /* Compiles so that the result can be kept, and notes the options. Returns KILN_OK or
     * KILN_E_NO_MEMORY. */
    kiln_status (*compile)(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                           int option_count, const char *const *options, int *ret_result);

    /* Called before and after a compilation whose reads are recorded. The second function returns
     * why the result cannot be kept; NULL if it can. */
    kiln_status (*prepare_reads)(kilni_reads *reads, int count, const char *const *options);
    const char *(*follow_headers)(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                                  const kilni_inputs *inputs, kilni_reads *reads,
                                  kilni_folds *folds);
    void (*complete_reads)(kilni_reads *reads, const kilni_words *given);

    /* Finds the libraries to watch, which the runtime loads when it creates a program. NULL: the
     * library that has the functions is watched. */
    kiln_status (*find_watched)(kilni_watched *ret_libraries[KILNI_WATCH_LIBRARIES_MAX],
                                size_t *ret_count);
} runtime;

/* Calls the function that compiles, for a program whose result is not kept, and notes the options.
 * Returns its result. */
int runtime_compile(const kilni_nvrtc_functions *real, kilni_nvrtc_program program,
                    int option_count, const char *const *options);

/* Called before and after each action of comgr, with which HIPRTC compiles. */
void runtime_action_begins(void);
void runtime_action_ends(void);

/* Returns the runtime to which a library's functions belong. */
const runtime *runtime_of(const kilni_nvrtc_functions *real);
