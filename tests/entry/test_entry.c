/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <kiln/entry.h>
#include <kiln/version.h>

#include "entry/entry.h"
#include "entry/structure.h"
#include "os/os.h"
#include "support/failing_malloc.h"
#include "support/golden.h"

/* ---- helpers ---- */

static kiln_key *golden_key_object(void)
{
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_decode(golden_key, sizeof golden_key, &key), KILN_OK);
    return key;
}

static const kiln_entry_params golden_params = {
    .struct_size = sizeof golden_params,
    .kind = KILN_ENTRY_PROGRAM,
    .provenance = {.struct_size = sizeof(kiln_provenance),
                   .tool = "tool 1",
                   .device = "cpu",
                   .name = "f",
                   .build_ns = 1500000000,
                   .created_s = 1700000000},
    .answers = {"\1\2\3", 3},
    .log = {"warning", 7},
    .payload = {"\x7f"
                "CODE",
                5},
};

/* Makes the content of golden_entry from its parts. */
static kiln_entry *make_golden(void)
{
    kiln_entry_params params = golden_params;
    kiln_key *key = golden_key_object();
    params.key = key;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

static kiln_entry *make_with_payload(const void *payload, size_t size)
{
    kiln_entry_params params = golden_params;
    kiln_key *key = golden_key_object();
    params.key = key;
    params.payload = (kiln_bytes){payload, size};
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

/* Decodes a copy of exactly this size, so that a sanitizer notices a read beyond its end. */
static kiln_status decode_copy(const void *bytes, size_t size, kiln_entry **ret_entry)
{
    void *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    kiln_status status = kilni_entry_adopt(copy, size, NULL, ret_entry);
    if (status != KILN_OK) {
        free(copy);
    }
    return status;
}

static kiln_entry *decode(const void *bytes, size_t size)
{
    kiln_entry *entry = NULL;
    assert_int_equal(decode_copy(bytes, size, &entry), KILN_OK);
    return entry;
}

static void assert_status(const void *bytes, size_t size, kiln_status expected)
{
    kiln_entry *entry = NULL;
    assert_int_equal(decode_copy(bytes, size, &entry), expected);
    assert_null(entry);
}

static void assert_bytes(kiln_bytes bytes, const void *expected, size_t size)
{
    assert_int_equal(bytes.size, size);
    if (size > 0) {
        assert_memory_equal(bytes.data, expected, size);
    }
}

static void assert_is_golden(const kiln_entry *entry)
{
    assert_int_equal(kiln_entry_kind_of(entry), KILN_ENTRY_PROGRAM);
    kiln_key *key = golden_key_object();
    assert_int_equal(kiln_key_equals(kiln_entry_key(entry), key), 1);
    kiln_key_release(&key);
    kiln_provenance provenance = kiln_entry_provenance(entry);
    assert_int_equal(provenance.struct_size, sizeof provenance);
    assert_string_equal(provenance.tool, "tool 1");
    assert_string_equal(provenance.device, "cpu");
    assert_string_equal(provenance.name, "f");
    assert_int_equal(provenance.build_ns, 1500000000);
    assert_int_equal(provenance.created_s, 1700000000);
    assert_bytes(kiln_entry_answers(entry), "\1\2\3", 3);
    assert_bytes(kiln_entry_log(entry), "warning", 7);
    assert_bytes(kiln_entry_payload(entry), golden_params.payload.data, 5);
}

static void assert_same_entry(const kiln_entry *a, const kiln_entry *b)
{
    kiln_bytes bytes = kiln_entry_encoding(b);
    assert_bytes(kiln_entry_encoding(a), bytes.data, bytes.size);
}

/* ---- round trips ---- */

static void test_golden_entry_is_written(void **state)
{
    (void)state;
    kiln_entry *entry = make_golden();
    assert_bytes(kiln_entry_encoding(entry), golden_entry, sizeof golden_entry);
    assert_is_golden(entry);
    kiln_entry_release(&entry);
    assert_null(entry);
}

static void test_golden_entry_is_read(void **state)
{
    (void)state;
    kiln_entry *entry = decode(golden_entry, sizeof golden_entry);
    assert_is_golden(entry);
    assert_bytes(kiln_entry_encoding(entry), golden_entry, sizeof golden_entry);
    kiln_entry *other = kiln_entry_retain(entry);
    assert_ptr_equal(other, entry);
    kiln_entry_release(&entry);
    assert_is_golden(other);
    kiln_entry_release(&other);
}

static void test_decoding_copies(void **state)
{
    (void)state;
    unsigned char bytes[sizeof golden_entry];
    memcpy(bytes, golden_entry, sizeof bytes);
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_decode(bytes, sizeof bytes, &entry), KILN_OK);
    memset(bytes, 0, sizeof bytes);
    assert_is_golden(entry);
    kiln_entry_release(&entry);
    assert_int_equal(kiln_entry_decode(bytes, sizeof bytes, &entry), KILN_E_CORRUPT);
    assert_int_equal(kiln_entry_decode(bytes, 0, &entry), KILN_E_CORRUPT);
    assert_int_equal(kiln_entry_decode(NULL, 0, &entry), KILN_E_INVALID);
    assert_int_equal(kiln_entry_decode(bytes, sizeof bytes, NULL), KILN_E_INVALID);
    assert_int_equal(kilni_entry_adopt(NULL, 0, NULL, &entry), KILN_E_INVALID);
}

static int fixed_clock(clockid_t clock, struct timespec *ret_time)
{
    (void)clock;
    *ret_time = (struct timespec){.tv_sec = 1234567890};
    return 0;
}

static void test_the_smallest_entry(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.clock_gettime = fixed_clock;
    kilni_os_replace(&table);
    kiln_key *key = golden_key_object();
    kiln_entry_params params = {.struct_size = sizeof params, .key = key, .kind = KILN_ENTRY_BLOB};
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kilni_os_replace(NULL);

    kiln_bytes bytes = kiln_entry_encoding(entry);
    kiln_entry *again = decode(bytes.data, bytes.size);
    kiln_provenance provenance = kiln_entry_provenance(again);
    assert_string_equal(provenance.tool, "kiln " KILN_VERSION);
    assert_string_equal(provenance.device, "");
    assert_string_equal(provenance.name, "");
    assert_int_equal(provenance.created_s, 1234567890);
    assert_int_equal(kiln_entry_answers(again).size, 0);
    assert_int_equal(kiln_entry_log(again).size, 0);
    assert_int_equal(kiln_entry_payload(again).size, 0);
    assert_int_equal(kiln_entry_kind_of(again), KILN_ENTRY_BLOB);
    assert_int_equal(kiln_key_equals(kiln_entry_key(again), key), 1);
    kiln_entry_release(&again);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static void test_every_size_of_payload_comes_back(void **state)
{
    (void)state;
    unsigned char payload[40];
    for (size_t size = 0; size <= sizeof payload; size++) {
        memset(payload, (int)size + 1, sizeof payload);
        kiln_entry *entry = make_with_payload(payload, size);
        kiln_bytes bytes = kiln_entry_encoding(entry);
        assert_int_equal(bytes.size % 8, 0);
        kiln_entry *again = decode(bytes.data, bytes.size);
        assert_bytes(kiln_entry_payload(again), payload, size);
        kiln_entry_release(&again);
        kiln_entry_release(&entry);
    }
}

static void test_a_stripped_key_is_carried(void **state)
{
    (void)state;
    kiln_key *key = golden_key_object(), *stripped = NULL;
    assert_int_equal(kiln_key_strip(key, 8, &stripped), KILN_OK);
    kiln_entry_params params = golden_params;
    params.key = stripped;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_bytes bytes = kiln_entry_encoding(entry);
    kiln_entry *again = decode(bytes.data, bytes.size);
    assert_int_equal(kiln_key_equals(kiln_entry_key(again), key), 1);
    kiln_digest digest = kiln_key_digest(kiln_entry_key(again));
    assert_memory_equal(digest.bytes, golden_digest, sizeof digest.bytes);
    kiln_entry_release(&again);
    kiln_entry_release(&entry);
    kiln_key_release(&stripped);
    kiln_key_release(&key);
}

static void test_endless_texts_are_cut(void **state)
{
    (void)state;
    char *text = malloc(70001);
    assert_non_null(text);
    memset(text, 'x', 70000);
    text[70000] = '\0';
    memcpy(text + 65535, "\xc3\xa4", 2);
    kiln_key *key = golden_key_object();
    kiln_entry_params params = golden_params;
    params.key = key;
    params.provenance.name = text;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    assert_int_equal(strlen(kiln_entry_provenance(entry).name), 65535);
    kiln_bytes bytes = kiln_entry_encoding(entry);
    kiln_entry *again = decode(bytes.data, bytes.size);
    assert_int_equal(strlen(kiln_entry_provenance(again).name), 65535);
    kiln_entry_release(&again);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    free(text);
}

static void test_wrong_parameters_are_refused(void **state)
{
    (void)state;
    kiln_key *key = golden_key_object();
    kiln_entry *entry = NULL;
    kiln_entry_params good = golden_params;
    good.key = key;
    kiln_entry_params params = good;
    assert_int_equal(kiln_entry_new(NULL, &entry), KILN_E_INVALID);
    assert_int_equal(kiln_entry_new(&params, NULL), KILN_E_INVALID);
    params.key = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params = good;
    params.kind = 0;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params.kind = KILN_ENTRY_BLOB + 1;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params = good;
    params.struct_size--;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params = good;
    params.payload.data = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params = good;
    params.log.data = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params = good;
    params.answers.data = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_INVALID);
    params = good;
    params.payload.size = ((size_t)1 << 40) + 1;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_TOO_LARGE);
    params.payload.size = (size_t)1 << 40;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_TOO_LARGE);
    params.payload.size = SIZE_MAX;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_E_TOO_LARGE);
    assert_null(entry);
    kiln_key_release(&key);
    kiln_entry_release(&entry);
    kiln_entry_release(NULL);
    assert_null(kiln_entry_retain(NULL));
}

static void test_a_newer_callers_parameters_are_accepted_if_unused(void **state)
{
    (void)state;
    struct {
        kiln_entry_params known;
        unsigned char unknown[8];
    } params = {.known = golden_params};
    kiln_key *key = golden_key_object();
    params.known.key = key;
    params.known.struct_size = sizeof params;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params.known, &entry), KILN_OK);
    assert_is_golden(entry);
    kiln_entry_release(&entry);
    params.unknown[7] = 1;
    assert_int_equal(kiln_entry_new(&params.known, &entry), KILN_E_INVALID);
    kiln_key_release(&key);
}

static void test_kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(kiln_entry_kind_name(KILN_ENTRY_PROGRAM), "program");
    assert_string_equal(kiln_entry_kind_name(KILN_ENTRY_KERNEL), "kernel");
    assert_string_equal(kiln_entry_kind_name(KILN_ENTRY_CONSTANT), "constant");
    assert_string_equal(kiln_entry_kind_name(KILN_ENTRY_REQUEST), "request");
    assert_string_equal(kiln_entry_kind_name(KILN_ENTRY_BLOB), "blob");
    assert_string_equal(kiln_entry_kind_name(0), "unknown");
    assert_string_equal(kiln_entry_kind_name(6), "unknown");
}

/* ---- threads ---- */

static void *retain_and_release(void *argument)
{
    kiln_entry *entry = argument;
    for (int i = 0; i < 1000; i++) {
        kiln_entry *held = kiln_entry_retain(entry);
        kiln_key *key = kiln_key_retain(kiln_entry_key(held));
        kiln_entry_release(&held);
        kiln_key_release(&key);
    }
    kiln_entry_release(&entry);
    return NULL;
}

static void test_threads_share_an_entry(void **state)
{
    (void)state;
    kiln_entry *entry = make_golden();
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, retain_and_release, kiln_entry_retain(entry)), 0);
    }
    /* The last thread that ends frees the entry. A sanitizer notices if it is freed twice, too
     * early or never. */
    kiln_entry_release(&entry);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* ---- damage ---- */

static bool is_in_version_word(size_t byte)
{
    return byte >= 8 && byte < 12;
}

static void flip_all(const unsigned char *bytes, size_t size)
{
    unsigned char *flipped = malloc(size);
    assert_non_null(flipped);
    memcpy(flipped, bytes, size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        unsigned char mask = (unsigned char)(1 << bit % 8);
        flipped[bit / 8] ^= mask;
        /* If the lowest bit of version 1 is flipped, the version is 0, which is invalid. */
        bool newer = is_in_version_word(bit / 8) && !(bit / 8 == 8 && bit % 8 == 0);
        assert_status(flipped, size, newer ? KILN_E_VERSION : KILN_E_CORRUPT);
        flipped[bit / 8] ^= mask;
    }
    free(flipped);
}

static void truncate_all(const unsigned char *bytes, size_t size)
{
    for (size_t shorter = 0; shorter < size; shorter++) {
        assert_status(bytes, shorter, KILN_E_CORRUPT);
    }
}

static void test_every_flipped_bit_is_detected(void **state)
{
    (void)state;
    flip_all(golden_entry, sizeof golden_entry);
    flip_all(golden_signed_entry, sizeof golden_signed_entry);
}

static void test_every_truncation_is_detected(void **state)
{
    (void)state;
    truncate_all(golden_entry, sizeof golden_entry);
    truncate_all(golden_signed_entry, sizeof golden_signed_entry);
    unsigned char longer[sizeof golden_entry + 8] = {0};
    memcpy(longer, golden_entry, sizeof golden_entry);
    assert_status(longer, sizeof longer, KILN_E_CORRUPT);
}

static void test_a_newer_version_is_recognized_whatever_follows(void **state)
{
    (void)state;
    unsigned char bytes[64];
    memset(bytes, 0xa5, sizeof bytes);
    memcpy(bytes, golden_entry, 8);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        kilni_entry_preview head;
        kiln_status expected = size < 12 ? KILN_E_CORRUPT : KILN_E_VERSION;
        assert_status(bytes, size, expected);
        assert_int_equal(kilni_entry_preview_decode(bytes, size, size, &head), expected);
    }
    memcpy(bytes + 8, "\2\0\0\0", 4);
    assert_status(bytes, sizeof bytes, KILN_E_VERSION);
    bytes[0] ^= 1;
    assert_status(bytes, sizeof bytes, KILN_E_CORRUPT);
    bytes[0] ^= 1;
    memcpy(bytes + 8, "\0\0\0\0", 4);
    assert_status(bytes, sizeof bytes, KILN_E_CORRUPT);
}

/* ---- entries with a correct checksum and invalid content ---- */

/* Changes bytes of golden_entry, corrects the checksum, and decodes. */
static void assert_patched(size_t offset, const void *patch, size_t patch_size,
                           kiln_status expected)
{
    unsigned char bytes[sizeof golden_entry];
    memcpy(bytes, golden_entry, sizeof bytes);
    memcpy(bytes + offset, patch, patch_size);
    kilni_entry_seal(bytes, sizeof bytes);
    assert_status(bytes, sizeof bytes, expected);
}

#define ROW(n) (64 + 24 * (n))

static void test_invalid_fields_under_a_correct_checksum(void **state)
{
    (void)state;
    assert_patched(16, "\x68", 1, KILN_E_CORRUPT); /* total size */
    assert_patched(24, "\0", 1, KILN_E_CORRUPT);   /* digest */
    assert_patched(44, "\4", 1, KILN_E_CORRUPT);   /* section count */
    assert_patched(44, "\6", 1, KILN_E_CORRUPT);
    assert_patched(44, "\xff\xff\xff\xff", 4, KILN_E_CORRUPT);
    assert_patched(48, "\6", 1, KILN_E_CORRUPT); /* plain size */
    assert_patched(53, "\xff", 1, KILN_E_CORRUPT);
    assert_patched(56, "\1", 1, KILN_E_CORRUPT); /* reserved */
    assert_patched(12, "\1", 1, KILN_E_CORRUPT); /* "compressed" */
    assert_patched(12, "\2", 1, KILN_E_CORRUPT); /* "signed" */
    assert_patched(12, "\4", 1, KILN_E_VERSION); /* an unknown flag */
    assert_patched(15, "\x80", 1, KILN_E_VERSION);
    assert_patched(ROW(0) + 8, "\xb0", 1, KILN_E_CORRUPT); /* offset */
    assert_patched(ROW(0) + 8, "\xb9", 1, KILN_E_CORRUPT);
    assert_patched(ROW(1) + 15, "\x80", 1, KILN_E_CORRUPT);
    assert_patched(ROW(1) + 16, "\x60", 1, KILN_E_CORRUPT); /* size */
    assert_patched(ROW(4) + 16, "\x09", 1, KILN_E_CORRUPT);
    assert_patched(ROW(4) + 16, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, KILN_E_CORRUPT);
    assert_patched(ROW(1) + 4, "\3", 1, KILN_E_VERSION); /* an unknown flag of a section */
    assert_patched(ROW(0), "\2", 1, KILN_E_CORRUPT);     /* two keys */
    assert_patched(ROW(1), "\5", 1, KILN_E_CORRUPT);     /* two payloads, no key */
    assert_patched(ROW(2), "\4", 1, KILN_E_CORRUPT);     /* two logs */
    assert_patched(ROW(0), "\4", 1, KILN_E_CORRUPT);     /* out of order */
    assert_patched(0xe1, "\1", 1, KILN_E_CORRUPT);       /* padding */
    assert_patched(0x15d, "\1", 1, KILN_E_CORRUPT);
    assert_patched(0x124, "\5", 1, KILN_E_CORRUPT); /* within the key */
    assert_patched(0xc8, "\5", 1, KILN_E_CORRUPT);  /* length of a text */
    assert_patched(0xc8, "\xff\xff\xff\xff", 4, KILN_E_CORRUPT);
    assert_patched(0xce, "\0", 1, KILN_E_CORRUPT); /* a zero within a text */
    assert_patched(0xd2, "x", 1, KILN_E_CORRUPT);  /* no terminating zero */
}

/* Returns the sections of golden_entry, for a test to change. */
static kilni_entry_structure golden_structure(void)
{
    kilni_entry_structure structure;
    assert_int_equal(kilni_entry_structure_decode(golden_entry, sizeof golden_entry, &structure),
                     KILN_OK);
    return structure;
}

static void insert_section(kilni_entry_structure *structure, uint32_t at, uint32_t type,
                           uint32_t flags)
{
    uint32_t count = structure->header.section_count++;
    memmove(&structure->sections[at + 1], &structure->sections[at],
            (count - at) * sizeof structure->sections[0]);
    structure->sections[at] = (kilni_entry_section){
        .type = type, .flags = flags, .bytes = (const unsigned char *)"unknown", .size = 7};
}

static kiln_status decode_structure(kilni_entry_structure structure, kiln_entry **ret_entry)
{
    unsigned char *bytes = NULL;
    assert_int_equal(kilni_entry_structure_encode(&structure, &bytes), KILN_OK);
    kilni_entry_seal(bytes, (size_t)structure.header.total_size);
    kiln_status status =
        kilni_entry_adopt(bytes, (size_t)structure.header.total_size, NULL, ret_entry);
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}

static void test_no_bytes_after_the_sections(void **state)
{
    (void)state;
    unsigned char bytes[sizeof golden_entry + 8] = {0};
    memcpy(bytes, golden_entry, sizeof golden_entry - KILNI_ENTRY_CHECKSUM_SIZE);
    bytes[16] += 8;
    kilni_entry_seal(bytes, sizeof bytes);
    assert_status(bytes, sizeof bytes, KILN_E_CORRUPT);
}

/* Decodes golden_entry with a different provenance section. */
static kiln_status decode_with_provenance(const unsigned char *bytes, size_t size)
{
    kilni_entry_structure structure = golden_structure();
    structure.sections[0].bytes = bytes;
    structure.sections[0].size = size;
    kiln_entry *entry = NULL;
    kiln_status status = decode_structure(structure, &entry);
    assert_int_equal(entry != NULL, status == KILN_OK);
    kiln_entry_release(&entry);
    return status;
}

static void test_provenance_is_three_texts_of_limited_length(void **state)
{
    (void)state;
    const size_t size = 16 + 15 + 65537;
    unsigned char *bytes = calloc(1, size);
    assert_non_null(bytes);
    assert_int_equal(decode_with_provenance(bytes, 16 + 15), KILN_OK);
    assert_int_equal(decode_with_provenance(bytes, 16 + 14), KILN_E_CORRUPT);
    assert_int_equal(decode_with_provenance(bytes, 16 + 16), KILN_E_CORRUPT);
    memset(bytes + 20, 'x', 65536);
    memcpy(bytes + 16, "\0\0\1", 4);
    assert_int_equal(decode_with_provenance(bytes, size - 1), KILN_OK);
    bytes[20 + 65536] = 'x';
    memcpy(bytes + 16, "\1\0\1", 4);
    assert_int_equal(decode_with_provenance(bytes, size), KILN_E_CORRUPT);
    free(bytes);
}

static void test_unknown_optional_sections_are_skipped(void **state)
{
    (void)state;
    for (uint32_t at = 0; at <= 5; at++) {
        kilni_entry_structure structure = golden_structure();
        insert_section(&structure, at, 7 + at, 0);
        insert_section(&structure, at, 0x80000000u, 0xfffffffeu);
        kiln_entry *entry = NULL;
        assert_int_equal(decode_structure(structure, &entry), KILN_OK);
        assert_is_golden(entry);
        kiln_entry_release(&entry);
    }
}

static void test_unknown_required_sections_need_a_newer_reader(void **state)
{
    (void)state;
    for (uint32_t at = 0; at <= 5; at++) {
        kilni_entry_structure structure = golden_structure();
        insert_section(&structure, at, 7, KILNI_SECTION_REQUIRED);
        kiln_entry *entry = NULL;
        assert_int_equal(decode_structure(structure, &entry), KILN_E_VERSION);
        assert_null(entry);
    }
}

static void test_section_0_is_unknown(void **state)
{
    (void)state;
    kilni_entry_structure structure = golden_structure();
    insert_section(&structure, 2, 0, 0);
    kiln_entry *entry = NULL;
    assert_int_equal(decode_structure(structure, &entry), KILN_E_CORRUPT);
}

static void test_only_key_and_payload_are_required(void **state)
{
    (void)state;
    for (uint32_t left_out = 0; left_out < 5; left_out++) {
        kilni_entry_structure structure = golden_structure();
        uint32_t type = structure.sections[left_out].type;
        memmove(&structure.sections[left_out], &structure.sections[left_out + 1],
                (4 - left_out) * sizeof structure.sections[0]);
        structure.header.section_count--;
        bool needed = type == KILNI_SECTION_KEY || type == KILNI_SECTION_PAYLOAD;
        kiln_entry *entry = NULL;
        assert_int_equal(decode_structure(structure, &entry), needed ? KILN_E_CORRUPT : KILN_OK);
        if (entry) {
            assert_bytes(kiln_entry_payload(entry), golden_params.payload.data, 5);
            assert_non_null(kiln_entry_provenance(entry).tool);
        }
        kiln_entry_release(&entry);
    }
}

static void test_sections_have_a_limit(void **state)
{
    (void)state;
    kilni_entry_structure structure = golden_structure();
    while (structure.header.section_count < KILNI_ENTRY_MAX_SECTIONS) {
        insert_section(&structure, 5, 9, 0);
    }
    kiln_entry *entry = NULL, *other = NULL;
    assert_int_equal(decode_structure(structure, &entry), KILN_OK);
    kilni_signing_key key = {{0}};
    assert_int_equal(kilni_entry_add_mac(entry, &key, &other), KILN_E_TOO_LARGE);
    assert_null(other);
    kiln_entry_release(&entry);
}

/* ---- signatures ---- */

static kilni_signing_key golden_signing_key(void)
{
    kilni_signing_key key;
    for (size_t i = 0; i < sizeof key.bytes; i++) {
        key.bytes[i] = (unsigned char)i;
    }
    return key;
}

/* Authenticates an entry's bytes as a store with that key does. */
static kiln_status authenticate(const kiln_entry *entry, const kilni_signing_key *key)
{
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    void *copy = malloc(bytes.size);
    assert_non_null(copy);
    memcpy(copy, bytes.data, bytes.size);
    kiln_entry *stored = NULL;
    const kiln_status status = kilni_entry_adopt(copy, bytes.size, key, &stored);
    if (status != KILN_OK) {
        free(copy);
    }
    kiln_entry_release(&stored);
    return status;
}

static void test_golden_signature(void **state)
{
    (void)state;
    kilni_signing_key key = golden_signing_key();
    kiln_entry *entry = make_golden(), *with_mac = NULL;
    assert_int_equal(authenticate(entry, &key), KILN_E_UNAUTHENTICATED);
    assert_int_equal(kilni_entry_add_mac(entry, &key, &with_mac), KILN_OK);
    assert_bytes(kiln_entry_encoding(with_mac), golden_signed_entry, sizeof golden_signed_entry);
    assert_is_golden(with_mac);
    assert_int_equal(authenticate(with_mac, &key), KILN_OK);

    kiln_entry *again = NULL;
    assert_int_equal(kilni_entry_add_mac(with_mac, &key, &again), KILN_OK);
    assert_same_entry(again, with_mac);
    key.bytes[31] ^= 1;
    assert_int_equal(authenticate(with_mac, &key), KILN_E_UNAUTHENTICATED);
    kiln_entry_release(&again);
    assert_int_equal(kilni_entry_add_mac(with_mac, &key, &again), KILN_OK);
    assert_int_equal(authenticate(again, &key), KILN_OK);
    kiln_entry_release(&again);
    kiln_entry_release(&with_mac);
    kiln_entry_release(&entry);
}

/* Anyone who changes an entry can correct the checksum, but not the MAC. */
static void test_no_altered_entry_is_authentic(void **state)
{
    (void)state;
    kilni_signing_key key = golden_signing_key();
    unsigned char bytes[sizeof golden_signed_entry];
    memcpy(bytes, golden_signed_entry, sizeof bytes);
    size_t decoded = 0;
    for (size_t i = 0; i < sizeof bytes - KILNI_ENTRY_CHECKSUM_SIZE; i++) {
        bytes[i] ^= 1;
        kilni_entry_seal(bytes, sizeof bytes);
        kiln_entry *entry = NULL;
        if (decode_copy(bytes, sizeof bytes, &entry) == KILN_OK) {
            decoded++;
            assert_int_equal(authenticate(entry, &key), KILN_E_UNAUTHENTICATED);
        }
        kiln_entry_release(&entry);
        bytes[i] ^= 1;
    }
    /* Entries with a changed text, answer, log, payload or MAC are decoded; only the MAC reveals
     * the change. */
    assert_true(decoded > 32 + 5 + 7 + 3);
}

static void test_unknown_sections_are_signed_too(void **state)
{
    (void)state;
    kilni_entry_structure structure = golden_structure();
    insert_section(&structure, 5, 99, 0);
    kiln_entry *entry = NULL, *with_mac = NULL;
    kilni_signing_key key = golden_signing_key();
    assert_int_equal(decode_structure(structure, &entry), KILN_OK);
    assert_int_equal(kilni_entry_add_mac(entry, &key, &with_mac), KILN_OK);
    kiln_bytes bytes = kiln_entry_encoding(with_mac);
    assert_int_equal(kilni_entry_structure_decode(bytes.data, bytes.size, &structure), KILN_OK);
    assert_int_equal(structure.header.section_count, 7);
    assert_non_null(kilni_entry_structure_find(&structure, 99));
    assert_int_equal(authenticate(with_mac, &key), KILN_OK);
    kiln_entry_release(&with_mac);
    kiln_entry_release(&entry);
}

/* ---- compression ---- */

#define LARGE 100000

static unsigned char *compressible(void)
{
    unsigned char *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++) {
        bytes[i] = (unsigned char)(i / 100);
    }
    return bytes;
}

static kiln_entry *compress(const kiln_entry *entry, int level)
{
    kiln_entry *compressed = NULL;
    assert_int_equal(kilni_entry_compress(entry, level, &compressed), KILN_OK);
    return compressed;
}

static void test_compressed_payloads_come_back(void **state)
{
    (void)state;
    unsigned char *payload = compressible();
    kiln_entry *entry = make_with_payload(payload, LARGE);
    for (int level = 1; level <= 12; level++) {
        kiln_entry *compressed = compress(entry, level);
        kiln_bytes bytes = kiln_entry_encoding(compressed);
        assert_true(bytes.size < LARGE / 10);
        assert_bytes(kiln_entry_payload(compressed), payload, LARGE);
        kiln_entry *again = decode(bytes.data, bytes.size);
        assert_bytes(kiln_entry_payload(again), payload, LARGE);
        assert_bytes(kiln_entry_log(again), "warning", 7);
        kilni_entry_preview head;
        assert_int_equal(kilni_entry_preview_decode(bytes.data, bytes.size, bytes.size, &head),
                         KILN_OK);
        assert_int_equal(head.payload_size, LARGE);
        kiln_entry *twice = compress(again, level);
        assert_same_entry(twice, compressed);
        kiln_entry_release(&twice);
        kiln_entry_release(&again);
        kiln_entry_release(&compressed);
    }
    kiln_entry *none = NULL;
    assert_int_equal(kilni_entry_compress(entry, 0, &none), KILN_E_INVALID);
    assert_int_equal(kilni_entry_compress(entry, 13, &none), KILN_E_INVALID);
    assert_null(none);
    kiln_entry_release(&entry);
    free(payload);
}

static void test_a_payload_that_does_not_shrink_stays_uncompressed(void **state)
{
    (void)state;
    kiln_entry *entry = make_golden();
    kiln_entry *same = compress(entry, 3);
    assert_same_entry(same, entry);
    kiln_entry_release(&same);
    kiln_entry_release(&entry);
    entry = make_with_payload(NULL, 0);
    same = compress(entry, 3);
    assert_same_entry(same, entry);
    kiln_entry_release(&same);
    kiln_entry_release(&entry);
}

static void test_compressing_drops_the_signature(void **state)
{
    (void)state;
    kilni_signing_key key = golden_signing_key();
    unsigned char *payload = compressible();
    kiln_entry *entry = make_with_payload(payload, LARGE), *with_mac = NULL;
    assert_int_equal(kilni_entry_add_mac(entry, &key, &with_mac), KILN_OK);
    kiln_entry *compressed = compress(with_mac, 3), *expected = compress(entry, 3);
    assert_same_entry(compressed, expected);
    assert_int_equal(authenticate(compressed, &key), KILN_E_UNAUTHENTICATED);
    kiln_entry *again = NULL;
    assert_int_equal(kilni_entry_add_mac(compressed, &key, &again), KILN_OK);
    assert_int_equal(authenticate(again, &key), KILN_OK);
    assert_bytes(kiln_entry_payload(again), payload, LARGE);
    kiln_entry_release(&again);
    kiln_entry_release(&expected);
    kiln_entry_release(&compressed);
    kiln_entry_release(&with_mac);
    kiln_entry_release(&entry);
    free(payload);
}

/* Returns the structure of an entry whose payload, @plain_size bytes, is stored as @frame. */
static kilni_entry_structure compressed_structure(const void *frame, size_t size,
                                                  uint64_t plain_size)
{
    kilni_entry_structure structure = golden_structure();
    structure.header.flags |= KILNI_ENTRY_COMPRESSED;
    structure.header.payload_size = plain_size;
    structure.sections[4].bytes = frame;
    structure.sections[4].size = size;
    return structure;
}

/* A payload without a valid signature is not decompressed. */
static void test_signatures_are_checked_first(void **state)
{
    (void)state;
    const kilni_signing_key key = golden_signing_key();
    kilni_entry_structure structure = compressed_structure("no frame", 8, LARGE);
    assert_int_equal(structure.sections[4].type, KILNI_SECTION_PAYLOAD);
    unsigned char *bytes = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kilni_entry_structure_encode(&structure, &bytes), KILN_OK);
    const size_t size = (size_t)structure.header.total_size;
    kilni_entry_seal(bytes, size);
    assert_int_equal(kilni_entry_adopt(bytes, size, NULL, &entry), KILN_E_CORRUPT);
    assert_int_equal(kilni_entry_adopt(bytes, size, &key, &entry), KILN_E_UNAUTHENTICATED);
    kilni_entry_arrival arrival;
    kilni_entry_arrival_begin(&arrival, bytes, size);
    kilni_entry_arrival_add(&arrival, size);
    assert_int_equal(kilni_entry_arrival_end(&arrival, &key, &entry), KILN_E_UNAUTHENTICATED);
    assert_null(entry);
    free(bytes);
}

/* The caller has computed the hash of the bytes before the checksum. */
static void test_a_known_hash(void **state)
{
    (void)state;
    kiln_entry *made = make_golden();
    const kiln_bytes encoding = kiln_entry_encoding(made);
    const size_t covered = kilni_entry_covered_size(encoding.size);
    const kiln_digest hash = kilni_hash(encoding.data, covered);
    for (size_t i = 0; i <= sizeof hash.bytes; i++) {
        kiln_digest known = hash;
        if (i < sizeof hash.bytes) {
            known.bytes[i] ^= 1;
        }
        unsigned char *copy = malloc(encoding.size);
        kiln_entry *entry = NULL;
        memcpy(copy, encoding.data, encoding.size);
        assert_int_equal(kilni_entry_adopt_hashed(copy, encoding.size, &known, NULL, &entry),
                         i < sizeof hash.bytes ? KILN_E_CORRUPT : KILN_OK);
        if (entry) {
            assert_true(kilni_entry_equals(entry, made));
            kiln_entry_release(&entry);
        } else {
            free(copy);
        }
    }
    kiln_entry_release(&made);
}

/* Makes a frame of @size zeros, and returns the frame's size. */
static size_t make_frame_of_zeros(uint64_t size, void *frame, size_t room)
{
    static const unsigned char zeros[1 << 20];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_outBuffer out = {frame, room, 0};
    assert_non_null(context);
    ZSTD_CCtx_setPledgedSrcSize(context, size);
    for (uint64_t left = size; left > 0;) {
        const size_t piece = left < sizeof zeros ? (size_t)left : sizeof zeros;
        ZSTD_inBuffer in = {zeros, piece, 0};
        left -= piece;
        const size_t rest =
            ZSTD_compressStream2(context, &out, &in, left > 0 ? ZSTD_e_continue : ZSTD_e_end);
        assert_false(ZSTD_isError(rest) || in.pos < piece || (left == 0 && rest > 0));
    }
    ZSTD_freeCCtx(context);
    return out.pos;
}

static void test_decompressing_has_a_limit(void **state)
{
    (void)state;
    const uint64_t plain_size = KILNI_ENTRY_MAX_DECOMPRESSED + 1;
    void *frame = malloc(1 << 20);
    assert_non_null(frame);
    const size_t size = make_frame_of_zeros(plain_size, frame, 1 << 20);
    kiln_entry *entry = NULL;
    assert_int_equal(decode_structure(compressed_structure(frame, size, plain_size), &entry),
                     KILN_E_CORRUPT);
    assert_null(entry);
    free(frame);
}

/* Changes a compressed entry and corrects its checksum: this must never crash, nor yield bytes of a
 * size other than the header's. */
static void test_damaged_frames_are_corrupt(void **state)
{
    (void)state;
    unsigned char *payload = compressible();
    kiln_entry *entry = make_with_payload(payload, LARGE);
    kiln_entry *compressed = compress(entry, 3);
    kiln_bytes encoding = kiln_entry_encoding(compressed);
    unsigned char *bytes = malloc(encoding.size);
    assert_non_null(bytes);
    memcpy(bytes, encoding.data, encoding.size);
    kilni_entry_structure structure;
    assert_int_equal(kilni_entry_structure_decode(bytes, encoding.size, &structure), KILN_OK);
    const kilni_entry_section *frame =
        kilni_entry_structure_find(&structure, KILNI_SECTION_PAYLOAD);
    size_t begin = (size_t)(frame->bytes - bytes);
    for (size_t bit = begin * 8; bit < (begin + frame->size) * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        kilni_entry_seal(bytes, encoding.size);
        kiln_entry *odd = NULL;
        kiln_status status = decode_copy(bytes, encoding.size, &odd);
        if (status == KILN_OK) {
            assert_int_equal(kiln_entry_payload(odd).size, LARGE);
        } else {
            assert_int_equal(status, KILN_E_CORRUPT);
        }
        kiln_entry_release(&odd);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    static const char *const sizes[] = {"\xa1\x86\1\0\0\0", "\x9f\x86\1\0\0\0", "\0\0\0\0\0\1",
                                        "\0\0\0\0\0\0"};
    for (size_t i = 0; i < 4; i++) {
        memcpy(bytes + 48, sizes[i], 6);
        kilni_entry_seal(bytes, encoding.size);
        assert_status(bytes, encoding.size, KILN_E_CORRUPT);
    }
    free(bytes);
    kiln_entry_release(&compressed);
    kiln_entry_release(&entry);
    free(payload);
}

static void test_bytes_after_a_frame_are_corrupt(void **state)
{
    (void)state;
    unsigned char *payload = compressible();
    kiln_entry *entry = make_with_payload(payload, LARGE);
    kiln_entry *compressed = compress(entry, 3);
    kiln_bytes encoding = kiln_entry_encoding(compressed);
    kilni_entry_structure structure;
    assert_int_equal(kilni_entry_structure_decode(encoding.data, encoding.size, &structure),
                     KILN_OK);
    kilni_entry_section *frame = &structure.sections[structure.header.section_count - 1];
    unsigned char *longer = calloc(1, (size_t)frame->size + 1);
    assert_non_null(longer);
    memcpy(longer, frame->bytes, (size_t)frame->size);
    frame->bytes = longer;
    frame->size++;
    kiln_entry *odd = NULL;
    assert_int_equal(decode_structure(structure, &odd), KILN_E_CORRUPT);
    free(longer);
    kiln_entry_release(&compressed);
    kiln_entry_release(&entry);
    free(payload);
}

/* Decodes an entry whose payload section is @frame and claims to expand to @plain_size bytes. */
static kiln_status decode_frame(const void *frame, size_t size, uint64_t plain_size)
{
    kilni_entry_structure structure = golden_structure();
    structure.header.flags = KILNI_ENTRY_COMPRESSED;
    structure.header.payload_size = plain_size;
    structure.sections[4].bytes = frame;
    structure.sections[4].size = size;
    kiln_entry *entry = NULL;
    kiln_status status = decode_structure(structure, &entry);
    kiln_entry_release(&entry);
    return status;
}

static void test_a_payload_is_one_frame(void **state)
{
    (void)state;
    /* A frame with one block that repeats a byte 64 times, and then a skippable frame. */
    static const char frames[] = "\x28\xb5\x2f\xfd\x20\x40\x03\x02\0x"
                                 "\x50\x2a\x4d\x18\0\0\0\0";
    assert_int_equal(decode_frame(frames, 10, 64), KILN_OK);
    assert_int_equal(decode_frame(frames, 18, 64), KILN_E_CORRUPT);
    assert_int_equal(decode_frame(frames, 10, 63), KILN_E_CORRUPT);
    assert_int_equal(decode_frame(frames, 9, 64), KILN_E_CORRUPT);
}

static void test_no_frame_may_claim_to_expand_without_limit(void **state)
{
    (void)state;
    /* A block that claims 2^39 bytes but contains none. */
    static const char frame[] = "\x28\xb5\x2f\xfd\xe0\0\0\0\0\x80\0\0\0\1\0\0";
    /* The first three allocations are for the stored bytes, the entry and the key; there must be no
     * fourth. */
    failing_malloc_arm(4);
    kiln_status status = decode_frame(frame, 16, UINT64_C(1) << 39);
    failing_malloc_disarm();
    assert_int_equal(status, KILN_E_CORRUPT);
}

/* ---- heads ---- */

static void test_the_head_has_all_fields_that_it_can(void **state)
{
    (void)state;
    kilni_entry_preview head;
    assert_int_equal(
        kilni_entry_preview_decode(golden_entry, sizeof golden_entry, sizeof golden_entry, &head),
        KILN_OK);
    assert_memory_equal(head.digest.bytes, golden_digest, sizeof head.digest.bytes);
    assert_int_equal(head.kind, KILN_ENTRY_PROGRAM);
    assert_int_equal(head.total_size, sizeof golden_entry);
    assert_int_equal(head.payload_size, 5);
    assert_int_equal(head.build_ns, 1500000000);
    assert_int_equal(head.created_s, 1700000000);
    assert_string_equal(head.tool, "tool 1");
    assert_string_equal(head.device, "cpu");
    assert_string_equal(head.name, "f");
}

static void test_a_shorter_head_has_less(void **state)
{
    (void)state;
    for (size_t available = 0; available <= sizeof golden_entry; available++) {
        unsigned char *copy = malloc(available > 0 ? available : 1);
        assert_non_null(copy);
        memcpy(copy, golden_entry, available);
        kilni_entry_preview head;
        kiln_status status =
            kilni_entry_preview_decode(copy, available, sizeof golden_entry, &head);
        free(copy);
        assert_int_equal(status, available < 64 ? KILN_E_CORRUPT : KILN_OK);
        if (status != KILN_OK) {
            continue;
        }
        assert_int_equal(head.payload_size, 5);
        assert_int_equal(head.build_ns, available < 0xb8 + 8 ? 0 : 1500000000);
        assert_memory_equal(head.tool, "tool 1", strlen(head.tool));
        assert_int_equal(strlen(head.tool) == 6, available >= 0xd2);
        assert_int_equal(strlen(head.device) == 3, available >= 0xda);
        assert_int_equal(strlen(head.name) == 1, available >= 0xe0);
    }
}

static void test_a_head_of_a_file_of_a_different_size_is_corrupt(void **state)
{
    (void)state;
    kilni_entry_preview head;
    assert_int_equal(kilni_entry_preview_decode(golden_entry, sizeof golden_entry,
                                                sizeof golden_entry + 1, &head),
                     KILN_E_CORRUPT);
    assert_int_equal(kilni_entry_preview_decode(golden_entry, 100, sizeof golden_entry - 1, &head),
                     KILN_E_CORRUPT);
    assert_int_equal(kilni_entry_preview_decode(golden_entry, sizeof golden_entry, 70, &head),
                     KILN_E_CORRUPT);
}

static void test_a_shorter_head_splits_no_character(void **state)
{
    (void)state;
    kiln_key *key = golden_key_object();
    kiln_entry_params params = golden_params;
    params.key = key;
    params.provenance.tool = "\xc3\xa4\xc3\xb6";
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_bytes bytes = kiln_entry_encoding(entry);
    for (size_t there = 0; there <= 4; there++) {
        kilni_entry_preview head;
        assert_int_equal(kilni_entry_preview_decode(bytes.data, 0xcc + there, bytes.size, &head),
                         KILN_OK);
        assert_int_equal(strlen(head.tool) % 2, 0);
        assert_int_equal(strlen(head.tool) == 4, there == 4);
    }
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static void test_a_head_checks_its_sizes(void **state)
{
    (void)state;
    unsigned char bytes[sizeof golden_entry];
    memcpy(bytes, golden_entry, sizeof bytes);
    kilni_entry_preview head;
    bytes[53] = 2;
    assert_int_equal(kilni_entry_preview_decode(bytes, sizeof bytes, sizeof bytes, &head),
                     KILN_E_CORRUPT);
}

static void test_long_texts_are_cut_in_a_head(void **state)
{
    (void)state;
    char text[301];
    memset(text, 'x', 300);
    text[300] = '\0';
    memcpy(text + 62, "\xc3\xa4", 2);
    kiln_key *key = golden_key_object();
    kiln_entry_params params = golden_params;
    params.key = key;
    params.provenance.tool = params.provenance.device = params.provenance.name = text;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_bytes bytes = kiln_entry_encoding(entry);
    kilni_entry_preview head;
    assert_int_equal(kilni_entry_preview_decode(bytes.data, bytes.size, bytes.size, &head),
                     KILN_OK);
    assert_int_equal(strlen(head.tool), 62);
    assert_int_equal(strlen(head.device), 191);
    assert_int_equal(strlen(head.name), 255);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

static void test_every_flipped_bit_leaves_the_head_harmless(void **state)
{
    (void)state;
    unsigned char bytes[sizeof golden_entry];
    memcpy(bytes, golden_entry, sizeof bytes);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        unsigned char *copy = malloc(sizeof bytes);
        assert_non_null(copy);
        memcpy(copy, bytes, sizeof bytes);
        kilni_entry_preview head;
        if (kilni_entry_preview_decode(copy, sizeof bytes, sizeof bytes, &head) == KILN_OK) {
            assert_true(memchr(head.tool, 0, sizeof head.tool) != NULL);
            assert_true(memchr(head.device, 0, sizeof head.device) != NULL);
            assert_true(memchr(head.name, 0, sizeof head.name) != NULL);
        }
        free(copy);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void test_accessors_accept_a_null_entry(void **state)
{
    (void)state;
    assert_null(kiln_entry_key(NULL));
    assert_int_equal(kiln_entry_kind_of(NULL), 0);
    assert_string_equal(kiln_entry_provenance(NULL).tool, "");
    assert_string_equal(kiln_entry_provenance(NULL).device, "");
    assert_string_equal(kiln_entry_provenance(NULL).name, "");
    assert_int_equal(kiln_entry_answers(NULL).size, 0);
    assert_int_equal(kiln_entry_log(NULL).size, 0);
    assert_int_equal(kiln_entry_payload(NULL).size, 0);
    assert_int_equal(kiln_entry_is_signed(NULL), 0);
    assert_int_equal(kiln_entry_encoding(NULL).size, 0);
}

/* ---- without memory ---- */

typedef kiln_status (*maker)(const kiln_entry *from, kiln_entry **ret_entry);

static kiln_status make_new(const kiln_entry *from, kiln_entry **ret_entry)
{
    kiln_entry_params params = golden_params;
    params.key = kiln_entry_key(from);
    return kiln_entry_new(&params, ret_entry);
}

static kiln_status make_decoded(const kiln_entry *from, kiln_entry **ret_entry)
{
    kiln_bytes bytes = kiln_entry_encoding(from);
    return kiln_entry_decode(bytes.data, bytes.size, ret_entry);
}

static kiln_status make_signed(const kiln_entry *from, kiln_entry **ret_entry)
{
    kilni_signing_key key = golden_signing_key();
    return kilni_entry_add_mac(from, &key, ret_entry);
}

static kiln_status make_compressed(const kiln_entry *from, kiln_entry **ret_entry)
{
    return kilni_entry_compress(from, 1, ret_entry);
}

static void fail_each_allocation(const kiln_entry *from, maker make, size_t at_least)
{
    size_t n = 1;
    for (;; n++) {
        kiln_entry *entry = NULL;
        failing_malloc_arm(n);
        kiln_status status = make(from, &entry);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            kiln_entry_release(&entry);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(entry);
    }
    assert_true(n > at_least);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    unsigned char *payload = compressible();
    kiln_entry *entry = make_with_payload(payload, LARGE);
    kiln_entry *compressed = compress(entry, 3);
    fail_each_allocation(entry, make_new, 3);
    fail_each_allocation(entry, make_decoded, 3);
    fail_each_allocation(compressed, make_decoded, 4);
    fail_each_allocation(entry, make_signed, 2);
    fail_each_allocation(compressed, make_signed, 3);
    fail_each_allocation(entry, make_compressed, 4);
    kiln_entry_release(&compressed);
    kiln_entry_release(&entry);
    free(payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_entry_is_written),
        cmocka_unit_test(test_golden_entry_is_read),
        cmocka_unit_test(test_decoding_copies),
        cmocka_unit_test(test_the_smallest_entry),
        cmocka_unit_test(test_every_size_of_payload_comes_back),
        cmocka_unit_test(test_a_stripped_key_is_carried),
        cmocka_unit_test(test_endless_texts_are_cut),
        cmocka_unit_test(test_wrong_parameters_are_refused),
        cmocka_unit_test(test_a_newer_callers_parameters_are_accepted_if_unused),
        cmocka_unit_test(test_kinds_have_names),
        cmocka_unit_test(test_threads_share_an_entry),
        cmocka_unit_test(test_every_flipped_bit_is_detected),
        cmocka_unit_test(test_every_truncation_is_detected),
        cmocka_unit_test(test_a_newer_version_is_recognized_whatever_follows),
        cmocka_unit_test(test_invalid_fields_under_a_correct_checksum),
        cmocka_unit_test(test_unknown_optional_sections_are_skipped),
        cmocka_unit_test(test_unknown_required_sections_need_a_newer_reader),
        cmocka_unit_test(test_section_0_is_unknown),
        cmocka_unit_test(test_no_bytes_after_the_sections),
        cmocka_unit_test(test_provenance_is_three_texts_of_limited_length),
        cmocka_unit_test(test_only_key_and_payload_are_required),
        cmocka_unit_test(test_sections_have_a_limit),
        cmocka_unit_test(test_golden_signature),
        cmocka_unit_test(test_no_altered_entry_is_authentic),
        cmocka_unit_test(test_unknown_sections_are_signed_too),
        cmocka_unit_test(test_compressed_payloads_come_back),
        cmocka_unit_test(test_a_payload_that_does_not_shrink_stays_uncompressed),
        cmocka_unit_test(test_compressing_drops_the_signature),
        cmocka_unit_test(test_signatures_are_checked_first),
        cmocka_unit_test(test_a_known_hash),
        cmocka_unit_test(test_accessors_accept_a_null_entry),
        cmocka_unit_test(test_decompressing_has_a_limit),
        cmocka_unit_test(test_damaged_frames_are_corrupt),
        cmocka_unit_test(test_bytes_after_a_frame_are_corrupt),
        cmocka_unit_test(test_a_payload_is_one_frame),
        cmocka_unit_test(test_no_frame_may_claim_to_expand_without_limit),
        cmocka_unit_test(test_the_head_has_all_fields_that_it_can),
        cmocka_unit_test(test_a_shorter_head_has_less),
        cmocka_unit_test(test_a_head_of_a_file_of_a_different_size_is_corrupt),
        cmocka_unit_test(test_long_texts_are_cut_in_a_head),
        cmocka_unit_test(test_a_shorter_head_splits_no_character),
        cmocka_unit_test(test_a_head_checks_its_sizes),
        cmocka_unit_test(test_every_flipped_bit_leaves_the_head_harmless),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
