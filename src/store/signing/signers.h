/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a store on a server. These are the keys whose signatures the store believes, and the
 * key with which it signs.
 */
#pragma once

#include <stdbool.h>

#include "entry/entry.h"
#include "store/store.h"

typedef struct kilni_signers {
    bool believes_any; /* entries need no signature */
    bool can_sign;
    kilni_secret_key secret;    /* only set if can_sign is true */
    uint64_t valid_s;           /* how long new signatures are valid; 0: they do not expire */
    kilni_trusted_keys trusted; /* including the public key that belongs to the secret key */
} kilni_signers;

/* Sets @error to a message which says that the store has no key whose signatures it could believe.
 * Returns KILN_E_DENIED. */
kiln_status kilni_signers_refuse(const char *noun, kiln_error *error);

/* Reads the key files that the options name.
 *
 * @noun         names the store in messages
 * @ret_signers  [out] NULL: no signatures are made or required (MACs do not depend on this).
 *               Otherwise the caller must free the result with kilni_signers_free
 * Returns KILN_OK; KILN_E_DENIED: no key is trusted, the store's own key is revoked, or a file is
 * not trusted; KILN_E_PARSE; KILN_E_INVALID; KILN_E_TOO_LARGE; KILN_E_IO; KILN_E_NO_MEMORY. @error
 * describes the failure. */
kiln_status kilni_signers_read(const kilni_store_options *options, const char *noun,
                               kilni_signers **ret_signers, kiln_error *error);

/* Frees the keys. @signers can be NULL. */
void kilni_signers_free(kilni_signers *signers);

/* Returns true if entries without a valid signature are refused. @signers can be NULL. */
bool kilni_signers_are_required(const kilni_signers *signers);

/* Does the same as kilni_entry_adopt_hashed, for bytes that a server sent. Also checks that the
 * entry can be believed.
 *
 * @signing_key  the key of MACs; NULL: none. If signatures are required, an entry with a MAC of
 *               this key is also believed. If signatures are not required, every entry must have
 *               such a MAC */
kiln_status kilni_signers_adopt(const kilni_signers *signers, const kilni_signing_key *signing_key,
                                void *bytes, size_t size, const kiln_digest *hash,
                                kiln_entry **ret_entry);

/* Sets @ret_signer to how an entry is signed when it is put, and how the signatures that the entry
 * already has are checked. Returns false if neither is done. */
bool kilni_signers_prepare(const kilni_signers *signers, kilni_entry_signer *ret_signer);
