/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiler's library whose calls to the C library are redirected to the functions of
 * intercepted_calls.h and math_calls.h. Kiln stores the addresses of these functions in the table
 * through which this library, and no other, calls the C library.
 */
#pragma once

#include <link.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/compiler.h"

typedef struct kilni_watched kilni_watched;

/* Redirects the library's calls, until the process ends, and keeps Kiln's functions and the library
 * loaded. Several threads may call this for the same library, even while the library runs.
 *
 * @ret_library  [out] valid until the process ends
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the library cannot be watched, or a different tool has
 * redirected its calls; KILN_E_NO_MEMORY. Threads: any, but the caller must not hold a lock that a
 * fork handler takes. Blocks: on the loader. */
kiln_status kilni_watched_find(const struct link_map *map, kilni_watched **ret_library);

/* Does the same, but redirects only the calls by which the library reads files. Use this if the key
 * already contains everything that affects the constants that the compiler folds. */
kiln_status kilni_watched_find_reads(const struct link_map *map, kilni_watched **ret_library);

/* Does the same as kilni_watched_find for the library whose entry point is at @address. Returns
 * KILN_E_UNSUPPORTED if a different function is at @address, such as that of a layer that stands in
 * for the compiler. */
kiln_status kilni_watched_find_by_entry_point(const kilni_compiler *compiler, const void *address,
                                              kilni_watched **ret_library);

/* Makes sure that all slots contain Kiln's functions. If the loader was resolving a slot for
 * another thread when Kiln redirected the slot, the loader overwrites the slot once.
 *
 * @ret_mark  [out] for kilni_watched_is_unchanged
 * Returns KILN_OK; KILN_E_UNSUPPORTED: a different tool has redirected a slot. Threads and
 * blocking: as for kilni_watched_find. */
kiln_status kilni_watched_restore(kilni_watched *library, uint64_t *ret_mark);

/* Whether all slots contain Kiln's functions, and have done so since kilni_watched_restore returned
 * the mark. Threads: any. Blocks: never. */
int kilni_watched_is_unchanged(const kilni_watched *library, uint64_t mark);
