/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes any bytes as an entry, once as they are and once with the size and the checksum
 * corrected, because no fuzzer guesses those; both times also as an entry that must have a
 * signature. An entry that decodes is inspected, signed in both ways, compressed, stripped and
 * decoded again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/entry.h>

#include "entry/entry.h"
#include "entry/handle.h"
#include "entry/structure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* Reads every byte, so that a sanitizer detects bytes that do not belong to the entry. */
static unsigned touch(kiln_bytes bytes)
{
    unsigned sum = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        sum += ((const unsigned char *)bytes.data)[i];
    }
    return sum;
}

static void look_at(const kiln_entry *entry)
{
    kiln_provenance provenance = kiln_entry_provenance(entry);
    volatile size_t seen =
        strlen(provenance.tool) + strlen(provenance.device) + strlen(provenance.name);
    seen += touch(kiln_entry_answers(entry)) + touch(kiln_entry_log(entry)) +
            touch(kiln_entry_payload(entry));
    (void)seen;
    require(kiln_key_equals(kiln_entry_key(entry), kiln_entry_key(entry)));
}

static void require_same_content(const kiln_entry *a, const kiln_entry *b)
{
    kiln_bytes payload_a = kiln_entry_payload(a), payload_b = kiln_entry_payload(b);
    require(payload_a.size == payload_b.size &&
            (payload_a.size == 0 || memcmp(payload_a.data, payload_b.data, payload_a.size) == 0));
    require(kiln_key_equals(kiln_entry_key(a), kiln_entry_key(b)));
}

#define NOW_S 1800000000

/* The key of golden.h. The fuzzer's seeds have its signatures. */
static kilni_secret_key team_key(void)
{
    unsigned char seed[32];
    for (unsigned i = 0; i < sizeof seed; i++) {
        seed[i] = (unsigned char)i;
    }
    kilni_secret_key key = {.public_key.name = "team-1"};
    kilni_secret_key_from_seed(seed, &key);
    return key;
}

static kiln_status adopt(const void *bytes, size_t size, kiln_entry **ret_entry)
{
    kilni_trusted_key team = {.key = team_key().public_key};
    const kilni_trusted_keys trusted = {&team, 1};
    const kilni_entry_trust trust = {.keys = &trusted, .now_s = NOW_S};
    void *copy = malloc(size > 0 ? size : 1);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    const kiln_status status = kilni_entry_adopt_trusted(copy, size, &trust, ret_entry);
    if (status != KILN_OK) {
        free(copy);
    }
    return status;
}

/* A signature is believed, and remains so when the key is stripped. */
static void sign_with_key(const kiln_entry *entry)
{
    const kilni_secret_key key = team_key();
    kiln_entry *other = NULL, *adopted = NULL, *stripped = NULL;
    kiln_key *short_key = NULL;
    if (kilni_entry_sign(entry, &key, NOW_S + 1, &other) != KILN_OK) {
        return;
    }
    kiln_bytes bytes = kiln_entry_encoding(other);
    require(adopt(bytes.data, bytes.size, &adopted) == KILN_OK);
    require_same_content(entry, adopted);
    if (kiln_key_strip(kiln_entry_key(other), 8, &short_key) == KILN_OK &&
        kilni_entry_make_plain(other, short_key, &stripped) == KILN_OK) {
        kiln_entry_release(&adopted);
        bytes = kiln_entry_encoding(stripped);
        require(adopt(bytes.data, bytes.size, &adopted) == KILN_OK);
        require_same_content(entry, adopted);
    }
    kiln_key_release(&short_key);
    kiln_entry_release(&stripped);
    kiln_entry_release(&adopted);
    kiln_entry_release(&other);
}

static void make_others(const kiln_entry *entry)
{
    static const kilni_signing_key key;
    kiln_entry *other = NULL;
    if (kilni_entry_add_mac(entry, &key, &other) == KILN_OK) {
        const kiln_bytes bytes = kiln_entry_encoding(other);
        kilni_entry_structure structure;
        require(kilni_entry_structure_decode(bytes.data, bytes.size, &structure) == KILN_OK);
        require(kilni_entry_structure_authenticate(bytes.data, &structure, &key) == KILN_OK);
        require_same_content(entry, other);
        kiln_entry_release(&other);
    }
    if (kilni_entry_compress(entry, 1, &other) == KILN_OK) {
        require_same_content(entry, other);
        kiln_bytes bytes = kiln_entry_encoding(other);
        kiln_entry *again = NULL;
        require(kiln_entry_decode(bytes.data, bytes.size, &again) == KILN_OK);
        require_same_content(entry, again);
        kiln_entry_release(&again);
        kiln_entry_release(&other);
    }
}

static void decode(const uint8_t *bytes, size_t size)
{
    kilni_entry_preview head;
    if (kilni_entry_preview_decode(bytes, size, size, &head) == KILN_OK) {
        volatile size_t seen = strlen(head.tool) + strlen(head.device) + strlen(head.name);
        (void)seen;
    }
    kiln_entry *entry = NULL;
    if (kiln_entry_decode(bytes, size, &entry) == KILN_OK) {
        look_at(entry);
        make_others(entry);
        sign_with_key(entry);
        kiln_entry_release(&entry);
    }
    if (adopt(bytes, size, &entry) == KILN_OK) {
        kiln_signature signature = {.struct_size = sizeof signature};
        look_at(entry);
        require(kiln_entry_get_signature(entry, &signature) == KILN_OK);
        kiln_entry_release(&entry);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = calloc(1, size > 0 ? size : 1);
    if (!bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    decode(bytes, size);
    if (size >= KILNI_ENTRY_MIN_SIZE) {
        for (size_t i = 0; i < 8; i++) {
            bytes[16 + i] = (uint8_t)((uint64_t)size >> (8 * i));
        }
        kilni_entry_seal(bytes, size);
        decode(bytes, size);
    }
    free(bytes);
    return 0;
}
