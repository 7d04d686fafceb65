/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing the location of a store: a path, or a URL with options. No I/O.
 */
#pragma once

#include <stdbool.h>

#include "store/engine.h"

typedef struct kilni_location {
    const kilni_store_engine *engine;
    char *path; /* of the directory or file; options point into it; the caller frees it */
    kilni_store_options options;
} kilni_location;

/* Parses a location; of a chain, that of one tier. What a URL says overrides @params.
 *
 * @params   may be NULL
 * @engines  that a location may name; ends with NULL. The first one takes a path that is not a URL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_PARSE; KILN_E_UNSUPPORTED: an unknown scheme, option or
 * flag, or a struct with unknown fields; KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_location_parse(const char *location, const kiln_store_params *params,
                                 const kilni_store_engine *const *engines,
                                 kilni_location *ret_location, kiln_error *error);

/* Returns whether a text may be a backend's name. Such a name is safe as the name of a folder. It
 * is shorter than a hash, which may consist of letters too, and differs from the folder "v1". */
bool kilni_location_is_backend_name(const char *name);
