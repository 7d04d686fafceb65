/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry in words: where it came from and what decided it.
 */
#pragma once

#include <jansson.h>

#include <kiln/entry.h>

#include "../store/listing.h"

/* @entry  verified; the item's own */
void entry_print(const listed_item *item, const kiln_entry *entry);

json_t *entry_to_json(const listed_item *item, const kiln_entry *entry);
