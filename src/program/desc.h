/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of programs: what they are built from, and the keys that follow from that.
 */
#pragma once

#include <pthread.h>

#include "program/context.h"

/* Immutable, but for what the lock guards. Code and texts are its own. */
struct kiln_program_desc {
    _Atomic size_t references;     /* grows relaxed; what brings it to 0 acquires and releases */
    kiln_program_context *context; /* one reference */
    const kiln_device_ops *ops;    /* the context's, and may be called as long as programs live */
    void *device_handle;           /* of the device for which it is built */
    const kilni_program_device *device; /* the one that was asked for */
    size_t device_index;

    kiln_program_source
        source; /* options: compiler's and linker's joined; of a link the linker's */
    kiln_spec_constant *constants;
    char *compile_options, *link_options; /* NULL: none */
    kiln_program_desc **linked;           /* one reference each */
    size_t linked_count;
    uint64_t code_bytes; /* its own, or all that is linked */
    uint32_t origin;     /* KILN_ORIGIN_IMAGE or _SOURCE */
    uint64_t image;

    kiln_key *key;        /* in stores; NULL: can't be told */
    kiln_key *revisions;  /* of the source, or of each that is linked; NULL: the ops tell none */
    kiln_key *memory_key; /* in the programs map; of the same parts, but for the device and the
                             revisions, and all that are long by their digests, so that an equal
                             description's is compared as quickly. NULL: the map never has it */
    uint32_t untold;      /* kiln_uncached: why there are no keys */
    char untold_text[sizeof((kiln_error *)NULL)->text];

    pthread_mutex_t lock; /* guards blob_key, which is made when it is asked for first */
    kiln_key *blob_key;
};

/* Makes the key that the store has it under anew, from what is true now.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: can't be told; KILN_E_NO_MEMORY; what describe returns. */
kiln_status kilni_desc_make_key(const kiln_program_desc *desc, kiln_key **ret_key,
                                kiln_error *error);

/* Whether the key is the same as when the description was made.
 *
 * @with_revision  and the revisions
 * Returns KILN_OK; KILN_E_UNSUPPORTED: they are others, or can't be told any more;
 * KILN_E_NO_MEMORY; what describe returns. Blocks: on what the backend looks at. */
kiln_status kilni_desc_check(const kiln_program_desc *desc, bool with_revision);

/* What the compiler is given for a program that is going to be linked. Lives as long as @desc. */
kiln_program_source kilni_desc_compiled_source(const kiln_program_desc *desc);

/* The key of its blobs: what kiln_program_desc_cache_blob_id gives the encoding of.
 *
 * @ret_key  [out] @desc's own; NULL: it has none
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_desc_blob_key(const kiln_program_desc *desc, const kiln_key **ret_key);

/* A key for the maps: long parts by size and cryptographic digest. */
kiln_status kilni_desc_strip(const kiln_key *key, kiln_key **ret_stripped);
