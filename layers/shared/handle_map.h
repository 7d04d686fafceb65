/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from a driver's handle to what the layer knows about it. The map takes no lock. Its users
 * must prevent concurrent calls.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

typedef struct handle_map {
    struct handle_slot {
        const void *handle; /* NULL: free */
        void *value;
    } * slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
} handle_map;

/* Sets the value of a handle, and replaces any earlier value. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status handle_map_put(handle_map *map, const void *handle, void *value);

/* Returns the value of a handle; NULL if there is none. */
void *handle_map_get(const handle_map *map, const void *handle);

void handle_map_remove(handle_map *map, const void *handle);

/* Calls @visit for each value. */
void handle_map_each(const handle_map *map, void (*visit)(void *user, void *value), void *user);
