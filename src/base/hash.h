/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include <kiln/key.h>

/* XXH3-128 in canonical (big-endian) form, by the widest instructions that this processor has. */
kiln_digest kilni_hash(const void *bytes, size_t size);

/* The same of bytes that come piece by piece. */
typedef struct kilni_hash_stream kilni_hash_stream;

/* NULL for want of memory. */
kilni_hash_stream *kilni_hash_stream_new(void);
void kilni_hash_stream_add(kilni_hash_stream *stream, const void *bytes, size_t size);
/* Of all that was added so far. */
kiln_digest kilni_hash_stream_digest(const kilni_hash_stream *stream);
/* Takes NULL. */
void kilni_hash_stream_free(kilni_hash_stream *stream);
