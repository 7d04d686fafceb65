/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the location of a store: a path, or a URL with options. Does no I/O.
 */
#pragma once

#include <stdbool.h>

#include "store/engine.h"

typedef struct kilni_location {
    const kilni_store_engine *engine;
    char *path; /* The path of the directory or file. If the location is a URL, the texts to which
                   the options point follow the path in this memory. A key_file of @params is not
                   among these texts. The caller must free the memory. */
    kilni_store_options options;
} kilni_location;

/* Parses the location of a store or of one tier of a chain. The options of a URL override @params.
 *
 * @params   may be NULL
 * @engines  the engines that a location can name; NULL ends the list. The first engine opens a
 *           location that is a path and not a URL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_PARSE; KILN_E_UNSUPPORTED: an unknown scheme, option,
 * flag, policy or layout, a backend in a layout that has none, a struct with unknown fields, or a
 * URL with an unescaped '#' or '|'; KILN_E_DENIED: the location is a server, but no key or option
 * says how to authenticate its entries; KILN_E_NO_MEMORY. @error describes the failure. */
kiln_status kilni_location_parse(const char *location, const kiln_store_params *params,
                                 const kilni_store_engine *const *engines,
                                 kilni_location *ret_location, kiln_error *error);

/* Returns true if a text is a valid name of a backend. Such a name can safely name a folder. It is
 * shorter than a hash and differs from "v1", so it cannot be confused with either. */
bool kilni_location_is_backend_name(const char *name);
