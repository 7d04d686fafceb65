/* SPDX-License-Identifier: Apache-2.0
 *
 * The URL of a store: what docs/stores.md says of URLs, from the other side.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

typedef struct kilni_store_url {
    const char *dir;       /* an absolute path, or one that begins with "./" */
    bool is_location;      /* @dir may also be a URL, or several tiers of a chain */
    const char *layout;    /* NULL: the store's default */
    const char *policy;    /* NULL: the store's default */
    uint64_t max_bytes;    /* KILN_UNLIMITED is spelled out */
    uint64_t max_age_days; /* 0: no limit */
    bool readonly;
    const char *key_file; /* NULL: none */
} kilni_store_url;

/* @ret_text  [out] to be given back with free. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_store_url_make(const kilni_store_url *url, char **ret_text);
