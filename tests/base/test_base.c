/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>
#include <kiln/status.h>
#include <kiln/version.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "key/hash.h"
#include "key/hash_wide.h"
#include "support/failing_malloc.h"

/* ---- status ---- */

static void test_statuses_have_their_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(kiln_status_name(KILN_OK), "KILN_OK");
    assert_string_equal(kiln_status_name(KILN_MISS), "KILN_MISS");
    assert_string_equal(kiln_status_name(KILN_E_CORRUPT), "KILN_E_CORRUPT");
    assert_string_equal(kiln_status_name(KILN_E_PARSE), "KILN_E_PARSE");
    assert_string_equal(kiln_status_text(KILN_E_CORRUPT), "the bytes are damaged");
    assert_string_equal(kiln_status_name(-17), "KILN_E_UNKNOWN");
    assert_string_equal(kiln_status_name(5), "KILN_E_UNKNOWN");
    assert_string_equal(kiln_status_name(INT32_MIN), "KILN_E_UNKNOWN");
    assert_non_null(kiln_status_text(INT32_MAX));
}

static void test_status_values_are_fixed(void **state)
{
    (void)state;
    assert_int_equal(KILN_EXISTS, 4);
    assert_int_equal(KILN_E_INVALID, -1);
    assert_int_equal(KILN_E_VERSION, -5);
    assert_int_equal(KILN_E_BUILD, -10);
    assert_int_equal(KILN_E_PARSE, -16);
}

/* ---- version ---- */

static void test_the_version_is_the_same_in_all_forms(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", KILN_VERSION_MAJOR, KILN_VERSION_MINOR,
             KILN_VERSION_PATCH);
    assert_string_equal(KILN_VERSION, text);
    assert_string_equal(kiln_version(), text);
}

/* ---- error ---- */

static void test_an_error_is_filled_and_its_status_returned(void **state)
{
    (void)state;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kilni_error_set(&error, KILN_E_IO, EACCES, "%s: %d", "file", 7), KILN_E_IO);
    assert_int_equal(error.status, KILN_E_IO);
    assert_int_equal(error.system_error, EACCES);
    assert_string_equal(error.text, "file: 7");
    assert_int_equal(error.struct_size, sizeof error);
}

static void test_a_missing_error_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(kilni_error_set(NULL, KILN_E_FULL, 0, "%s", "x"), KILN_E_FULL);
}

static void test_a_long_error_is_cut(void **state)
{
    (void)state;
    char longer[600];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    kiln_error error = {.struct_size = sizeof error};
    kilni_error_set(&error, KILN_E_IO, 0, "%s", longer);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void test_an_error_writes_only_within_its_size(void **state)
{
    (void)state;
    kiln_error error;
    memset(&error, 0x55, sizeof error);
    error.struct_size = offsetof(kiln_error, text) + 4;
    kilni_error_set(&error, KILN_E_IO, 0, "%s", "abcdef");
    assert_string_equal(error.text, "abc");
    assert_int_equal(error.text[4], 0x55);

    memset(&error, 0x55, sizeof error);
    error.struct_size = offsetof(kiln_error, text);
    kilni_error_set(&error, KILN_E_IO, 3, "%s", "abcdef");
    assert_int_equal(error.system_error, 3);
    assert_int_equal(error.text[0], 0x55);

    memset(&error, 0x55, sizeof error);
    error.struct_size = 4;
    assert_int_equal(kilni_error_set(&error, KILN_E_IO, 3, "%s", "abcdef"), KILN_E_IO);
    assert_int_equal(error.status, 0x55555555);
}

/* ---- size ---- */

static void test_size_arithmetic_notices_overflow(void **state)
{
    (void)state;
    size_t size = 9;
    assert_true(kilni_size_add(SIZE_MAX - 1, 1, &size));
    assert_true(size == SIZE_MAX);
    size = 9;
    assert_false(kilni_size_add(SIZE_MAX, 1, &size));
    assert_false(kilni_size_multiply(SIZE_MAX / 2 + 1, 2, &size));
    assert_int_equal(size, 9);
    assert_true(kilni_size_multiply(6, 7, &size));
    assert_int_equal(size, 42);

    uint64_t number = 9;
    assert_false(kilni_u64_add(UINT64_MAX, 1, &number));
    assert_false(kilni_u64_multiply((uint64_t)1 << 32, (uint64_t)1 << 32, &number));
    assert_int_equal(number, 9);
    assert_true(kilni_u64_multiply((uint64_t)1 << 32, 4, &number));
    assert_true(number == (uint64_t)1 << 34);
}

static void assert_size(const char *text, uint64_t expected)
{
    uint64_t bytes = 1234567;
    assert_int_equal(kiln_size_parse(text, &bytes), KILN_OK);
    assert_true(bytes == expected);
}

static void assert_no_size(const char *text)
{
    uint64_t bytes = 1234567;
    assert_int_equal(kiln_size_parse(text, &bytes), KILN_E_PARSE);
    assert_true(bytes == 1234567);
}

static void test_sizes_are_read(void **state)
{
    (void)state;
    assert_size("0", 0);
    assert_size("0K", 0);
    assert_size("007", 7);
    assert_size("1k", 1024);
    assert_size("3M", 3145728);
    assert_size("3MiB", 3145728);
    assert_size("2kib", 2048);
    assert_size("3MB", 3000000);
    assert_size("1gb", 1000000000);
    assert_size("1TiB", UINT64_C(1) << 40);
    assert_size("2G", 2147483648);
    assert_size("1T", 1099511627776);
    assert_size("18446744073709551615", UINT64_MAX);
    assert_size("16777215T", UINT64_C(16777215) << 40);
}

static void test_invalid_sizes_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "3Mi",
        "3BB",
        "3 MB",
        "3B",
        "3MBs",
        "K",
        " 1",
        "1 ",
        "+1",
        "-1",
        "0x10",
        "1P",
        "1.5",
        "1 K",
        "1e3",
        "1KK",
        "1\n",
        ",",
        "18446744073709551616",
        "1Ki",
        "16777216T",
        "99999999999999999999999",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_no_size(wrong[i]);
    }
    assert_no_size(NULL);
}

/* ---- text ---- */

static void test_a_text_grows(void **state)
{
    (void)state;
    kilni_text text = {0};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(kilni_text_printf(&text, "%03d,", i), KILN_OK);
    }
    assert_int_equal(text.length, 4000);
    assert_int_equal(strlen(text.bytes), 4000);
    assert_memory_equal(text.bytes + 3996, "999,", 5);
    assert_int_equal(kilni_text_append_bytes(&text, "a\0b", 3), KILN_OK);
    assert_memory_equal(text.bytes + 4000, "a\0b", 4);
    assert_int_equal(kilni_text_append_bytes(&text, NULL, 0), KILN_OK);
    assert_int_equal(text.length, 4003);
    kilni_text_done(&text);
    assert_null(text.bytes);
    assert_int_equal(text.length, 0);
}

static void test_an_empty_text_is_a_string_after_an_append(void **state)
{
    (void)state;
    kilni_text text = {0};
    assert_int_equal(kilni_text_append(&text, ""), KILN_OK);
    assert_string_equal(text.bytes, "");
    kilni_text_done(&text);
}

static void test_a_text_stays_as_it_was_without_memory(void **state)
{
    (void)state;
    kilni_text text = {0};
    failing_malloc_arm(1);
    assert_int_equal(kilni_text_append(&text, "a"), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    assert_null(text.bytes);
    kilni_text_done(&text);

    assert_int_equal(kilni_text_append(&text, "kept"), KILN_OK);
    failing_malloc_arm(1);
    assert_int_equal(kilni_text_printf(&text, "%0100d", 1), KILN_E_NO_MEMORY);
    assert_int_equal(kilni_text_reserve(&text, SIZE_MAX - 4), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    /* Once an append has failed, later ones fail too, because the text would lack the earlier
     * bytes. */
    assert_int_equal(kilni_text_append(&text, "-"), KILN_E_NO_MEMORY);
    assert_string_equal(text.bytes, "kept");
    assert_int_equal(text.length, 4);
    kilni_text_done(&text);
    assert_int_equal(kilni_text_append(&text, "new"), KILN_OK);
    kilni_text_done(&text);
}

static void test_an_array_grows_and_stays_without_memory(void **state)
{
    (void)state;
    int *items = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 100; i++) {
        int *grown = kilni_array_grown(items, (size_t)i, &capacity, sizeof *items);
        assert_non_null(grown);
        items = grown;
        items[i] = i;
    }
    const size_t before = capacity;
    failing_malloc_arm(1);
    assert_null(kilni_array_grown(items, capacity, &capacity, sizeof *items));
    failing_malloc_disarm();
    assert_int_equal(capacity, before);
    size_t huge = SIZE_MAX / 2 + 1;
    assert_null(kilni_array_grown(items, huge, &huge, sizeof *items));
    huge = SIZE_MAX / 4;
    assert_null(kilni_array_grown(items, huge, &huge, sizeof *items));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(items[i], i);
    }
    free(items);
}

static void test_a_reserved_text_needs_no_memory(void **state)
{
    (void)state;
    kilni_text text = {0};
    assert_int_equal(kilni_text_reserve(&text, 100), KILN_OK);
    assert_string_equal(text.bytes, "");
    failing_malloc_arm(1);
    assert_int_equal(kilni_text_printf(&text, "%0100d", 1), KILN_OK);
    assert_int_equal(failing_malloc_disarm(), 0);
    kilni_text_done(&text);
}

static void test_a_cut_splits_no_character(void **state)
{
    (void)state;
    assert_int_equal(kilni_text_cut("abc", 3, 5), 3);
    assert_int_equal(kilni_text_cut("abc", 3, 3), 3);
    assert_int_equal(kilni_text_cut("abc", 3, 2), 2);
    assert_int_equal(kilni_text_cut("a\xc3\xa4z", 4, 3), 3);
    assert_int_equal(kilni_text_cut("a\xc3\xa4z", 4, 2), 1);
    assert_int_equal(kilni_text_cut("\xf0\x9f\x94\xa5z", 5, 4), 4);
    assert_int_equal(kilni_text_cut("\xf0\x9f\x94\xa5z", 5, 3), 0);
    assert_int_equal(kilni_text_cut("\x80\x80\x80\x80\x80\x80\x80", 7, 6), 6);
    assert_int_equal(kilni_text_cut("abc", 3, 0), 0);
}

/* ---- bytes ---- */

static void test_integers_are_little_endian(void **state)
{
    (void)state;
    unsigned char bytes[13];
    kilni_byte_writer writer = {.at = bytes, .left = sizeof bytes};
    kilni_write_u8(&writer, 0xfe);
    kilni_write_u32(&writer, 0x01020304);
    kilni_write_u64(&writer, UINT64_C(0x1112131415161718));
    assert_false(writer.failed);
    assert_int_equal(writer.left, 0);
    static const unsigned char expected[] = {0xfe, 4,    3,    2,    1,    0x18, 0x17,
                                             0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
    assert_memory_equal(bytes, expected, sizeof expected);

    kilni_byte_reader reader = {.at = bytes, .left = sizeof bytes};
    assert_int_equal(kilni_read_u8(&reader), 0xfe);
    assert_int_equal(kilni_read_u32(&reader), 0x01020304);
    assert_true(kilni_read_u64(&reader) == UINT64_C(0x1112131415161718));
    assert_false(reader.failed);
    assert_int_equal(reader.left, 0);
}

static void test_cursors_stop_at_the_end_and_stay_failed(void **state)
{
    (void)state;
    unsigned char bytes[4] = {1, 2, 3, 4};
    kilni_byte_reader reader = {.at = bytes, .left = 3};
    assert_int_equal(kilni_read_u32(&reader), 0);
    assert_true(reader.failed);
    assert_int_equal(kilni_read_u8(&reader), 0);
    assert_null(kilni_read_bytes(&reader, 0));
    assert_ptr_equal(reader.at, bytes);

    reader = (kilni_byte_reader){.at = bytes, .left = 3};
    assert_null(kilni_read_bytes(&reader, UINT64_MAX));
    assert_true(reader.failed);

    kilni_byte_writer writer = {.at = bytes, .left = 3};
    kilni_write_u32(&writer, 0);
    kilni_write_u8(&writer, 9);
    kilni_write_zeros(&writer, 1);
    assert_true(writer.failed);
    assert_memory_equal(bytes, ((unsigned char[]){1, 2, 3, 4}), 4);
}

/* ---- hash ---- */

static void assert_hash(const void *bytes, size_t size, const char *expected)
{
    kiln_digest digest = kilni_hash(bytes, size);
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    assert_string_equal(text, expected);
}

/* The expected digests were printed by xxhsum -H2. */
static void test_the_hash_is_the_standard_xxh3_128(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)i;
    }
    assert_hash("", 0, "99aa06d3014798d86001c324468d497f");
    assert_hash("kiln", 4, "29e4f6aff37a6f975bfb178850627e51");
    assert_hash(bytes, sizeof bytes, "83885e853bb6640ca870f92984398d22");
}

#if defined(__x86_64__)
static void assert_wide_hash(kilni_hash_wide_fn *hash, kilni_hash_wide_add_fn *add)
{
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 7 + 3);
    }
    for (size_t size = 0; size <= sizeof bytes; size += 13) {
        const kiln_digest whole = kilni_hash(bytes, size);
        unsigned char wide[16];
        hash(bytes, size, wide);
        assert_memory_equal(wide, whole.bytes, sizeof wide);
        /* The state is initialized and finalized with instructions that every processor has. */
        kilni_hasher hasher;
        kilni_hasher_begin(&hasher);
        add((XXH3_state_t *)(void *)hasher.state, bytes, size / 3);
        add((XXH3_state_t *)(void *)hasher.state, bytes + size / 3, size - size / 3);
        assert_memory_equal(kilni_hasher_end(&hasher).bytes, whole.bytes, sizeof wide);
    }
}
#endif

static void test_hashes_are_the_same_by_all_instructions(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        assert_wide_hash(kilni_hash_avx2, kilni_hash_add_avx2);
    }
    if (__builtin_cpu_supports("avx512f")) {
        assert_wide_hash(kilni_hash_avx512f, kilni_hash_add_avx512f);
    }
#endif
}

static void test_a_hash_may_come_in_pieces(void **state)
{
    (void)state;
    static unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 31 + i / 256);
    }
    const size_t sizes[] = {0, 1, 16, 17, 128, 240, 241, 1000, sizeof bytes};
    const size_t steps[] = {1, 7, 256, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const kiln_digest whole = kilni_hash(bytes, sizes[i]);
        for (size_t j = 0; j < sizeof steps / sizeof steps[0]; j++) {
            kilni_hasher hasher;
            kilni_hasher_begin(&hasher);
            for (size_t at = 0; at < sizes[i]; at += steps[j]) {
                const size_t left = sizes[i] - at;
                kilni_hasher_add(&hasher, bytes + at, left < steps[j] ? left : steps[j]);
            }
            const kiln_digest digest = kilni_hasher_end(&hasher);
            assert_memory_equal(&digest, &whole, sizeof digest);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses_have_their_names_and_texts),
        cmocka_unit_test(test_status_values_are_fixed),
        cmocka_unit_test(test_the_version_is_the_same_in_all_forms),
        cmocka_unit_test(test_an_error_is_filled_and_its_status_returned),
        cmocka_unit_test(test_a_missing_error_is_allowed),
        cmocka_unit_test(test_a_long_error_is_cut),
        cmocka_unit_test(test_an_error_writes_only_within_its_size),
        cmocka_unit_test(test_size_arithmetic_notices_overflow),
        cmocka_unit_test(test_sizes_are_read),
        cmocka_unit_test(test_invalid_sizes_are_refused),
        cmocka_unit_test(test_a_text_grows),
        cmocka_unit_test(test_an_empty_text_is_a_string_after_an_append),
        cmocka_unit_test(test_a_text_stays_as_it_was_without_memory),
        cmocka_unit_test(test_an_array_grows_and_stays_without_memory),
        cmocka_unit_test(test_a_reserved_text_needs_no_memory),
        cmocka_unit_test(test_a_cut_splits_no_character),
        cmocka_unit_test(test_integers_are_little_endian),
        cmocka_unit_test(test_cursors_stop_at_the_end_and_stay_failed),
        cmocka_unit_test(test_the_hash_is_the_standard_xxh3_128),
        cmocka_unit_test(test_hashes_are_the_same_by_all_instructions),
        cmocka_unit_test(test_a_hash_may_come_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
