/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/key.h>

/* Appends all parts of a key: for what many keys begin with. KILN_OK; KILN_E_NO_MEMORY;
 * KILN_E_TOO_LARGE. */
kiln_status kilni_key_parts_add(const kiln_key *of, kiln_key_builder *builder);
