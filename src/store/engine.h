/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a store engine. open.c lists the engines. All other code looks only at the
 * capabilities of a store, not at its engine.
 */
#pragma once

#include "store/store.h"

typedef struct kilni_store_engine {
    const char *noun;           /* the name of such a store in messages, such as "a pack" */
    const char *scheme;         /* the scheme of the engine's URLs, with the colon */
    const char *const *options; /* the options that such a URL can have; NULL ends the list */

    /* Checks @text, the part of a URL that follows the scheme. @path points to where the path
     * begins in @text. Returns KILN_OK; KILN_E_PARSE. @error describes the failure. */
    kiln_status (*check_url)(const char *text, const char *path, kiln_error *error);

    /* Opens the store. @path is the location without its scheme and options. Its percent escapes
     * have been decoded. The statuses are those of kiln_store_open. */
    kiln_status (*open)(const char *path, const kilni_store_options *options,
                        kiln_store **ret_store, kiln_error *error);

    /* The size limit for entries, in bytes. Larger entries are neither put nor read. The user can
     * set a different limit. 0: the default limit for all stores. */
    uint64_t max_entry_bytes;

    /* True if the store is on a server to which other users might write. In that case the user must
     * name a trusted key, a secret key or a signing key, or the location must contain trust=any. */
    bool needs_trust;

    /* Returns the capabilities (KILNI_STORE_…) of a store that is opened with these flags
     * (KILN_STORE_…). */
    uint32_t (*capabilities)(uint32_t flags);
} kilni_store_engine;

/* Reads the key files that the options name, and then opens the store. The statuses are those of
 * kiln_store_open. */
kiln_status kilni_store_open_with(const kilni_store_engine *engine, const char *path,
                                  const kilni_store_options *options, kiln_store **ret_store,
                                  kiln_error *error);
