/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry, for people and as JSON: where it came from and its key.
 */
#pragma once

#include <jansson.h>

#include <kiln/entry.h>

#include "../store/listing.h"

/* @entry  the item's entry, verified */
void entry_print(const listed_item *item, const kiln_entry *entry);

json_t *entry_to_json(const listed_item *item, const kiln_entry *entry);
