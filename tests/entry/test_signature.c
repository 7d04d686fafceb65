/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests signatures of entries: what a signature covers, whose signatures a store trusts, and that
 * it trusts nothing else. test_signature COUNT tries COUNT altered entries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/entry.h>
#include <kiln/signature.h>

#include "entry/entry.h"
#include "entry/signature.h"
#include "entry/structure.h"
#include "support/failing_malloc.h"
#include "support/golden.h"

#define NOW_S 1800000000

static uint64_t alterations = 5000;

/* ---- helpers ---- */

static kilni_secret_key secret_of(unsigned char number, const char *name)
{
    unsigned char seed[32];
    for (unsigned i = 0; i < sizeof seed; i++) {
        seed[i] = (unsigned char)(i + number);
    }
    kilni_secret_key key = {0};
    snprintf(key.public_key.name, sizeof key.public_key.name, "%s", name);
    kilni_secret_key_from_seed(seed, &key);
    return key;
}

/* The list of trusted keys in most tests: keys 0 and 50. The last line revokes key 50. */
static kilni_trusted_key team[3];
static const kilni_trusted_keys trusted = {team, 3};

static int set_up(void **state)
{
    (void)state;
    team[0] = (kilni_trusted_key){.key = secret_of(0, "team-1").public_key};
    team[1] = (kilni_trusted_key){.key = secret_of(50, "team-2").public_key};
    team[2] = (kilni_trusted_key){.key = team[1].key, .is_revoked = true};
    return 0;
}

/* Returns the status with which a store that requires signatures adopts some bytes. */
static kiln_status adopt(const void *bytes, size_t size, const kilni_trusted_keys *keys,
                         int64_t now_s, kiln_entry **ret_entry)
{
    void *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    const kilni_entry_trust trust = {.keys = keys, .now_s = now_s};
    const kiln_status status = kilni_entry_adopt_trusted(copy, size, &trust, ret_entry);
    if (status != KILN_OK) {
        free(copy);
    }
    return status;
}

static kiln_status judge_by(const kiln_entry *entry, const kilni_trusted_keys *keys, int64_t now_s)
{
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    kiln_entry *adopted = NULL;
    const kiln_status status = adopt(bytes.data, bytes.size, keys, now_s, &adopted);
    kiln_entry_release(&adopted);
    return status;
}

static kiln_status judge(const kiln_entry *entry)
{
    return judge_by(entry, &trusted, NOW_S);
}

static kiln_entry *make(uint64_t number, size_t payload_size)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    char text[200];
    memset(text, 'a' + (int)(number % 26), sizeof text);
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "device", "a device of tests"), KILN_OK);
    assert_int_equal(kiln_key_builder_add_number(builder, "number", number), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "source", text, sizeof text), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    unsigned char *payload = malloc(payload_size + 1);
    assert_non_null(payload);
    for (size_t i = 0; i < payload_size; i++) {
        payload[i] = (unsigned char)(i / 20 + number);
    }
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .device = number % 2 ? "an odd device" : "an even device",
                       .name = "f",
                       .build_ns = number,
                       .created_s = 1700000000},
        .answers = {"\1\2\3", 3},
        .log = {"warning", 7},
        .payload = {payload, payload_size},
    };
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    free(payload);
    kiln_key_release(&key);
    return entry;
}

static kiln_entry *sign(const kiln_entry *entry, const kilni_secret_key *key, int64_t expires_s)
{
    kiln_entry *made = NULL;
    assert_int_equal(kilni_entry_sign(entry, key, expires_s, &made), KILN_OK);
    return made;
}

static kiln_entry *compress(const kiln_entry *entry)
{
    kiln_entry *made = NULL;
    assert_int_equal(kilni_entry_compress(entry, 3, &made), KILN_OK);
    return made;
}

static kiln_entry *strip(const kiln_entry *entry, uint64_t above)
{
    kiln_key *stripped = NULL;
    kiln_entry *made = NULL;
    assert_int_equal(kiln_key_strip(kiln_entry_key(entry), above, &stripped), KILN_OK);
    assert_int_equal(kilni_entry_make_plain(entry, stripped, &made), KILN_OK);
    kiln_key_release(&stripped);
    return made;
}

/* ---- keys as text ---- */

#define TEAM_1 "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

static void test_public_keys_are_texts(void **state)
{
    (void)state;
    char text[KILN_PUBLIC_KEY_TEXT_SIZE];
    kiln_public_key_format(&team[0].key, text);
    assert_string_equal(text, TEAM_1);
    kiln_public_key key;
    assert_int_equal(kiln_public_key_parse(text, &key), KILN_OK);
    assert_memory_equal(&key, &team[0].key, sizeof key);

    char longest[KILN_PUBLIC_KEY_TEXT_SIZE + 1] = "";
    memset(longest, 'x', KILN_SIGNER_NAME_SIZE - 1);
    strcat(longest, &TEAM_1[6]);
    assert_int_equal(strlen(longest), KILN_PUBLIC_KEY_TEXT_SIZE - 1);
    assert_int_equal(kiln_public_key_parse(longest, &key), KILN_OK);
    kiln_public_key_format(&key, text);
    assert_string_equal(text, longest);
    memmove(longest + 1, longest, KILN_PUBLIC_KEY_TEXT_SIZE - 1);
    assert_int_equal(kiln_public_key_parse(longest, &key), KILN_E_PARSE);
}

static void test_other_texts_are_no_keys(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "team-1",
        "team-1:",
        ":A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
        "-team:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
        "te am:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
        "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg",
        "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg==",
        "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbh=", /* bits beyond the last byte */
        "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVM*g=",
        "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg= ",
        "team-1:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMb==",
    };
    kiln_public_key key;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(kiln_public_key_parse(texts[i], &key), KILN_E_PARSE);
    }
    assert_int_equal(kiln_public_key_parse(NULL, &key), KILN_E_INVALID);
}

/* ---- what is signed ---- */

static void test_golden_signature(void **state)
{
    (void)state;
    const kilni_secret_key key = secret_of(0, "team-1");
    kiln_entry *plain = NULL, *adopted = NULL;
    assert_int_equal(kiln_entry_decode(golden_entry, sizeof golden_entry, &plain), KILN_OK);
    kiln_entry *made = sign(plain, &key, 2000000000);
    const kiln_bytes bytes = kiln_entry_encoding(made);
    assert_int_equal(bytes.size, sizeof golden_entry_with_signature);
    assert_memory_equal(bytes.data, golden_entry_with_signature, bytes.size);
    assert_int_equal(adopt(golden_entry_with_signature, sizeof golden_entry_with_signature,
                           &trusted, NOW_S, &adopted),
                     KILN_OK);
    assert_true(kilni_entry_equals(adopted, plain));
    kiln_entry_release(&adopted);
    /* A reader that requires no signature, or is older than signatures, skips the section. */
    assert_int_equal(kiln_entry_decode(golden_entry_with_signature,
                                       sizeof golden_entry_with_signature, &adopted),
                     KILN_OK);
    assert_true(kilni_entry_equals(adopted, plain));

    kiln_signature signature = {.struct_size = sizeof signature};
    assert_int_equal(kiln_entry_get_signature(adopted, &signature), KILN_OK);
    assert_string_equal(signature.signer.name, "team-1");
    assert_memory_equal(signature.signer.bytes, key.public_key.bytes, 32);
    assert_int_equal(signature.expires_s, 2000000000);
    assert_int_equal(kiln_entry_get_signature(plain, &signature), KILN_MISS);
    assert_int_equal(judge(plain), KILN_E_UNAUTHENTICATED);
    assert_int_equal(kiln_entry_get_signature(NULL, &signature), KILN_E_INVALID);
    kiln_entry_release(&adopted);
    kiln_entry_release(&made);
    kiln_entry_release(&plain);
}

/* A signature covers the stripped form of the key, which can be made from any other form. */
static void test_every_form_of_the_key_keeps_the_signature(void **state)
{
    (void)state;
    const kilni_secret_key key = secret_of(0, "team-1");
    kiln_entry *whole = make(1, 5000);
    kiln_entry *made = sign(whole, &key, 0);
    assert_int_equal(judge(made), KILN_OK);
    for (uint64_t above = 0; above < 300; above += 50) {
        kiln_entry *stripped = strip(made, above);
        assert_int_equal(judge(stripped), KILN_OK);
        kiln_entry *again = NULL;
        assert_int_equal(kilni_entry_make_plain(stripped, kiln_entry_key(whole), &again), KILN_OK);
        assert_int_equal(judge(again), KILN_OK);
        kiln_entry_release(&again);
        again = strip(whole, above);
        kiln_entry *signed_stripped = sign(again, &key, 0);
        kiln_entry *restored = NULL;
        assert_int_equal(kilni_entry_make_plain(signed_stripped, kiln_entry_key(whole), &restored),
                         KILN_OK);
        assert_int_equal(judge(restored), KILN_OK);
        kiln_entry_release(&restored);
        kiln_entry_release(&signed_stripped);
        kiln_entry_release(&again);
        kiln_entry_release(&stripped);
    }
    kiln_entry_release(&made);
    kiln_entry_release(&whole);
}

/* A compressed payload is trusted only in the form in which the signer compressed it, so that
 * nothing from a stranger is decompressed. */
static void test_forms_of_the_payload(void **state)
{
    (void)state;
    const kilni_secret_key key = secret_of(0, "team-1");
    kiln_entry *plain = make(1, 5000);
    kiln_entry *compressed = compress(plain);
    kiln_entry *made = sign(compressed, &key, 0);
    assert_int_equal(judge(made), KILN_OK);
    kiln_entry *unpacked = NULL;
    assert_int_equal(kilni_entry_make_plain(made, NULL, &unpacked), KILN_OK);
    assert_int_equal(judge(unpacked), KILN_OK);
    kiln_entry *again = compress(unpacked);
    assert_int_equal(judge(again), KILN_OK);
    kiln_entry_release(&again);
    assert_int_equal(kilni_entry_compress(unpacked, 12, &again), KILN_OK);
    const bool is_same = kiln_entry_encoding(again).size == kiln_entry_encoding(made).size &&
                         memcmp(kiln_entry_encoding(again).data, kiln_entry_encoding(made).data,
                                kiln_entry_encoding(made).size) == 0;
    assert_int_equal(judge(again), is_same ? KILN_OK : KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&again);
    kiln_entry *made_plain = sign(plain, &key, 0);
    again = compress(made_plain);
    assert_int_equal(judge(again), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&again);
    kiln_entry_release(&made_plain);
    kiln_entry_release(&unpacked);
    kiln_entry_release(&made);
    kiln_entry_release(&compressed);
    kiln_entry_release(&plain);
}

static void test_a_mac_and_a_signature(void **state)
{
    (void)state;
    static const kilni_signing_key signing_key = {{1}}, other_key = {{2}};
    const kilni_secret_key key = secret_of(0, "team-1"), stranger = secret_of(9, "team-1");
    kiln_entry *entry = make(1, 100), *with_mac = NULL, *both = NULL;
    kiln_entry *of_stranger = sign(entry, &stranger, 0), *of_team = sign(entry, &key, 0);
    assert_int_equal(kilni_entry_add_mac(of_stranger, &signing_key, &with_mac), KILN_OK);
    assert_int_equal(kilni_entry_add_mac(of_team, &other_key, &both), KILN_OK);
    const kilni_entry_trust trust = {&signing_key, &trusted, NOW_S};
    const kiln_entry *const believed[] = {with_mac, both, of_team}, *const others[] = {entry,
                                                                                       of_stranger};
    for (size_t i = 0; i < 5; i++) {
        const kiln_bytes bytes = kiln_entry_encoding(i < 3 ? believed[i] : others[i - 3]);
        void *copy = malloc(bytes.size);
        kiln_entry *adopted = NULL;
        assert_non_null(copy);
        memcpy(copy, bytes.data, bytes.size);
        assert_int_equal(kilni_entry_adopt_trusted(copy, bytes.size, &trust, &adopted),
                         i < 3 ? KILN_OK : KILN_E_UNAUTHENTICATED);
        if (i >= 3) {
            free(copy);
        }
        kiln_entry_release(&adopted);
    }
    assert_int_equal(judge(with_mac), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&both);
    kiln_entry_release(&with_mac);
    kiln_entry_release(&of_team);
    kiln_entry_release(&of_stranger);
    kiln_entry_release(&entry);
}

/* ---- whose signatures are believed ---- */

static void test_signers(void **state)
{
    (void)state;
    const kilni_secret_key ours = secret_of(0, "team-1"), revoked = secret_of(50, "team-2"),
                           stranger = secret_of(9, "team-1"), renamed = secret_of(0, "other");
    const struct {
        const kilni_secret_key *key;
        int64_t expires_s;
        kiln_status expected;
    } cases[] = {
        {&ours, 0, KILN_OK},
        {&ours, NOW_S + 1, KILN_OK},
        {&ours, NOW_S, KILN_E_UNAUTHENTICATED},
        {&ours, 1, KILN_E_UNAUTHENTICATED},
        {&ours, -1, KILN_E_UNAUTHENTICATED},
        {&ours, INT64_MAX, KILN_OK},
        {&revoked, 0, KILN_E_UNAUTHENTICATED},
        {&stranger, 0, KILN_E_UNAUTHENTICATED},
        {&renamed, 0, KILN_OK}, /* the bytes of the key count, not its name */
    };
    kiln_entry *entry = make(1, 100);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_entry *made = sign(entry, cases[i].key, cases[i].expires_s);
        assert_int_equal(judge(made), cases[i].expected);
        assert_int_equal(judge_by(made, &(kilni_trusted_keys){0}, NOW_S), KILN_E_UNAUTHENTICATED);
        kiln_entry_release(&made);
    }
    kiln_entry_release(&entry);
}

/* While a new key replaces an old one, both are trusted, and entries of both are found. */
static void test_rotation(void **state)
{
    (void)state;
    const kilni_secret_key old_key = secret_of(1, "team-1"), new_key = secret_of(2, "team-2");
    kilni_trusted_key keys[2] = {{.key = old_key.public_key}, {.key = new_key.public_key}};
    kiln_entry *entry = make(1, 100);
    kiln_entry *older = sign(entry, &old_key, 0), *newer = sign(entry, &new_key, 0);
    const kilni_trusted_keys before = {keys, 1}, during = {keys, 2}, after = {keys + 1, 1};
    assert_int_equal(judge_by(older, &before, NOW_S), KILN_OK);
    assert_int_equal(judge_by(newer, &before, NOW_S), KILN_E_UNAUTHENTICATED);
    assert_int_equal(judge_by(older, &during, NOW_S), KILN_OK);
    assert_int_equal(judge_by(newer, &during, NOW_S), KILN_OK);
    assert_int_equal(judge_by(older, &after, NOW_S), KILN_E_UNAUTHENTICATED);
    assert_int_equal(judge_by(newer, &after, NOW_S), KILN_OK);
    kiln_entry_release(&newer);
    kiln_entry_release(&older);
    kiln_entry_release(&entry);
}

/* ---- entries that are signed on their way to a server ---- */

static void test_prepared_entries(void **state)
{
    (void)state;
    const kilni_secret_key ours = secret_of(0, "team-1");
    kilni_trusted_key of_colleague = {.key = secret_of(7, "colleague").public_key};
    kilni_trusted_key known[] = {team[0], team[1], team[2], of_colleague};
    const kilni_trusted_keys all = {known, 4};
    const kilni_entry_signer signer = {&ours, &all, NOW_S, NOW_S + 1000};
    const kilni_entry_form form = {.is_stripped = true, .level = 3, .signer = &signer};
    kiln_entry *entry = make(1, 5000), *prepared = NULL;
    kiln_signature signature = {.struct_size = sizeof signature};

    assert_int_equal(kilni_entry_prepare(entry, &form, &prepared), KILN_OK);
    assert_int_equal(judge(prepared), KILN_OK);
    assert_int_equal(kiln_entry_get_signature(prepared, &signature), KILN_OK);
    assert_int_equal(signature.expires_s, NOW_S + 1000);
    kiln_entry_release(&prepared);

    /* A colleague's valid signature stays. */
    const kilni_secret_key colleague = secret_of(7, "colleague");
    const kilni_entry_signer theirs = {&colleague, &all, NOW_S, NOW_S + 10};
    const kilni_entry_form their_form = {.is_stripped = true, .level = 3, .signer = &theirs};
    kiln_entry *of_colleague_entry = NULL;
    assert_int_equal(kilni_entry_prepare(entry, &their_form, &of_colleague_entry), KILN_OK);
    assert_int_equal(kilni_entry_prepare(of_colleague_entry, &form, &prepared), KILN_OK);
    assert_int_equal(kiln_entry_get_signature(prepared, &signature), KILN_OK);
    assert_string_equal(signature.signer.name, "colleague");
    kiln_entry_release(&prepared);

    /* The colleague's signature stays even if the payload must remain uncompressed for that. If we
     * signed the entry anew, revoking the colleague's key would not make the entry a miss. */
    const kilni_entry_form plain_theirs = {.signer = &theirs};
    kiln_entry *signed_plain = NULL;
    assert_int_equal(kilni_entry_prepare(entry, &plain_theirs, &signed_plain), KILN_OK);
    assert_int_equal(kilni_entry_prepare(signed_plain, &form, &prepared), KILN_OK);
    assert_int_equal(kiln_entry_get_signature(prepared, &signature), KILN_OK);
    assert_string_equal(signature.signer.name, "colleague");
    assert_int_equal(signature.expires_s, NOW_S + 10);
    assert_int_equal(judge_by(prepared, &all, NOW_S), KILN_OK);
    kiln_entry_release(&prepared);
    kiln_entry_release(&signed_plain);
    kiln_entry_release(&of_colleague_entry);
    kiln_entry_release(&entry);
}

/* If a revoked key or a stranger signed an entry, or the signature has expired, the entry gets
 * neither a signature nor a MAC of ours. */
static void test_entries_of_others_are_not_prepared(void **state)
{
    (void)state;
    static const kilni_signing_key signing_key = {{1}};
    const kilni_secret_key ours = secret_of(0, "team-1"), revoked = secret_of(50, "team-2"),
                           stranger = secret_of(9, "team-1");
    const kilni_entry_signer signs = {&ours, &trusted, NOW_S, 0};
    const kilni_entry_signer only_checks = {NULL, &trusted, NOW_S, 0};
    const kilni_entry_form forms[] = {{.signer = &signs},
                                      {.signer = &only_checks, .signing_key = &signing_key}};
    kiln_entry *entry = make(1, 100), *prepared = NULL;
    kiln_entry *refused[] = {sign(entry, &revoked, 0), sign(entry, &stranger, 0),
                             sign(entry, &ours, NOW_S)};
    kiln_entry *valid = sign(entry, &ours, NOW_S + 1);
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < 3; n++) {
            assert_int_equal(kilni_entry_prepare(refused[n], &forms[i], &prepared),
                             KILN_E_UNAUTHENTICATED);
            assert_null(prepared);
        }
        assert_int_equal(kilni_entry_prepare(valid, &forms[i], &prepared), KILN_OK);
        assert_int_equal(judge(prepared), KILN_OK);
        kiln_entry_release(&prepared);
    }
    kiln_signature signature = {.struct_size = sizeof signature};
    assert_int_equal(kilni_entry_prepare(entry, &forms[1], &prepared), KILN_OK);
    assert_int_equal(kiln_entry_get_signature(prepared, &signature), KILN_MISS);
    assert_true(kiln_entry_is_signed(prepared));
    kiln_entry_release(&prepared);
    kiln_entry_release(&valid);
    for (size_t n = 0; n < 3; n++) {
        kiln_entry_release(&refused[n]);
    }
    kiln_entry_release(&entry);
}

/* ---- attacks, one by one ---- */

/* Offsets in the section of the signature. */
enum { EXPIRES = 8, SIGNER = 16, R = 112, S = 144, NAME = 176 };

static kiln_status judge_bytes(unsigned char *bytes, size_t size)
{
    kiln_entry *adopted = NULL;
    kilni_entry_seal(bytes, size);
    const kiln_status status = adopt(bytes, size, &trusted, NOW_S, &adopted);
    kiln_entry_release(&adopted);
    return status;
}

/* Returns the status with which a store adopts the entry after these bytes replaced those at an
 * offset of its signature section. */
static kiln_status judge_with(const kiln_entry *entry, size_t offset, const void *changed,
                              size_t size)
{
    const kiln_bytes original = kiln_entry_encoding(entry);
    unsigned char *bytes = malloc(original.size);
    assert_non_null(bytes);
    memcpy(bytes, original.data, original.size);
    kilni_entry_structure structure;
    assert_int_equal(kilni_entry_structure_decode(bytes, original.size, &structure), KILN_OK);
    const kilni_entry_section *section =
        kilni_entry_structure_find(&structure, KILNI_SECTION_SIGNATURE);
    assert_true(section && offset + size <= section->size);
    memcpy(bytes + (section->bytes - bytes) + offset, changed, size);
    const kiln_status status = judge_bytes(bytes, original.size);
    free(bytes);
    return status;
}

static kiln_status judge_structure(const kilni_entry_structure *structure)
{
    kilni_entry_structure encoded = *structure;
    unsigned char *bytes = NULL;
    assert_int_equal(kilni_entry_structure_encode(&encoded, &bytes), KILN_OK);
    const kiln_status status = judge_bytes(bytes, (size_t)encoded.header.total_size);
    free(bytes);
    return status;
}

static kilni_entry_structure structure_of(const kiln_entry *entry)
{
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    kilni_entry_structure structure;
    assert_int_equal(kilni_entry_structure_decode(bytes.data, bytes.size, &structure), KILN_OK);
    return structure;
}

/* Changes each byte of signer, expiry, name, algorithm, hashes and the signature itself. */
static void test_each_byte_of_the_section_counts(void **state)
{
    (void)state;
    const kilni_secret_key ours = secret_of(0, "team-1");
    kiln_entry *entry = make(1, 100);
    kiln_entry *made = sign(entry, &ours, NOW_S + 1);
    const kilni_entry_structure structure = structure_of(made);
    const kilni_entry_section *section =
        kilni_entry_structure_find(&structure, KILNI_SECTION_SIGNATURE);
    for (size_t i = 0; i < section->size; i++) {
        for (unsigned mask = 1; mask < 256; mask *= 16) {
            const unsigned char changed = (unsigned char)(section->bytes[i] ^ mask);
            assert_int_equal(judge_with(made, i, &changed, 1), KILN_E_UNAUTHENTICATED);
        }
    }
    assert_int_equal(judge_with(made, NAME, "team-1", 6), KILN_OK);
    assert_int_equal(judge_with(made, EXPIRES, "\0\0\0\0\0\0\0", 8), KILN_E_UNAUTHENTICATED);
    assert_int_equal(judge_with(made, SIGNER, team[1].key.bytes, 32), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&made);
    kiln_entry_release(&entry);
}

static const unsigned char *section_of(const kiln_entry *entry)
{
    const kilni_entry_structure structure = structure_of(entry);
    return kilni_entry_structure_find(&structure, KILNI_SECTION_SIGNATURE)->bytes;
}

/* S and S + L satisfy the same equation, so a verifier must check that S is less than L. */
static void test_a_signature_has_one_form(void **state)
{
    (void)state;
    static const unsigned char order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,
                                            0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
                                            0,    0,    0,    0,    0,    0,    0,    0,
                                            0,    0,    0,    0,    0,    0,    0,    0x10};
    const kilni_secret_key ours = secret_of(0, "team-1");
    kiln_entry *entry = make(1, 100);
    kiln_entry *made = sign(entry, &ours, 0);
    unsigned char changed[32];
    unsigned carry = 0;
    for (size_t i = 0; i < sizeof changed; i++) {
        carry += (unsigned)section_of(made)[S + i] + order[i];
        changed[i] = (unsigned char)carry;
        carry >>= 8;
    }
    assert_int_equal(judge_with(made, S, changed, sizeof changed), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&made);
    kiln_entry_release(&entry);
}

/* Anybody can make signatures that fit a key of small order. An attacker may persuade an
 * administrator to add such a key to the trusted keys, and this must not make every entry
 * trusted. */
static void test_keys_of_small_order_are_worthless(void **state)
{
    (void)state;
    static const unsigned char points[][32] = {
        {1}, /* the neutral element */
        {0}, /* order 4 */
        {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
         0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, /* order 2 */
    };
    kiln_entry *entry = make(1, 100);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        kilni_secret_key key = secret_of(9, "weak");
        memcpy(key.public_key.bytes, points[i], 32);
        memcpy(key.bytes + 32, points[i], 32);
        kilni_trusted_key weak = {.key = key.public_key};
        const kilni_trusted_keys keys = {&weak, 1};
        kiln_entry *made = sign(entry, &key, 0);
        assert_int_equal(judge_by(made, &keys, NOW_S), KILN_E_UNAUTHENTICATED);
        /* R is the neutral element and S is zero. This would be valid if the neutral element were
         * accepted as a key. */
        unsigned char signature[64] = {1};
        team[0] = weak;
        assert_int_equal(judge_with(made, R, signature, sizeof signature), KILN_E_UNAUTHENTICATED);
        kiln_entry_release(&made);
    }
    set_up(NULL);
    kiln_entry_release(&entry);
}

/* The attacker makes a MAC with the public key, which everybody knows, as in attacks on tokens
 * whose header names the algorithm. */
static void test_no_downgrade_to_a_mac(void **state)
{
    (void)state;
    kilni_signing_key known_key;
    memcpy(known_key.bytes, team[0].key.bytes, sizeof known_key.bytes);
    const kilni_secret_key ours = secret_of(0, "team-1"), stranger = secret_of(9, "team-1");
    kiln_entry *entry = make(1, 100), *made = NULL;
    kiln_entry *of_stranger = sign(entry, &stranger, 0), *of_team = sign(entry, &ours, 0);
    const kiln_entry *const forged[] = {entry, of_stranger};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kilni_entry_add_mac(forged[i], &known_key, &made), KILN_OK);
        assert_int_equal(judge(made), KILN_E_UNAUTHENTICATED);
        kiln_entry_release(&made);
    }
    /* Nor is the signature ignored because there is a MAC. */
    assert_int_equal(kilni_entry_add_mac(of_team, &known_key, &made), KILN_OK);
    assert_int_equal(judge(made), KILN_OK);
    assert_int_equal(judge_with(made, EXPIRES, "\1", 1), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&made);
    kiln_entry_release(&of_team);
    kiln_entry_release(&of_stranger);
    kiln_entry_release(&entry);
}

static void test_no_downgrade_to_no_signature(void **state)
{
    (void)state;
    const kilni_secret_key ours = secret_of(0, "team-1");
    kiln_entry *entry = make(1, 100);
    kiln_entry *made = sign(entry, &ours, 0);
    kilni_entry_structure structure = structure_of(made);
    kilni_entry_structure_remove(&structure, KILNI_SECTION_SIGNATURE);
    assert_int_equal(judge_structure(&structure), KILN_E_UNAUTHENTICATED);
    structure = structure_of(made);
    assert_int_equal(judge_structure(&structure), KILN_OK);
    kilni_entry_structure_set(&structure, KILNI_SECTION_SIGNATURE, (kiln_bytes){"", 0});
    assert_int_equal(judge_structure(&structure), KILN_E_UNAUTHENTICATED);
    /* A reader must not choose between two signatures. */
    kiln_entry *twice[] = {sign(entry, &ours, 0), sign(entry, &ours, NOW_S + 1)};
    structure = structure_of(twice[0]);
    const kilni_entry_structure other = structure_of(twice[1]);
    structure.sections[structure.header.section_count++] =
        other.sections[other.header.section_count - 1];
    assert_int_equal(judge_structure(&structure), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&twice[1]);
    kiln_entry_release(&twice[0]);
    kiln_entry_release(&made);
    kiln_entry_release(&entry);
}

/* An entry with a valid signature that was made for a different entry. The two entries differ in
 * one thing. */
static void test_a_signature_fits_one_entry(void **state)
{
    (void)state;
    const kilni_secret_key ours = secret_of(0, "team-1");
    kiln_entry *entry = make(1, 100), *other_entry = make(2, 100);
    kiln_entry *made = sign(entry, &ours, 0);
    const kilni_entry_structure original = structure_of(made), other = structure_of(other_entry);
    for (uint32_t type = KILNI_SECTION_PROVENANCE; type <= KILNI_SECTION_PAYLOAD; type++) {
        kilni_entry_structure changed = original;
        const kilni_entry_section *donor = kilni_entry_structure_find(&other, type);
        const bool differs = type != KILNI_SECTION_ANSWERS && type != KILNI_SECTION_LOG;
        kilni_entry_structure_set(&changed, type,
                                  differs ? (kiln_bytes){donor->bytes, (size_t)donor->size}
                                          : (kiln_bytes){"?", 1});
        if (type == KILNI_SECTION_KEY) {
            changed.header.digest = other.header.digest;
        }
        assert_int_equal(judge_structure(&changed), KILN_E_UNAUTHENTICATED);
        if (!differs) {
            kilni_entry_structure_remove(&changed, type);
            assert_int_equal(judge_structure(&changed), KILN_E_UNAUTHENTICATED);
        }
    }
    kilni_entry_structure changed = original;
    changed.header.kind = KILN_ENTRY_KERNEL;
    assert_int_equal(judge_structure(&changed), KILN_E_UNAUTHENTICATED);
    /* Adds a section that this reader skips, but that a newer reader might use. */
    changed = original;
    changed.sections[changed.header.section_count++] = changed.sections[0];
    for (uint32_t i = changed.header.section_count - 1; i > 0; i--) {
        changed.sections[i] = changed.sections[i - 1];
    }
    changed.sections[0] = (kilni_entry_section){.type = 99, .bytes = (const void *)"x", .size = 1};
    assert_int_equal(judge_structure(&changed), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&made);
    kiln_entry_release(&other_entry);
    kiln_entry_release(&entry);
}

/* ---- altered entries ---- */

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t limit)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = random_state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (mixed ^ (mixed >> 31)) % limit;
}

/* The answers that the test alters: entries with two keys, for two devices, with and without
 * stripping and compression. A trusted key signed the good ones; the signatures of the bad ones are
 * not trusted. */
enum { GOOD = 8, BAD = 4 };
static kiln_entry *good[GOOD], *bad[BAD];

static void make_answers(void)
{
    const kilni_secret_key ours = secret_of(0, "team-1");
    for (unsigned i = 0; i < GOOD; i++) {
        kiln_entry *entry = make(i % 2, 60 + 200 * (i & 4u));
        kiln_entry *stripped = i & 2 ? strip(entry, 32) : kiln_entry_retain(entry);
        kiln_entry *stored = i & 4 ? compress(stripped) : kiln_entry_retain(stripped);
        good[i] = sign(stored, &ours, i % 2 ? 0 : NOW_S + 100);
        assert_int_equal(judge(good[i]), KILN_OK);
        if (i < BAD) {
            const kilni_secret_key keys[BAD] = {secret_of(9, "team-1"), secret_of(50, "team-2"),
                                                ours, ours};
            bad[i] = i == BAD - 1 ? kiln_entry_retain(stored)
                                  : sign(stored, &keys[i], i == BAD - 2 ? NOW_S - 1 : 0);
            assert_int_equal(judge(bad[i]), KILN_E_UNAUTHENTICATED);
        }
        kiln_entry_release(&stored);
        kiln_entry_release(&stripped);
        kiln_entry_release(&entry);
    }
}

static void release_answers(void)
{
    for (unsigned i = 0; i < GOOD; i++) {
        kiln_entry_release(&good[i]);
    }
    for (unsigned i = 0; i < BAD; i++) {
        kiln_entry_release(&bad[i]);
    }
}

#define MAX_ANSWER 4096

/* Changes up to three bytes. The caller then corrects the checksum, as an attacker would. */
static size_t flip_bytes(unsigned char *bytes, size_t size)
{
    for (uint64_t i = 0; i <= random_below(3); i++) {
        bytes[random_below(size)] ^= (unsigned char)(1 + random_below(255));
    }
    return size;
}

static size_t truncate_bytes(unsigned char *bytes, size_t size)
{
    const size_t shorter = random_below(2) ? random_below(size) / 8 * 8 : random_below(size);
    for (size_t i = 0; i < 8 && shorter >= KILNI_ENTRY_MIN_SIZE; i++) {
        bytes[16 + i] = (unsigned char)((uint64_t)shorter >> (8 * i));
    }
    return shorter;
}

/* Makes an entry from sections of two answers. */
static size_t mix_sections(unsigned char *bytes, size_t size, const kiln_entry *other)
{
    kilni_entry_structure structure, donor;
    const kiln_bytes donated = kiln_entry_encoding(other);
    if (kilni_entry_structure_decode(bytes, size, &structure) != KILN_OK ||
        kilni_entry_structure_decode(donated.data, donated.size, &donor) != KILN_OK) {
        return size;
    }
    const uint32_t at = (uint32_t)random_below(structure.header.section_count);
    switch (random_below(6)) {
    case 0: /* a section of the other answer */
        structure.sections[at] = donor.sections[random_below(donor.header.section_count)];
        break;
    case 1: /* the section at the same place, with the fields of the header that describe it */
        structure.sections[at] = donor.sections[at % donor.header.section_count];
        structure.header.payload_size = donor.header.payload_size;
        structure.header.flags = donor.header.flags;
        break;
    case 2: /* the other answer's digest */
        structure.header.digest = donor.header.digest;
        break;
    case 3: /* one section fewer */
        structure.sections[at] = structure.sections[--structure.header.section_count];
        break;
    case 4: /* one more */
        structure.sections[structure.header.section_count++] =
            donor.sections[random_below(donor.header.section_count)];
        break;
    default: /* a flag of a section */
        structure.sections[at].flags ^= random_below(2) ? 1u : 2u;
        break;
    }
    unsigned char *made = NULL;
    assert_int_equal(kilni_entry_structure_encode(&structure, &made), KILN_OK);
    const size_t made_size = (size_t)structure.header.total_size;
    assert_in_range(made_size, 1, MAX_ANSWER);
    memcpy(bytes, made, made_size);
    free(made);
    return made_size;
}

/* Makes an altered answer. Returns its size. */
static size_t alter(unsigned char bytes[MAX_ANSWER])
{
    const kiln_entry *entry = random_below(8) ? good[random_below(GOOD)] : bad[random_below(BAD)];
    const kiln_bytes original = kiln_entry_encoding(entry);
    size_t size = original.size;
    assert_in_range(size, 1, MAX_ANSWER);
    memcpy(bytes, original.data, size);
    switch (random_below(4)) {
    case 0:
        size = truncate_bytes(bytes, size);
        break;
    case 1:
        size = mix_sections(bytes, size, good[random_below(GOOD)]);
        break;
    default:
        size = flip_bytes(bytes, size);
        break;
    }
    if (size >= KILNI_ENTRY_MIN_SIZE) {
        kilni_entry_seal(bytes, size);
    }
    return size;
}

static bool is_an_answer(const unsigned char *bytes, size_t size)
{
    for (unsigned i = 0; i < GOOD; i++) {
        const kiln_bytes original = kiln_entry_encoding(good[i]);
        if (original.size == size && memcmp(original.data, bytes, size) == 0) {
            return true;
        }
    }
    return false;
}

static void test_no_altered_answer_is_accepted(void **state)
{
    (void)state;
    make_answers();
    uint64_t tried = 0, accepted = 0, unauthenticated = 0;
    while (tried < alterations) {
        unsigned char bytes[MAX_ANSWER];
        const size_t size = alter(bytes);
        if (is_an_answer(bytes, size)) {
            continue; /* nothing was changed */
        }
        kiln_entry *entry = NULL;
        const kiln_status status = adopt(bytes, size, &trusted, NOW_S, &entry);
        accepted += status == KILN_OK;
        unauthenticated += status == KILN_E_UNAUTHENTICATED;
        kiln_entry_release(&entry);
        tried++;
    }
    release_answers();
    printf("%llu altered answers, %llu well-formed, %llu accepted\n", (unsigned long long)tried,
           (unsigned long long)unauthenticated, (unsigned long long)accepted);
    assert_int_equal(accepted, 0);
    assert_true(unauthenticated > alterations / 10); /* the other answers do not even decode */
}

/* ---- memory ---- */

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    const kilni_secret_key key = secret_of(0, "team-1");
    kiln_entry *entry = make(1, 100);
    for (size_t n = 1;; n++) {
        kiln_entry *made = NULL;
        failing_malloc_arm(n);
        kiln_status status = kilni_entry_sign(entry, &key, 0, &made);
        if (status == KILN_OK) {
            status = kilni_entry_verify(made, &trusted, NOW_S);
        }
        const size_t count = failing_malloc_disarm();
        kiln_entry_release(&made);
        if (count < n) {
            assert_int_equal(status, KILN_OK);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
    kiln_entry_release(&entry);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        alterations = strtoull(argv[1], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public_keys_are_texts),
        cmocka_unit_test(test_other_texts_are_no_keys),
        cmocka_unit_test(test_golden_signature),
        cmocka_unit_test(test_every_form_of_the_key_keeps_the_signature),
        cmocka_unit_test(test_forms_of_the_payload),
        cmocka_unit_test(test_a_mac_and_a_signature),
        cmocka_unit_test(test_signers),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_prepared_entries),
        cmocka_unit_test(test_entries_of_others_are_not_prepared),
        cmocka_unit_test(test_each_byte_of_the_section_counts),
        cmocka_unit_test(test_a_signature_has_one_form),
        cmocka_unit_test(test_keys_of_small_order_are_worthless),
        cmocka_unit_test(test_no_downgrade_to_a_mac),
        cmocka_unit_test(test_no_downgrade_to_no_signature),
        cmocka_unit_test(test_a_signature_fits_one_entry),
        cmocka_unit_test(test_no_altered_answer_is_accepted),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
