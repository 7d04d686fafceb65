/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer of an image: an archive that holds one pack. Functions that fail report the error, and
 * return an exit code.
 */
#pragma once

#include "blob.h"

/* Writes a layer that holds the file @pack under the name @name, owned by root, without times. */
int layer_write(const char *layout, const char *pack, const char *name, blob *ret_blob);

/* Copies a layer from one layout to another, and checks its digest and that it holds a pack. Writes
 * the pack to the file @pack. */
int layer_copy(const char *from, const char *digest, const char *into, const char *pack,
               blob *ret_blob);
