/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: a context, its devices and its two maps. context.c creates
 * and frees contexts, and context_shared.c has what all files need from one. desc.c makes
 * descriptions and their keys, and options.c their options. live.c makes programs and kernels on a
 * device; program.c and kernel.c find them in the maps or have them made. blob.c has cache blobs,
 * and caching.c says what is kept and why.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/program.h>

#include "program/store_source.h"

typedef struct kilni_program_device {
    void *handle;
    size_t shares_with; /* index of the first device with which it is interchangeable and whose
                      programs it shares; its own index if there is none before it */
    bool is_shared;     /* shares its programs with another device, so the keys of kernels name the
                           device */
    kiln_key *identity; /* NULL: unknown; or the device shares programs with another one, whose
                           identity counts */
} kilni_program_device;

/* Does not change once it is made, except for the contents of the caches and the members that say
 * otherwise. When the context is freed, its maps are emptied and disabled, and it has no store any
 * more. Objects made in it keep it in that state, so that they can still be used. */
struct kiln_program_context {
    _Atomic size_t references; /* one of its user, and one of each description and program.
                                  Increments are relaxed; decrements acquire and release, so that
                                  the one to 0 sees everything before */
    const kiln_device_ops *ops;
    kilni_program_device *devices;
    size_t device_count;
    bool has_distinct_devices; /* several devices share no programs */
    uint32_t rules;

    /* Objects: kilni_live_program, with the image as its group; kilni_live_kernel, with its
     * program's number as its group. */
    kiln_cache *programs, *kernels;
    uint64_t listener; /* on the programs map; removes the kernels of programs that leave */

    /* Programs inserted into the map so far, counted in steps of KILNI_INSERTION. kernel.c compares
     * it with the noted uses of a program. Relaxed: noting a use late or twice is harmless. */
    _Atomic uint64_t insertions;

    kilni_held_store own; /* its writer is NULL once the context was freed */
    const kiln_store_source
        *source; /* of the store for each request, instead of its own; NULL: none */
    uint64_t min_stored_bytes, max_stored_bytes; /* of code */

    kiln_build_options replaced, appended; /* owned */
    char *library;                         /* NULL: none */

    /* Hits of the programs map that are already in the store's counters, by requests or by
     * count_hits. Relaxed: nothing depends on its order. */
    _Atomic uint64_t counted_hits;
};

enum { KILNI_INSERTION = 16 };

/* Adds a reference and returns its argument. */
kiln_program_context *kilni_program_context_retain(kiln_program_context *context);

/* Releases a reference; the last one frees a context that kiln_program_context_free has ended. The
 * caller holds no lock. */
void kilni_program_context_release(kiln_program_context *context);

static inline bool kilni_program_context_has_ended(const kiln_program_context *context)
{
    return !context->own.writer;
}

/* Returns the store to use now, never NULL: that of the source, or else the context's own.
 *
 * @may_open  whether the source may open its store, which blocks The caller releases it with
 *            kilni_program_release_store. */
kilni_held_store *kilni_program_hold_store(kiln_program_context *context, bool may_open);
void kilni_program_release_store(kiln_program_context *context, kilni_held_store *held);

/* Adds to the counters of the store, if one is open. */
void kilni_program_count(kiln_program_context *context, const kiln_stats *more);

/* Evicts everything that nobody holds, when a device is out of resources or memory. */
void kilni_program_make_room(kiln_program_context *context);

/* Returns whether evicting may help after this status. */
static inline bool kilni_program_is_out_of_room(kiln_status status)
{
    return status == KILN_E_RESOURCES || status == KILN_E_NO_MEMORY;
}
