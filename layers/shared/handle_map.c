/* SPDX-License-Identifier: Apache-2.0 */
#include "handle_map.h"

#include <stdint.h>
#include <stdlib.h>

#define FIRST_CAPACITY 64u

static size_t home_of(const handle_map *map, const void *handle)
{
    const uint64_t mixed = (uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32) & (map->capacity - 1);
}

static size_t next(const handle_map *map, size_t place)
{
    return (place + 1) & (map->capacity - 1);
}

static void insert(handle_map *map, const void *handle, void *value)
{
    size_t place = home_of(map, handle);
    while (map->slots[place].handle) {
        place = next(map, place);
    }
    map->slots[place].handle = handle;
    map->slots[place].value = value;
    map->count++;
}

static kiln_status grow(handle_map *map)
{
    handle_map larger = {.capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots) {
        return KILN_E_NO_MEMORY;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].handle) {
            insert(&larger, map->slots[i].handle, map->slots[i].value);
        }
    }
    free(map->slots);
    *map = larger;
    return KILN_OK;
}

/* Returns the slot of a handle, or the capacity if the map does not have the handle. */
static size_t find(const handle_map *map, const void *handle)
{
    if (map->count == 0) {
        return map->capacity;
    }
    size_t place = home_of(map, handle);
    while (map->slots[place].handle) {
        if (map->slots[place].handle == handle) {
            return place;
        }
        place = next(map, place);
    }
    return map->capacity;
}

kiln_status handle_map_put(handle_map *map, const void *handle, void *value)
{
    const size_t known = find(map, handle);
    if (known < map->capacity) {
        map->slots[known].value = value;
        return KILN_OK;
    }
    if (2 * (map->count + 1) > map->capacity) {
        const kiln_status status = grow(map);
        if (status != KILN_OK) {
            return status;
        }
    }
    insert(map, handle, value);
    return KILN_OK;
}

void *handle_map_get(const handle_map *map, const void *handle)
{
    const size_t place = find(map, handle);
    return place < map->capacity ? map->slots[place].value : NULL;
}

/* Reinserts all entries up to the next free slot, because the removed entry might have displaced
 * any of them. */
void handle_map_remove(handle_map *map, const void *handle)
{
    size_t gap = find(map, handle);
    if (gap >= map->capacity) {
        return;
    }
    map->slots[gap].handle = NULL;
    map->count--;
    for (size_t i = next(map, gap); map->slots[i].handle; i = next(map, i)) {
        const struct handle_slot moved = map->slots[i];
        map->slots[i].handle = NULL;
        map->count--;
        insert(map, moved.handle, moved.value);
    }
}

void handle_map_each(const handle_map *map, void (*visit)(void *user, void *value), void *user)
{
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].handle) {
            visit(user, map->slots[i].value);
        }
    }
}
