/* SPDX-License-Identifier: Apache-2.0
 *
 * The libraries of a process that have the functions of NVRTC or HIPRTC. A process can have
 * several.
 */
#pragma once

#include <kiln/key.h>

#include "hooks.h"
#include "runtime.h"

/* Does what nvrtc_hooks.attach describes. */
nvrtc_library *library_attach(struct link_map *map, const kilni_nvrtc_functions *real);

/* Returns the library's own functions. */
const kilni_nvrtc_functions *library_real(const nvrtc_library *library);

/* Returns the path from which the library was loaded; NULL: it is not known. */
const char *library_path(const nvrtc_library *library);

const runtime *library_runtime(const nvrtc_library *library);

/* Finds the libraries to watch during a compilation. Call this before a stored result is used, too:
 * the constants that the compiler folds can be checked only for libraries that are watched. Returns
 * KILN_OK; KILN_E_UNSUPPORTED: they cannot be watched; KILN_E_NO_MEMORY. */
kiln_status library_find_watched(nvrtc_library *library,
                                 kilni_watched *ret_libraries[KILNI_WATCH_LIBRARIES_MAX],
                                 size_t *ret_count);

/* Makes a key builder, and adds the parts that all keys of the library have.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status library_begin_key(nvrtc_library *library, kiln_key_builder **ret_builder,
                              kiln_error *error);

/* Called after a compilation. Checks that the keys contain the library's real identity. Returns
 * KILN_OK; KILN_E_UNSUPPORTED if the identity differs or cannot be determined (no keys can be made
 * from then on); KILN_E_NO_MEMORY. */
kiln_status library_confirm(nvrtc_library *library);

/* Called around fork. */
void library_lock(void);
void library_unlock(void);
