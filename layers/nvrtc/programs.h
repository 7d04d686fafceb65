/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer knows about each nvrtcProgram. The handle is always NVRTC's own. NVRTC creates a
 * program that is loaded from the cache, but does not compile it. If a call needs an answer that
 * only NVRTC has, NVRTC compiles the program late.
 *
 * NVRTC allows only one thread at a time to use a program, so a program's record needs no lock. The
 * map of all records has a lock.
 */
#pragma once

#include <stddef.h>

#include <kiln/entry.h>

#include "device/floating_point.h"
#include "device/nvrtc/outputs.h"
#include "device/watch/inputs.h"
#include "hooks.h"

typedef enum program_state {
    PROGRAM_FRESH = 0, /* not compiled */
    PROGRAM_NATIVE,    /* NVRTC was asked to compile it, and answers all calls */
    PROGRAM_LOADED     /* it was loaded from the cache; the layer answers calls */
} program_state;

/* Copies of the application's texts. */
typedef struct program_texts {
    char **items;
    size_t count;
} program_texts;

typedef struct program_record {
    nvrtc_library *library;
    kilni_nvrtc_program handle;
    program_state state;

    char *source;
    char *name;        /* NULL: none was given */
    const char *place; /* the name, if programs share results between folders; else NULL */
    program_texts headers, header_names;
    program_texts expressions;
    const char *obstacle; /* a static text: why its compilation bypasses the cache; NULL: it uses
                             the cache */

    /* Set when the state becomes PROGRAM_LOADED. Kept until the program is destroyed, because
     * callers have pointers into these members. */
    kiln_entry *entry;
    kilni_nvrtc_outputs outputs;
    kiln_bytes reads;          /* the files that the result was made from; points into the entry */
    program_texts options;     /* for a late compilation */
    kilni_floating_point mode; /* the floating-point mode of the call; a late compilation runs in
                                  this mode */
    int is_at_nvrtc;           /* NVRTC has already compiled it late, or must not do so; set in any
                                  state */
} program_record;

/* Adds the record of a program that NVRTC has created. If memory runs out, there is no record, and
 * all calls go to NVRTC. */
void programs_add(nvrtc_library *library, kilni_nvrtc_program handle, const char *source,
                  const char *name, int header_count, const char *const *headers,
                  const char *const *header_names);

/* Returns a program's record; NULL if there is none. */
program_record *programs_find(kilni_nvrtc_program handle);

/* Called before NVRTC destroys the program. */
void programs_remove(kilni_nvrtc_program handle);

/* Remembers a name expression that NVRTC has accepted. */
void program_add_expression(program_record *record, const char *expression);

/* Returns inputs that point into the record and to @options. */
kilni_inputs program_inputs(const program_record *record, int option_count,
                            const char *const *options);

/* Makes the record answer for the program. Takes over the outputs. Adds a hold on the entry,
 * because the outputs and the reads point into it. Returns KILN_OK; KILN_E_NO_MEMORY: the caller
 * still owns the outputs. */
kiln_status program_set_loaded(program_record *record, const kiln_entry *entry, kiln_bytes reads,
                               const kilni_nvrtc_outputs *outputs, int option_count,
                               const char *const *options);

/* Makes NVRTC compile a program that was loaded from the cache, for a call that only NVRTC can
 * answer. The layer still answers all other calls. If files have changed since the program was
 * stored, NVRTC would make a different program. In that case, the layer does not let NVRTC compile,
 * and NVRTC answers as it does for any program that is not compiled. */
void program_compile_late(program_record *record, const char *why);

/* Called around fork. */
void programs_lock(void);
void programs_unlock(void);
