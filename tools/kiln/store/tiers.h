/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stores of a chain did, and which of them are not asked at present, for `kiln stats` and
 * `kiln doctor`.
 */
#pragma once

#include <jansson.h>

#include <kiln/store_tools.h>

/* Returns an array with an object for each tier, which is empty if @store is no chain or NULL. The
 * caller owns the only reference. */
json_t *tiers_to_json(kiln_store *store);

/* Returns a text that says why a tier is not asked and when it is tried again, or NULL if it is
 * asked. The caller frees the text.
 *
 * @tier  an object of tiers_to_json */
char *tier_outage(const json_t *tier);

/* Prints a table of the tiers on stdout. */
void tiers_print(const json_t *tiers);
