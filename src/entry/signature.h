/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of entries: Ed25519, over a hash of the entry's content. A signature does not depend
 * on whether the entry's key is stripped, so it stays valid when the key is stripped or becomes
 * whole again. docs/format.md describes signatures.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/signature.h>

#include "entry/structure.h"

/* The size of the largest signature section. */
#define KILNI_SIGNATURE_MAX_SIZE (176u + KILN_SIGNER_NAME_SIZE - 1u)

/* A key pair. */
typedef struct kilni_secret_key {
    kiln_public_key public_key;
    unsigned char bytes[64]; /* in libsodium's form: 32 random bytes, then the public key */
} kilni_secret_key;

typedef struct kilni_trusted_key {
    kiln_public_key key;
    bool is_revoked;
} kilni_trusted_key;

/* The trusted keys, whose signatures are believed, and the revoked keys. If a key is in the list
 * both as trusted and as revoked, it is revoked. */
typedef struct kilni_trusted_keys {
    kilni_trusted_key *keys;
    size_t count;
} kilni_trusted_keys;

/* Returns true if the @length bytes are a valid name of a key. */
bool kilni_public_key_is_name(const char *bytes, size_t length);

/* Derives a key pair from 32 random bytes. Does not change the name of @key. */
void kilni_secret_key_from_seed(const unsigned char seed[32], kilni_secret_key *key);

/* Returns the size of a signature section by @signer. */
size_t kilni_signature_section_size(const kiln_public_key *signer);

/* Signs the content of an entry.
 *
 * @structure    the entry's; the new signature does not cover an existing signature
 * @key          the entry's, stripped or not
 * @plain        the payload before compression
 * @ret_section  [out] kilni_signature_section_size bytes: the content of the section
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_structure_sign(const kilni_entry_structure *structure, const kiln_key *key,
                                       kiln_bytes plain, const kilni_secret_key *secret,
                                       int64_t expires_s, unsigned char *ret_section);

/* Checks the signature of an entry. The payload is not decompressed.
 *
 * @key    the entry's, stripped or not
 * @now_s  Unix seconds
 * Returns KILN_OK; KILN_E_UNAUTHENTICATED: there is no signature, its key is revoked or not
 * trusted, it has expired, or it does not match the content; KILN_E_NO_MEMORY. */
kiln_status kilni_entry_structure_verify(const kilni_entry_structure *structure,
                                         const kiln_key *key, const kilni_trusted_keys *trusted,
                                         int64_t now_s);

/* Returns true if the entry's signature covers the form in which the payload is stored: plain, or
 * exactly as the signer compressed it. Also returns true if there is no signature. The signature
 * itself is not checked. */
bool kilni_entry_has_signed_payload(const kiln_entry *entry);

/* Checks the signature of an entry in memory. */
kiln_status kilni_entry_verify(const kiln_entry *entry, const kilni_trusted_keys *trusted,
                               int64_t now_s);
