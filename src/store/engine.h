/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a store engine. open.c lists the engines. No other code asks which engine a
 * store has: it decides by what the store can do.
 */
#pragma once

#include "store/store.h"

typedef struct kilni_store_engine {
    const char *noun;           /* in messages, as in "a pack" */
    const char *scheme;         /* of the engine's URLs, with the colon */
    const char *const *options; /* that such a URL may have; ends with NULL */

    /* Checks what follows the scheme. @path is where the path begins in @text. Returns KILN_OK;
     * KILN_E_PARSE. @error describes the failure. */
    kiln_status (*check_url)(const char *text, const char *path, kiln_error *error);

    /* Opens the store. @path is a plain path, no longer a URL. Statuses as kiln_store_open. */
    kiln_status (*open)(const char *path, const kilni_store_options *options,
                        kiln_store **ret_store, kiln_error *error);

    /* Returns the capabilities (KILNI_STORE_…) of a store that is opened with these flags
     * (KILN_STORE_…). */
    uint32_t (*capabilities)(uint32_t flags);
} kilni_store_engine;

/* Opens a store, after reading the key file that the options name. Statuses as kiln_store_open. */
kiln_status kilni_store_open_with(const kilni_store_engine *engine, const char *path,
                                  const kilni_store_options *options, kiln_store **ret_store,
                                  kiln_error *error);
