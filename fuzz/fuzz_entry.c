/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes any bytes as an entry, once as they are and once with the size and the checksum
 * corrected, because no fuzzer guesses those. An entry that decodes is inspected, signed,
 * compressed and decoded again.
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

static void make_others(const kiln_entry *entry)
{
    static const kilni_signing_key key;
    kiln_entry *other = NULL;
    if (kilni_entry_sign(entry, &key, &other) == KILN_OK) {
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
    kilni_entry_head head;
    if (kilni_entry_head_decode(bytes, size, size, &head) == KILN_OK) {
        volatile size_t seen = strlen(head.tool) + strlen(head.device) + strlen(head.name);
        (void)seen;
    }
    kiln_entry *entry = NULL;
    if (kiln_entry_decode(bytes, size, &entry) == KILN_OK) {
        look_at(entry);
        make_others(entry);
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
