/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and texts in stored data, little-endian. A text consists of its length as u32, its bytes,
 * and a zero byte. The length does not include the zero byte.
 */
#pragma once

#include <kiln/status.h>

#include "base/bytes.h"
#include "base/text.h"

/* Each returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_append_number(kilni_text *to, uint64_t value, size_t width);
kiln_status kilni_append_text(kilni_text *to, const char *text);

/* Returns a pointer to a text within the data, or NULL if the text is damaged. */
const char *kilni_read_text(kilni_byte_reader *reader);
