/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of one page of a listing. Names that do not belong to entries are skipped.
 */
#pragma once

#include "store/remote/remote.h"

/* An entry, and what the listing says about it, as in kilni_remote_listed. */
typedef struct kilni_listed_entry {
    kiln_digest digest;
    uint64_t size, put_s;
} kilni_listed_entry;

typedef struct kilni_name_page {
    const kilni_remote_naming *naming;
    kilni_listed_entry *entries;
    size_t count, capacity;
    bool has_failed; /* memory ran out */
} kilni_name_page;

/* Adds a name to the page. It is a kilni_remote_visit_fn, whose @user is the page. */
void kilni_name_page_add(void *user, const kilni_remote_listed *listed);
