/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of this folder share: those of a context, its devices and its two
 * maps. context.c creates and frees contexts. context_shared.c has the functions on a context that
 * all files call. desc.c makes descriptions and their keys, and options.c combines their options.
 * live_objects.c makes programs and kernels on a device. program.c and kernel.c find programs and
 * kernels in the maps, or have live_objects.c make them. listen.c notifies users when objects enter
 * or leave the maps. blob.c implements cache blobs, and caching.c decides which programs are kept.
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
    size_t shares_with; /* index of the first interchangeable device, whose programs this device
                           shares; its own index if there is no such earlier device */
    bool is_shared;     /* shares its programs with another device, so the keys of kernels name the
                           device */
    kiln_key *identity; /* NULL: unknown; or the device shares programs with an earlier one, whose
                           identity is used */
} kilni_program_device;

/* After its creation, a context does not change, except for the contents of its maps and the
 * members whose comments say otherwise. When the user frees the context, its maps are emptied and
 * disabled, and its store is released. The structure itself exists as long as objects that were
 * made in the context exist, so that they can still be used. */
struct kiln_program_context {
    _Atomic size_t references; /* one for its user, and one for each description and program.
                                  Increments are relaxed; decrements acquire and release, so that
                                  the decrement to 0 sees all earlier changes */
    const kiln_device_ops *ops;
    kilni_program_device *devices;
    size_t device_count;
    bool has_distinct_devices; /* two or more devices do not share programs */
    uint32_t rules;

    /* The objects in @programs are of type kilni_live_program and are grouped by their image. The
     * objects in @kernels are of type kilni_live_kernel and are grouped by the number of their
     * program. */
    kiln_cache *programs, *kernels;

    /* The number of programs inserted into the map so far, times KILNI_INSERTION. kernel.c compares
     * it with the value that each kernel last noted. Accessed with relaxed order, because it is
     * harmless to note a use late or twice. */
    _Atomic uint64_t insertions;

    kilni_held_store own; /* its writer is NULL once the context has been freed */
    /* Supplies the store of each request, instead of @own; NULL: none. */
    const kiln_store_source *source;
    uint64_t min_stored_bytes, max_stored_bytes; /* of code */

    kiln_build_options replaced, appended; /* owned */
    char *library;                         /* NULL: none */

    /* The number of hits in the programs map that requests or count_hits have already added to the
     * store's counters. Accessed with relaxed order, because nothing depends on the order. */
    _Atomic uint64_t counted_hits;

    /* The number of programs that have left the map but still exist because kernels in use keep
     * them, and the bytes of these programs. Accessed with relaxed order, because nothing depends
     * on the order. */
    _Atomic uint64_t left_programs, left_bytes;
};

enum { KILNI_INSERTION = 16 };

/* Adds a reference and returns @context. */
kiln_program_context *kilni_program_context_retain(kiln_program_context *context);

/* Releases a reference. After kiln_program_context_free, the thread that releases the last
 * reference frees the structure. The caller must hold no lock. */
void kilni_program_context_release(kiln_program_context *context);

static inline bool kilni_program_context_has_ended(const kiln_program_context *context)
{
    return !context->own.writer;
}

/* Returns the store to use now: the store that the source supplies, or the context's own store if
 * there is none. The result is never NULL. The caller releases it with kilni_program_release_store.
 *
 * @may_open  whether the source is allowed to open its store, which can block */
kilni_held_store *kilni_program_hold_store(kiln_program_context *context, bool may_open);
void kilni_program_release_store(kiln_program_context *context, kilni_held_store *held);

/* Adds @more to the counters of the store, if one is open. */
void kilni_program_count(kiln_program_context *context, const kiln_stats *more);

/* Counts a program that has left the map and that only kernels in use keep. @change is 1 if there
 * is now one more such program, and -1 if there is one fewer. */
void kilni_program_context_count_left(kiln_program_context *context, int change, uint64_t bytes);

/* Evicts all objects that are not in use, and waits until other threads have freed the objects that
 * they evicted. Called if a device is out of resources or memory. */
void kilni_program_make_room(kiln_program_context *context);

/* Returns true if it might help to evict objects after this status. */
static inline bool kilni_program_is_out_of_room(kiln_status status)
{
    return status == KILN_E_RESOURCES || status == KILN_E_NO_MEMORY;
}
