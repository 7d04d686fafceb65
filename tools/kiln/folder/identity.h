/* SPDX-License-Identifier: Apache-2.0
 *
 * What must be equal on two machines before one uses the folder of the other.
 */
#pragma once

#include <kiln/key.h>

#include "cache_table.h"

/* Returns the key of a folder's list of files; the caller releases it.
 *
 * @path  the folder's path */
kiln_key *identity_key(const folder_cache *cache, const char *path);
