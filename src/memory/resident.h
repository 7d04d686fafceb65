/* SPDX-License-Identifier: Apache-2.0
 *
 * An array of the objects in a cache, in no particular order. A caller can pick objects at random,
 * or walk over them a few at a time. The array is stored in chunks, so that it is never copied when
 * an object is added.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

/* The public name of kilni_object is kiln_pin (memory.h). */
struct kiln_pin;

enum { KILNI_CHUNK_SIZE = 512 };

/* A position has 32 bits. */
#define KILNI_MOST_RESIDENTS ((size_t)UINT32_MAX)

/* Guarded by the cache's lock. Each object stores its own position. */
typedef struct kilni_residents {
    struct kiln_pin ***chunks;
    size_t chunk_count, chunk_room; /* existing chunks; the capacity of the list of chunks */
    size_t count;                   /* of objects */
} kilni_residents;

/* Makes room for @count objects. Frees some chunks if there are more than needed.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_residents_reserve(kilni_residents *residents, size_t count);

/* Frees the array, which must be empty. */
void kilni_residents_fini(kilni_residents *residents);

/* Adds an object, for which room must have been reserved. */
void kilni_residents_add(kilni_residents *residents, struct kiln_pin *object);

/* Removes an object, and moves the last object to the free position. */
void kilni_residents_remove(kilni_residents *residents, const struct kiln_pin *object);

static inline struct kiln_pin *kilni_resident_at(const kilni_residents *residents, size_t position)
{
    return residents->chunks[position / KILNI_CHUNK_SIZE][position % KILNI_CHUNK_SIZE];
}
