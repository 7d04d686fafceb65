/* SPDX-License-Identifier: Apache-2.0 */
#include "store/signing/signers.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/error.h"
#include "os/clock.h"
#include "store/signing/secret_key.h"
#include "store/signing/trusted_keys.h"

kiln_status kilni_signers_refuse(const char *noun, kiln_error *error)
{
    return kilni_error_set(error, KILN_E_DENIED, 0,
                           "%s needs a trusted key (kiln key trust), a signing key (key-file=), or "
                           "on a server trust=any if everyone who can write to it may choose what "
                           "this machine runs",
                           noun);
}

static kiln_status read_trusted(const kilni_store_options *options, kilni_trusted_keys *trusted,
                                kiln_error *error)
{
    for (size_t i = 0; i < KILN_TRUSTED_KEY_FILES; i++) {
        const char *path = options->trusted_key_files[i];
        const kiln_status status = path ? kilni_trusted_keys_read(path, trusted, error) : KILN_MISS;
        if (status != KILN_OK && status != KILN_MISS) {
            return status;
        }
    }
    return KILN_OK;
}

/* Reads the secret key. The store then also believes its own signatures. Fails if the key is
 * revoked. */
static kiln_status read_secret(const kilni_store_options *options, kilni_signers *signers,
                               kiln_error *error)
{
    const kiln_status status =
        kilni_secret_key_read(options->secret_key_file, &signers->secret, error);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_public_key *own = &signers->secret.public_key;
    if (kilni_trusted_keys_have_revoked(&signers->trusted, own)) {
        return kilni_error_set(error, KILN_E_DENIED, 0, "secret key file %s: the key is revoked",
                               options->secret_key_file);
    }
    signers->can_sign = true;
    signers->valid_s = options->signature_valid_s;
    return kilni_trusted_keys_append(&signers->trusted, own, false) == KILN_OK
               ? KILN_OK
               : kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
}

static kiln_status read_all(const kilni_store_options *options, const char *noun,
                            kilni_signers *signers, kiln_error *error)
{
    kiln_status status = read_trusted(options, &signers->trusted, error);
    if (status == KILN_OK && options->secret_key_file) {
        status = read_secret(options, signers, error);
    }
    if (status == KILN_OK && !kilni_trusted_keys_are_any(&signers->trusted) &&
        !signers->believes_any && !options->key_file) {
        status = kilni_signers_refuse(noun, error);
    }
    return status;
}

kiln_status kilni_signers_read(const kilni_store_options *options, const char *noun,
                               kilni_signers **ret_signers, kiln_error *error)
{
    *ret_signers = NULL;
    if (options->trusts_any && !options->secret_key_file) {
        return KILN_OK;
    }
    kilni_signers *signers = calloc(1, sizeof *signers);
    if (!signers) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    signers->believes_any = options->trusts_any;
    const kiln_status status = read_all(options, noun, signers, error);
    if (status != KILN_OK) {
        kilni_signers_free(signers);
        return status;
    }
    *ret_signers = signers;
    return KILN_OK;
}

void kilni_signers_free(kilni_signers *signers)
{
    if (signers) {
        kilni_trusted_keys_done(&signers->trusted);
        sodium_memzero(signers, sizeof *signers);
        free(signers);
    }
}

bool kilni_signers_are_required(const kilni_signers *signers)
{
    return signers && !signers->believes_any;
}

kiln_status kilni_signers_adopt(const kilni_signers *signers, const kilni_signing_key *signing_key,
                                void *bytes, size_t size, const kiln_digest *hash,
                                kiln_entry **ret_entry)
{
    if (!kilni_signers_are_required(signers)) {
        return kilni_entry_adopt_hashed(bytes, size, hash, signing_key, ret_entry);
    }
    const kilni_entry_trust trust = {
        .signing_key = signing_key, .keys = &signers->trusted, .now_s = kilni_clock_unix_s()};
    return kilni_entry_adopt_trusted_hashed(bytes, size, hash, &trust, ret_entry);
}

bool kilni_signers_prepare(const kilni_signers *signers, kilni_entry_signer *ret_signer)
{
    if (!signers) {
        return false;
    }
    const int64_t now_s = kilni_clock_unix_s();
    *ret_signer = (kilni_entry_signer){
        .key = signers->can_sign ? &signers->secret : NULL,
        .trusted = &signers->trusted,
        .now_s = now_s,
        .expires_s = signers->valid_s > 0 ? now_s + (int64_t)signers->valid_s : 0,
    };
    return true;
}
