/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer knows of each nvrtcProgram. The handle is always NVRTC's own: a program that was
 * found was created by NVRTC and never compiled, and is compiled late if something is asked of it
 * that only NVRTC can answer.
 *
 * NVRTC lets a program be used by one thread at a time, and so does its record; the map of records
 * is locked.
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
    PROGRAM_NATIVE,    /* NVRTC has compiled it, or was asked to: it answers */
    PROGRAM_FOUND      /* the layer answers */
} program_state;

/* Texts of the application's, copied. */
typedef struct program_texts {
    char **items;
    size_t count;
} program_texts;

typedef struct program_record {
    nvrtc_library *library;
    kilni_nvrtc_program handle;
    program_state state;

    char *source;
    char *name; /* NULL: none was given */
    program_texts headers, header_names;
    program_texts expressions;
    const char *obstacle; /* why its compilation passes through; static; NULL: it doesn't */

    /* PROGRAM_FOUND, and until its end: pointers into them were handed out. */
    kiln_entry *entry;
    kilni_nvrtc_outputs outputs;
    kiln_bytes reads;          /* of the result, in the entry */
    program_texts options;     /* to compile it late, */
    kilni_floating_point mode; /* in the mode of the call */
    int is_at_nvrtc;           /* NVRTC has compiled it too, or is not to any more */
} program_record;

/* Makes the record of a program that NVRTC has created. Without memory there is none, and all calls
 * go to NVRTC. */
void programs_add(nvrtc_library *library, kilni_nvrtc_program handle, const char *source,
                  const char *name, int header_count, const char *const *headers,
                  const char *const *header_names);

/* NULL where there is none. */
program_record *programs_find(kilni_nvrtc_program handle);

/* Before NVRTC destroys it. */
void programs_remove(kilni_nvrtc_program handle);

/* Notes an expression that NVRTC has taken. */
void program_add_expression(program_record *record, const char *expression);

/* @options lives as long as the inputs; they point into the record. */
kilni_inputs program_inputs(const program_record *record, int option_count,
                            const char *const *options);

/* The program was found: the record takes over the outputs, and a hold on the entry that they and
 * the reads point into. KILN_OK; KILN_E_NO_MEMORY: the caller keeps them. */
kiln_status program_set_found(program_record *record, const kiln_entry *entry, kiln_bytes reads,
                              const kilni_nvrtc_outputs *outputs, int option_count,
                              const char *const *options);

/* Has NVRTC compile a program that was found, for what only NVRTC can answer; the rest is still
 * answered by what was found. Files that have changed since would make another program: then it is
 * not compiled, and NVRTC says of it what it says of such programs. */
void program_compile_late(program_record *record, const char *why);

/* Around a fork. */
void programs_lock(void);
void programs_unlock(void);
