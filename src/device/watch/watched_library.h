/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiler's library whose calls of the C library go through calls.h and math_calls.h: our
 * functions stand in the table by which this library, and no other, finds them.
 */
#pragma once

#include <link.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/compiler.h"

typedef struct kilni_watched kilni_watched;

/* Puts the functions in place, for good, which keeps them and the library loaded. More than one
 * thread may come with the same library, and it may be at work.
 *
 * @ret_library  [out] lives as long as the process
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the library can't be watched, or somebody else does;
 * KILN_E_NO_MEMORY. Threads: any, without a lock that anybody takes before a fork. Blocks: on the
 * loader. */
kiln_status kilni_watched_find(const struct link_map *map, kilni_watched **ret_library);

/* The same for the library whose entry point is at an address; KILN_E_UNSUPPORTED if a different
 * function is there: one of a layer that stands in for the compiler. */
kiln_status kilni_watched_find_by_entry_point(const kilni_compiler *compiler, const void *address,
                                              kilni_watched **ret_library);

/* Sees to it that all functions are in place. The loader writes a place once more, and over ours,
 * that it was looking up for another thread when it was taken.
 *
 * @ret_mark  [out] for kilni_watched_was_whole
 * Returns KILN_OK; KILN_E_UNSUPPORTED: somebody else has taken one. Threads, blocks: as above. */
kiln_status kilni_watched_take(kilni_watched *library, uint64_t *ret_mark);

/* Whether all of them are in place, and have been since the mark was given. Threads: any. Blocks:
 * never. */
int kilni_watched_was_whole(const kilni_watched *library, uint64_t mark);
