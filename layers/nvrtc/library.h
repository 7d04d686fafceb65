/* SPDX-License-Identifier: Apache-2.0
 *
 * The libnvrtc of the process, or the few that it has.
 */
#pragma once

#include <kiln/key.h>

#include "device/watch/watched_library.h"
#include "hooks.h"

/* As nvrtc_hooks.attach. */
nvrtc_library *library_attach(struct link_map *map, const kilni_nvrtc_functions *real);

/* Its own functions. */
const kilni_nvrtc_functions *library_real(const nvrtc_library *library);

/* For kilni_watch_begin. */
kilni_watched *library_watched(const nvrtc_library *library);

/* A builder with what every key of the library begins with.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status library_begin_key(nvrtc_library *library, kiln_key_builder **ret_builder,
                              kiln_error *error);

/* After a compilation: whether what was told of the library is what it is. KILN_OK;
 * KILN_E_UNSUPPORTED: it isn't, and from now on keys can't be told; KILN_E_NO_MEMORY. */
kiln_status library_confirm(nvrtc_library *library);

/* Around a fork. */
void library_lock(void);
void library_unlock(void);
