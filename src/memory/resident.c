/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/resident.h"

#include <stdlib.h>

#include "memory/memory.h"

enum { LEAST_CHUNK_ROOM = 16, CHUNKS_FREED_AT_ONCE = 4 };

static kiln_status add_chunk(kilni_residents *residents)
{
    if (residents->chunk_count == residents->chunk_room) {
        size_t room = residents->chunk_room > 0 ? residents->chunk_room * 2 : LEAST_CHUNK_ROOM;
        kilni_object ***chunks =
            realloc(residents->chunks, room * sizeof *chunks); /* NOLINT: pointers to chunks */
        if (!chunks) {
            return KILN_E_NO_MEMORY;
        }
        residents->chunks = chunks;
        residents->chunk_room = room;
    }
    kilni_object **chunk = malloc(KILNI_CHUNK_SIZE * sizeof *chunk); /* NOLINT: pointers */
    if (!chunk) {
        return KILN_E_NO_MEMORY;
    }
    residents->chunks[residents->chunk_count++] = chunk;
    return KILN_OK;
}

kiln_status kilni_residents_reserve(kilni_residents *residents, size_t count)
{
    size_t needed = (count + KILNI_CHUNK_SIZE - 1) / KILNI_CHUNK_SIZE;
    while (residents->chunk_count < needed) {
        kiln_status status = add_chunk(residents);
        if (status != KILN_OK) {
            return status;
        }
    }
    /* A spare chunk is kept. Otherwise, a caller that adds and removes objects at the boundary of a
     * chunk would allocate and free the chunk each time. */
    for (int i = 0; i < CHUNKS_FREED_AT_ONCE && residents->chunk_count > needed + 1; i++) {
        free(residents->chunks[--residents->chunk_count]);
    }
    return KILN_OK;
}

void kilni_residents_fini(kilni_residents *residents)
{
    while (residents->chunk_count > 0) {
        free(residents->chunks[--residents->chunk_count]);
    }
    free(residents->chunks);
    *residents = (kilni_residents){0};
}

static void put(const kilni_residents *residents, size_t position, kilni_object *object)
{
    residents->chunks[position / KILNI_CHUNK_SIZE][position % KILNI_CHUNK_SIZE] = object;
    object->slot.position = (uint32_t)position;
}

void kilni_residents_add(kilni_residents *residents, kilni_object *object)
{
    put(residents, residents->count++, object);
}

void kilni_residents_remove(kilni_residents *residents, const kilni_object *object)
{
    kilni_object *last = kilni_resident_at(residents, --residents->count);
    put(residents, object->slot.position, last);
}
