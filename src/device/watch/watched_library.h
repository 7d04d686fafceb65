/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiler's library whose calls to the C library are redirected to the functions of
 * intercepted_calls.h and math_calls.h. The library calls the C library through a table of its own,
 * and Kiln stores the addresses of these functions there. So the calls of other libraries do not
 * change.
 */
#pragma once

#include <link.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/compiler.h"

typedef struct kilni_watched kilni_watched;

/* Redirects the library's calls until the process ends. Also keeps the library, and Kiln's
 * functions, loaded until then. Several threads are allowed to call this for the same library, even
 * while the library runs.
 *
 * @ret_library  [out] valid until the process ends
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the library cannot be watched, or a different tool has
 * redirected its calls; KILN_E_NO_MEMORY. Threads: any, but the caller must not hold a lock that a
 * fork handler takes. Blocks: on the loader. */
kiln_status kilni_watched_find(const struct link_map *map, kilni_watched **ret_library);

/* Does the same as kilni_watched_find, but redirects only the calls by which the library reads
 * files. Use this if the key already contains everything that affects the constants that the
 * compiler folds. */
kiln_status kilni_watched_find_reads(const struct link_map *map, kilni_watched **ret_library);

/* Does the same as kilni_watched_find for the library whose entry point is at @address.
 * Returns KILN_E_UNSUPPORTED if @address is the address of a different function. A layer that
 * stands in for the compiler has such a function. */
kiln_status kilni_watched_find_by_entry_point(const kilni_compiler *compiler, const void *address,
                                              kilni_watched **ret_library);

/* Makes sure that all slots contain Kiln's functions. Kiln might have redirected a slot while the
 * loader was resolving it for another thread. The loader then overwrites the slot once.
 *
 * @ret_mark  [out] for kilni_watched_is_unchanged
 * Returns KILN_OK; KILN_E_UNSUPPORTED: a different tool has redirected a slot. Threads and
 * blocking: as for kilni_watched_find. */
kiln_status kilni_watched_restore(kilni_watched *library, uint64_t *ret_mark);

/* Returns 1 if all slots contain Kiln's functions, and have contained them ever since
 * kilni_watched_restore returned the mark. Threads: any. Blocks: never. */
int kilni_watched_is_unchanged(const kilni_watched *library, uint64_t mark);
