/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a store is: a path, or a URL with options. No I/O.
 */
#pragma once

#include <stdbool.h>

#include "store/engine.h"

typedef struct kilni_location {
    const kilni_store_engine *engine;
    char *
        path; /* of the directory or the file; to be freed, and what the options point to with it */
    kilni_store_options options;
} kilni_location;

/* Reads a location, of a chain that of one tier. What a URL says goes before @params.
 *
 * @params   may be NULL
 * @engines  that a location may name; ends with NULL. The first one takes a path that is not a URL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_PARSE; KILN_E_UNSUPPORTED: a scheme, an option, a flag or
 * a longer struct that is not known; KILN_E_NO_MEMORY. All are described in @error. */
kiln_status kilni_location_parse(const char *location, const kiln_store_params *params,
                                 const kilni_store_engine *const *engines,
                                 kilni_location *ret_location, kiln_error *error);

/* Whether a text is a backend's name: safe as that of a folder, shorter than a hash's, which may
 * consist of letters too, and not that of the folder "v1". */
bool kilni_location_is_backend_name(const char *name);
