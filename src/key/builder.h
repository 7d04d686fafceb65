/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/key.h>

/* Appends all parts of a key: for what many keys begin with. The status of kiln_key_builder_add. */
kiln_status kilni_key_parts_add(const kiln_key *of, kiln_key_builder *builder);

/* Notes that the caller failed to make a part, as if the part could not be added. KILN_OK changes
 * nothing. Returns the first failure that the builder knows, or KILN_OK. */
kiln_status kilni_key_builder_fail(kiln_key_builder *builder, kiln_status failure);
