/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of programs share: a context, its devices and its two maps.
 *
 * context.c makes and frees contexts, and context_shared.c has what all files need of one; desc.c
 * descriptions and their keys, and options.c the options in them; live.c what a device makes;
 * program.c and kernel.c find it in the maps or see to it that it is made; blob.c has cache blobs,
 * and caching.c the rules and their reasons.
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
    size_t serves;  /* index of the first device that is interchangeable with it: whose programs it
                       shares. Its own where there is none before it */
    bool is_shared; /* programs serve it and another one: its kernels are told apart */
    kiln_key *identity; /* NULL: can't be told, or that of the one it shares programs with counts */
} kilni_program_device;

/* Set once, but for the caches' contents and what says otherwise. When it ends, its maps are
 * emptied and off, and it has no store; what was made in it keeps it as such, so that it may be
 * asked. */
struct kiln_program_context {
    _Atomic size_t references; /* its user's, and of each description and program. Grows relaxed;
                                  what brings it to 0 acquires and releases */
    const kiln_device_ops *ops;
    kilni_program_device *devices;
    size_t device_count;
    bool tells_devices_apart; /* there is more than one that shares no programs */
    uint32_t rules;

    /* Objects: kilni_live_program, with the image as their group; kilni_live_kernel, with their
     * program's number. */
    kiln_cache *programs, *kernels;
    uint64_t listener; /* of the programs map: takes the kernels along */

    /* Programs that were put into the map so far, in steps of KILNI_INSERTION: what kernel.c knows
     * of the uses of a program that were noted. Relaxed: a use that is noted late or twice does no
     * harm. */
    _Atomic uint64_t insertions;

    kilni_held_store own;            /* its writer is NULL once the context has ended */
    const kiln_store_source *source; /* of the stores to use in place of its own; NULL: none */
    uint64_t min_stored_bytes, max_stored_bytes; /* of code */

    kiln_build_options replaced, appended; /* owned */
    char *library;                         /* NULL: none */

    /* Hits of the programs map that are in the counters of the store already: those of requests,
     * and those that were handed on. Relaxed: only added to. */
    _Atomic uint64_t counted_hits;
};

enum { KILNI_INSERTION = 16 };

/* One reference more; returns its argument. */
kiln_program_context *kilni_program_context_retain(kiln_program_context *context);

/* Gives one back; the last frees what is left of a context that has ended. No lock held. */
void kilni_program_context_release(kiln_program_context *context);

static inline bool kilni_program_context_has_ended(const kiln_program_context *context)
{
    return !context->own.writer;
}

/* The store to use now, never NULL: the source's, or else the context's own.
 *
 * @may_open  whether the source may open its store, which blocks
 * To be given back with kilni_program_release_store. */
kilni_held_store *kilni_program_hold_store(kiln_program_context *context, bool may_open);
void kilni_program_release_store(kiln_program_context *context, kilni_held_store *held);

/* Adds to the counters of the store, where one is open. */
void kilni_program_count(kiln_program_context *context, const kiln_stats *more);

/* Frees what nobody holds, so that a device that is out of resources or memory gets some back. */
void kilni_program_make_room(kiln_program_context *context);

/* Whether that may help. */
static inline bool kilni_program_is_out_of_room(kiln_status status)
{
    return status == KILN_E_RESOURCES || status == KILN_E_NO_MEMORY;
}
