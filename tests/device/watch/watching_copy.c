/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with its own copy of Kiln, such as an application may load while a layer is active.
 */
#include "device/watch/watched_library.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED kiln_status watching_copy_find(const struct link_map *map);

kiln_status watching_copy_find(const struct link_map *map)
{
    kilni_watched *unused;
    return kilni_watched_find_reads(map, &unused);
}
