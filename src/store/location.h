/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the location of a store: a path, or a URL with options. Does no I/O.
 */
#pragma once

#include <stdbool.h>

#include "store/engine.h"

typedef struct kilni_location {
    const kilni_store_engine *engine;
    char *path; /* the path of the directory or file, and in a URL after it the texts to which the
                   options point, except a key_file of @params; freed by the caller */
    kilni_store_options options;
} kilni_location;

/* Parses a location, or that of one tier of a chain. The options of a URL override @params.
 *
 * @params   may be NULL
 * @engines  the engines that a location may name, followed by NULL. The first engine opens a
 *           location that is a path and not a URL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_PARSE; KILN_E_UNSUPPORTED: an unknown scheme, option,
 * flag, policy or layout, a backend that the layout does not have, a struct with unknown fields, or
 * a URL with an unescaped '#' or '|'; KILN_E_DENIED: nothing would authenticate a server's entries;
 * KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_location_parse(const char *location, const kiln_store_params *params,
                                 const kilni_store_engine *const *engines,
                                 kilni_location *ret_location, kiln_error *error);

/* Returns whether a text may be a backend's name. Such a name is safe as the name of a folder. It
 * cannot be confused with a hash, because it is shorter, nor with the folder "v1". */
bool kilni_location_is_backend_name(const char *name);
