/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows an entry's origin and key, as text or as JSON.
 */
#pragma once

#include <jansson.h>

#include <kiln/entry.h>

#include "../store/listing.h"

/* @entry  the item's entry, which has been verified */
void entry_print(const listed_item *item, const kiln_entry *entry);

json_t *entry_to_json(const listed_item *item, const kiln_entry *entry);
