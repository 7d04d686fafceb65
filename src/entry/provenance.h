/* SPDX-License-Identifier: Apache-2.0
 *
 * The provenance section: two numbers and three texts.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/entry.h>

/* @ret_bytes  [out] to be given back with free
 * KILN_OK; KILN_E_NO_MEMORY. Texts that are too long are cut. */
kiln_status kilni_provenance_encode(const kiln_provenance *provenance, unsigned char **ret_bytes,
                                    size_t *ret_size);

/* The texts point into @bytes. KILN_OK; KILN_E_CORRUPT. */
kiln_status kilni_provenance_decode(const unsigned char *bytes, uint64_t size,
                                    kiln_provenance *ret_provenance);
