/* SPDX-License-Identifier: Apache-2.0
 *
 * What an engine of stores tells of itself. open.c lists the engines. Nobody else asks which engine
 * a store has: what it can do decides.
 */
#pragma once

#include "store/store.h"

typedef struct kilni_store_engine {
    const char *noun;           /* for people, as in "a pack" */
    const char *scheme;         /* of its URLs, with the colon */
    const char *const *options; /* that such a URL may have; ends with NULL */

    /* Checks what follows the scheme. @path is where the path begins in @text. Returns KILN_OK;
     * KILN_E_PARSE, which is described in @error. */
    kiln_status (*check_url)(const char *text, const char *path, kiln_error *error);

    /* @path is not a URL any more. Statuses as kiln_store_open. */
    kiln_status (*open)(const char *path, const kilni_store_options *options,
                        kiln_store **ret_store, kiln_error *error);

    /* KILNI_STORE_… of a store that is opened with these flags, KILN_STORE_…. */
    uint32_t (*capabilities)(uint32_t flags);
} kilni_store_engine;

/* Opens a store, and reads the key file that the options name. Statuses as kiln_store_open. */
kiln_status kilni_store_open_with(const kilni_store_engine *engine, const char *path,
                                  const kilni_store_options *options, kiln_store **ret_store,
                                  kiln_error *error);
