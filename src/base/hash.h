/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include <kiln/key.h>

/* XXH3-128 in canonical (big-endian) form, by the widest instructions that this processor has. */
kiln_digest kilni_hash(const void *bytes, size_t size);
