/* SPDX-License-Identifier: Apache-2.0
 *
 * The provenance section: two numbers and three texts.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

/* Encodes the section, and truncates texts that are too long.
 * @ret_bytes  [out] freed by the caller, with free
 * Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_provenance_encode(const kiln_provenance *provenance, unsigned char **ret_bytes,
                                    size_t *ret_size);

/* Decodes the section; the texts point into @bytes. Returns KILN_OK or KILN_E_CORRUPT. */
kiln_status kilni_provenance_decode(const unsigned char *bytes, uint64_t size,
                                    kiln_provenance *ret_provenance);
