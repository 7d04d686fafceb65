/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a store is: a directory, or a URL of a directory or a pack with options. No I/O.
 */
#pragma once

#include <stdbool.h>

#include "store/store.h"

typedef enum kilni_location_kind { KILNI_LOCATION_DIR, KILNI_LOCATION_PACK } kilni_location_kind;

typedef struct kilni_location {
    kilni_location_kind kind;
    char *
        path; /* of the directory or the file; to be freed, and what the options point to with it */
    kilni_store_options options;
} kilni_location;

/* Reads a location, of a chain that of one tier. What a URL says goes before @params.
 *
 * @params  may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_PARSE; KILN_E_UNSUPPORTED: a scheme, an option, a flag or
 * a longer struct that is not known; KILN_E_NO_MEMORY. All are described in @error. */
kiln_status kilni_location_parse(const char *location, const kiln_store_params *params,
                                 kilni_location *ret_location, kiln_error *error);

/* Opens what is there. Statuses as kiln_store_open. */
kiln_status kilni_store_open_at(const kilni_location *where, kiln_store **ret_store,
                                kiln_error *error);

/* What a store there can do, once it is open: KILNI_STORE_…. */
uint32_t kilni_location_capabilities(const kilni_location *where);
/* Whether a text is a backend's name: safe as that of a folder, shorter than a hash's, which may
 * consist of letters too, and not that of the folder "v1". */
bool kilni_location_is_backend_name(const char *name);
