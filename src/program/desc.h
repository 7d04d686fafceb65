/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of programs. A description contains what a program is built from, and the program's
 * keys.
 */
#pragma once

#include <pthread.h>

#include "program/context.h"

/* A description is immutable, except for what its lock guards. It owns its code and its texts. */
struct kiln_program_desc {
    _Atomic size_t references; /* increments are relaxed; decrements acquire and release, so that
                                  the decrement to 0 sees all earlier changes */
    kiln_program_context *context; /* one reference */
    const kiln_device_ops *ops;    /* the context's; may be called as long as a program exists */
    void *device_handle;           /* the device for which the program is built */
    /* The first device that shares the programs of the requested one. */
    const kilni_program_device *device;
    size_t device_index;

    kiln_program_source source; /* its options: the compiler's and the linker's, joined; for a link,
                                   only the linker's */
    kiln_spec_constant *constants;
    char *compile_options, *link_options; /* NULL: none */
    kiln_program_desc **linked;           /* one reference each */
    size_t linked_count;
    uint64_t code_bytes; /* size of its own code, or of everything that is linked */
    uint32_t origin;     /* KILN_ORIGIN_IMAGE or _SOURCE */
    uint64_t image;

    kiln_key *key;        /* in stores; NULL: the inputs are unknown */
    kiln_key *revisions;  /* of the source, or of each linked source; NULL: the ops report none */
    kiln_key *memory_key; /* the key in the programs map. It has the parts of @key, the device and
                             the revisions; digests replace long parts, so that equal keys are
                             compared quickly. NULL: the program is never in the map */
    uint32_t uncached;    /* a kiln_uncached: why there are no keys */
    char uncached_text[sizeof((kiln_error *)NULL)->text];

    pthread_mutex_t lock; /* guards blob_key, which is made on demand */
    kiln_key *blob_key;
};

/* Makes the program's key in stores from the present inputs.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the inputs are unknown; KILN_E_NO_MEMORY; what describe
 * returns. */
kiln_status kilni_desc_make_key(const kiln_program_desc *desc, kiln_key **ret_key,
                                kiln_error *error);

/* Checks that the key is still the same as when the description was made.
 *
 * @with_revision  whether to check the revisions too
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the key or the revisions differ, or are unknown now;
 * KILN_E_NO_MEMORY; what describe or revision returns. Blocks: while the backend examines the
 * inputs. */
kiln_status kilni_desc_check(const kiln_program_desc *desc, bool with_revision);

/* Returns the source that the compiler gets for a program that will be linked later. The source is
 * valid as long as @desc exists. */
kiln_program_source kilni_desc_compiled_source(const kiln_program_desc *desc);

/* Returns the key of the program's blobs. kiln_program_desc_cache_blob_id returns the encoding of
 * this key.
 *
 * @ret_key  [out] owned by @desc; NULL: there are no blobs
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_desc_blob_key(const kiln_program_desc *desc, const kiln_key **ret_key);

/* Makes a key for the maps. It is like @key, but the sizes and cryptographic digests of long parts
 * replace these parts. */
kiln_status kilni_desc_strip(const kiln_key *key, kiln_key **ret_stripped);
