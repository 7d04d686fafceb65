/* SPDX-License-Identifier: Apache-2.0 */
#include "entry/entry.h"

#define STRIP_ABOVE 32u /* the size of a digest: smaller parts would grow */

/* Each of the following functions replaces an entry with a changed copy. */

static void replace(kiln_entry **entry, kiln_entry *made)
{
    kiln_entry_release(entry);
    *entry = made;
}

static kiln_status strip(kiln_entry **entry)
{
    kiln_key *stripped = NULL;
    kiln_entry *made = NULL;
    kiln_status status = kiln_key_strip(kiln_entry_key(*entry), STRIP_ABOVE, &stripped);
    if (status == KILN_OK) {
        status = kilni_entry_make_plain(*entry, stripped, &made);
    }
    if (status == KILN_OK) {
        replace(entry, made);
    }
    kiln_key_release(&stripped);
    return status;
}

/* Leaves the entry unchanged if its signature does not cover the compressed payload. */
static kiln_status compress(kiln_entry **entry, int level)
{
    kiln_entry *made = NULL;
    kiln_status status = kilni_entry_compress(*entry, level, &made);
    if (status == KILN_OK && kilni_entry_has_signed_payload(made)) {
        replace(entry, made);
        return KILN_OK;
    }
    kiln_entry_release(&made);
    return status;
}

static kiln_status add_mac(kiln_entry **entry, const kilni_signing_key *key)
{
    kiln_entry *made = NULL;
    kiln_status status = kilni_entry_add_mac(*entry, key, &made);
    if (status == KILN_OK) {
        replace(entry, made);
    }
    return status;
}

static kiln_status sign(kiln_entry **entry, const kilni_entry_signer *signer)
{
    kiln_entry *made = NULL;
    const kiln_status status = kilni_entry_sign(*entry, signer->key, signer->expires_s, &made);
    if (status == KILN_OK) {
        replace(entry, made);
    }
    return status;
}

/* Returns true if the entry has a signature section, even if its content is not valid. */
static bool has_signature(const kiln_entry *entry)
{
    kiln_signature signature = {.struct_size = sizeof signature};
    return kiln_entry_get_signature(entry, &signature) != KILN_MISS;
}

kiln_status kilni_entry_prepare(const kiln_entry *entry, const kilni_entry_form *form,
                                kiln_entry **ret_entry)
{
    const kilni_entry_signer *signer = form->signer;
    const bool is_signed = has_signature(entry);
    kiln_status status =
        signer && is_signed ? kilni_entry_verify(entry, signer->trusted, signer->now_s) : KILN_OK;
    if (status != KILN_OK) {
        return status;
    }
    kiln_entry *prepared = kiln_entry_retain(entry);
    status = form->is_stripped ? strip(&prepared) : KILN_OK;
    if (status == KILN_OK && form->level > 0) {
        status = compress(&prepared, form->level);
    }
    if (status == KILN_OK && signer && signer->key && !is_signed) {
        status = sign(&prepared, signer);
    }
    if (status == KILN_OK && form->signing_key) {
        status = add_mac(&prepared, form->signing_key);
    }
    if (status != KILN_OK) {
        kiln_entry_release(&prepared);
        return status;
    }
    *ret_entry = prepared;
    return KILN_OK;
}
