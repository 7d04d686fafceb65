/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kiln/key.h>

#include "key/builder.h"
#include "key/encoding.h"
#include "key/hash.h"
#include "os/os.h"
#include "support/colliding_keys.h"
#include "support/failing_malloc.h"
#include "support/golden.h"

/* ---- helpers ---- */

static kiln_key_builder *new_builder(void)
{
    kiln_key_builder *builder = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    return builder;
}

/* Makes the key and frees the builder. */
static kiln_key *finish(kiln_key_builder *builder)
{
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

/* Makes the key that golden_key encodes. */
static kiln_key *make_golden(void)
{
    kiln_key_builder *builder = new_builder();
    assert_int_equal(kiln_key_builder_add_text(builder, "device", "cpu"), KILN_OK);
    assert_int_equal(kiln_key_builder_add_number(builder, "count", 7), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "source", "kernel void f() {}", 18), KILN_OK);
    return finish(builder);
}

/* Makes a key of texts: name, text, name, text, ..., NULL. */
static kiln_key *make_key(const char *name, ...)
{
    kiln_key_builder *builder = new_builder();
    va_list arguments;
    va_start(arguments, name);
    for (; name; name = va_arg(arguments, const char *)) {
        assert_int_equal(kiln_key_builder_add_text(builder, name, va_arg(arguments, const char *)),
                         KILN_OK);
    }
    va_end(arguments);
    return finish(builder);
}

static kiln_key *decode(const void *bytes, size_t size)
{
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_decode(bytes, size, &key), KILN_OK);
    return key;
}

static kiln_key *strip(const kiln_key *key, uint64_t above)
{
    kiln_key *stripped = NULL;
    assert_int_equal(kiln_key_strip(key, above, &stripped), KILN_OK);
    return stripped;
}

static void assert_encoding(const kiln_key *key, const void *expected, size_t expected_size)
{
    size_t size = 0;
    const void *bytes = kiln_key_encoding(key, &size);
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected, size);
}

static void assert_same_digest(const kiln_key *a, const kiln_key *b)
{
    kiln_digest digest_a = kiln_key_digest(a), digest_b = kiln_key_digest(b);
    assert_memory_equal(digest_a.bytes, digest_b.bytes, sizeof digest_a.bytes);
}

/* Decodes an exact-size copy, so that a sanitizer notices a read beyond its end. */
static kiln_status decode_copy(const unsigned char *bytes, size_t size, kiln_key **ret_key)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    kiln_status status = kiln_key_decode(copy, size, ret_key);
    free(copy);
    return status;
}

static void assert_corrupt(const unsigned char *bytes, size_t size)
{
    kiln_key *key = NULL;
    assert_int_equal(decode_copy(bytes, size, &key), KILN_E_CORRUPT);
    assert_null(key);
}

/* ---- building ---- */

static void test_golden_encoding_and_digest(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    assert_encoding(key, golden_key, sizeof golden_key);
    kiln_digest digest = kiln_key_digest(key);
    assert_memory_equal(digest.bytes, golden_digest, sizeof digest.bytes);
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    assert_string_equal(text, "26817279a3bd628b936a173372dbf51d");
    kiln_key_release(&key);
    assert_null(key);
}

static void test_a_key_of_no_parts(void **state)
{
    (void)state;
    kiln_key *key = finish(new_builder());
    assert_encoding(key, golden_empty_key, sizeof golden_empty_key);
    assert_int_equal(kiln_key_part_count(key), 0);
    kiln_key_part part;
    assert_int_equal(kiln_key_part_at(key, 0, &part), KILN_E_INVALID);
    kiln_key_release(&key);
}

static void test_parts_are_found_in_order(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    kiln_key_part part;
    assert_int_equal(kiln_key_part_count(key), 3);
    assert_int_equal(kiln_key_part_at(key, 0, &part), KILN_OK);
    assert_string_equal(part.name, "device");
    assert_int_equal(part.size, 3);
    assert_memory_equal(part.bytes, "cpu", 3);
    assert_null(part.digest);
    assert_int_equal(kiln_key_part_at(key, 1, &part), KILN_OK);
    assert_string_equal(part.name, "count");
    assert_int_equal(part.size, 8);
    assert_memory_equal(part.bytes, "\7\0\0\0\0\0\0\0", 8);
    assert_int_equal(kiln_key_part_at(key, 2, &part), KILN_OK);
    assert_string_equal(part.name, "source");
    assert_int_equal(kiln_key_part_at(key, 3, &part), KILN_E_INVALID);
    assert_int_equal(kiln_key_part_at(key, 0, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_key_part_at(NULL, 0, &part), KILN_E_INVALID);
    kiln_key_release(&key);
}

static void test_a_builder_makes_keys_with_a_common_beginning(void **state)
{
    (void)state;
    kiln_key_builder *builder = new_builder();
    assert_int_equal(kiln_key_builder_add_text(builder, "a", "1"), KILN_OK);
    kiln_key *first = NULL;
    assert_int_equal(kiln_key_builder_finish(builder, &first), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "b", "2"), KILN_OK);
    kiln_key *second = finish(builder);
    kiln_key *expected_first = make_key("a", "1", NULL);
    kiln_key *expected_second = make_key("a", "1", "b", "2", NULL);
    assert_int_equal(kiln_key_equals(first, expected_first), 1);
    assert_int_equal(kiln_key_equals(second, expected_second), 1);
    assert_int_equal(kiln_key_equals(first, second), 0);
    kiln_key_release(&first);
    kiln_key_release(&second);
    kiln_key_release(&expected_first);
    kiln_key_release(&expected_second);
}

/* After a refused part, no key can be made, whatever is added later. */
static void assert_refused(const char *name, const void *bytes, size_t size, kiln_status expected)
{
    kiln_key_builder *builder = new_builder();
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_add(builder, name, bytes, size), expected);
    assert_int_equal(kiln_key_builder_add_text(builder, "sound", "x"), expected);
    assert_int_equal(kiln_key_builder_finish(builder, &key), expected);
    assert_null(key);
    kiln_key_builder_free(&builder);
}

static void test_wrong_parts_are_refused(void **state)
{
    (void)state;
    char name[257];
    memset(name, 'n', sizeof name - 1);
    name[256] = '\0';
    assert_refused(name, "", 0, KILN_E_INVALID);
    assert_refused("", "", 0, KILN_E_INVALID);
    assert_refused(NULL, "", 0, KILN_E_INVALID);
    assert_refused("a", NULL, 1, KILN_E_INVALID);
    assert_refused("a", "", ((size_t)1 << 40) + 1, KILN_E_TOO_LARGE);
    kiln_key_builder *builder = new_builder();
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_add_text(builder, "a", NULL), KILN_E_INVALID);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_E_INVALID);
    kiln_key_builder_free(&builder);
    builder = new_builder();
    assert_int_equal(kiln_key_builder_add_number(builder, "", 1), KILN_E_INVALID);
    kiln_key_builder_free(&builder);
    builder = new_builder();
    assert_int_equal(kiln_key_builder_add(NULL, "a", "", 0), KILN_E_INVALID);
    assert_int_equal(kiln_key_builder_new(NULL), KILN_E_INVALID);
    assert_int_equal(kiln_key_builder_finish(builder, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_key_builder_finish(NULL, &key), KILN_E_INVALID);

    /* The longest name. */
    name[255] = '\0';
    assert_int_equal(kiln_key_builder_add(builder, name, NULL, 0), KILN_OK);
    key = finish(builder);
    builder = NULL;
    assert_int_equal(kiln_key_part_count(key), 1);
    size_t size;
    const void *bytes = kiln_key_encoding(key, &size);
    kiln_key *again = decode(bytes, size);
    assert_int_equal(kiln_key_equals(key, again), 1);
    kiln_key_release(&again);
    kiln_key_release(&key);
    kiln_key_builder_free(NULL);
    kiln_key_builder_free(&builder);
    assert_null(kiln_key_retain(NULL));
    kiln_key_release(&key);
    kiln_key_release(NULL);
}

static void assert_every_call_returns(kiln_key_builder *builder, kiln_status expected)
{
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_add(builder, "sound", "x", 1), expected);
    assert_int_equal(kiln_key_builder_add_text(builder, "a", NULL), expected);
    assert_int_equal(kiln_key_builder_add_number(builder, "number", 1), expected);
    assert_int_equal(kilni_key_builder_fail(builder, KILN_OK), expected);
    assert_int_equal(kilni_key_builder_fail(builder, KILN_E_IO), expected);
    assert_int_equal(kiln_key_builder_finish(builder, &key), expected);
    assert_null(key);
}

static void test_a_builder_keeps_its_first_error(void **state)
{
    (void)state;
    kiln_key_builder *builder = new_builder();
    assert_int_equal(kilni_key_builder_fail(builder, KILN_OK), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "a", "1"), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "a", "", ((size_t)1 << 40) + 1),
                     KILN_E_TOO_LARGE);
    assert_every_call_returns(builder, KILN_E_TOO_LARGE);
    kiln_key_builder_free(&builder);

    builder = new_builder();
    assert_int_equal(kilni_key_builder_fail(builder, KILN_E_UNSUPPORTED), KILN_E_UNSUPPORTED);
    assert_every_call_returns(builder, KILN_E_UNSUPPORTED);
    kiln_key_builder_free(&builder);
}

static void test_parts_are_counted_up_to_a_limit(void **state)
{
    (void)state;
    kiln_key_builder *builder = new_builder();
    for (int i = 0; i < 65535; i++) {
        assert_int_equal(kiln_key_builder_add(builder, "p", NULL, 0), KILN_OK);
    }
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "p", NULL, 0), KILN_E_TOO_LARGE);
    kiln_key_builder_free(&builder);
    assert_int_equal(kiln_key_part_count(key), 65535);
    size_t size;
    const void *bytes = kiln_key_encoding(key, &size);
    kiln_key *again = decode(bytes, size);
    assert_int_equal(kiln_key_equals(key, again), 1);
    kiln_key_release(&again);
    kiln_key_release(&key);
}

static void test_references_are_counted(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    kiln_key *other = kiln_key_retain(key);
    assert_ptr_equal(other, key);
    kiln_key_release(&key);
    assert_encoding(other, golden_key, sizeof golden_key);
    kiln_key_release(&other);
}

/* ---- comparing ---- */

static void assert_differ(kiln_key *a, kiln_key *b)
{
    assert_int_equal(kiln_key_equals(a, b), 0);
    assert_int_equal(kiln_key_equals(b, a), 0);
    kiln_digest digest_a = kiln_key_digest(a), digest_b = kiln_key_digest(b);
    assert_memory_not_equal(digest_a.bytes, digest_b.bytes, sizeof digest_a.bytes);
    kiln_key_release(&a);
    kiln_key_release(&b);
}

static void test_no_two_lists_are_confused(void **state)
{
    (void)state;
    assert_differ(make_key("a", "1", NULL), make_key("a", "2", NULL));
    assert_differ(make_key("a", "1", NULL), make_key("b", "1", NULL));
    assert_differ(make_key("a", "1", NULL), make_key("a", "1", "a", "1", NULL));
    assert_differ(make_key("a", "1", "b", "2", NULL), make_key("b", "2", "a", "1", NULL));
    assert_differ(make_key("a", "", NULL), finish(new_builder()));
    assert_differ(make_key("ab", "c", NULL), make_key("a", "bc", NULL));
    assert_differ(make_key("a", "1", "b", "", NULL), make_key("a", "", "b", "1", NULL));
}

static void test_equality_accepts_missing_keys(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    assert_int_equal(kiln_key_equals(NULL, NULL), 1);
    assert_int_equal(kiln_key_equals(key, NULL), 0);
    assert_int_equal(kiln_key_equals(NULL, key), 0);
    assert_int_equal(kiln_key_equals(key, key), 1);
    kiln_key_release(&key);
}

typedef struct change_list {
    char text[256];
    size_t stop_after, count;
} change_list;

static int note_change(void *user, kiln_key_change change, const kiln_key_part *before,
                       const kiln_key_part *after)
{
    change_list *list = user;
    assert_int_equal(before == NULL, change == KILN_KEY_ADDED);
    assert_int_equal(after == NULL, change == KILN_KEY_REMOVED);
    const kiln_key_part *part = after ? after : before;
    strcat(list->text, change == KILN_KEY_CHANGED ? "*" : change == KILN_KEY_ADDED ? "+" : "-");
    strcat(list->text, part->name);
    strncat(list->text, part->bytes, part->size);
    return ++list->count == list->stop_after;
}

static void assert_difference(kiln_key *first, kiln_key *second, size_t count, const char *expected)
{
    change_list list = {0};
    assert_int_equal(kiln_key_difference(first, second, note_change, &list), count);
    assert_string_equal(list.text, expected);
    assert_int_equal(kiln_key_difference(first, second, NULL, NULL), count);
    kiln_key_release(&first);
    kiln_key_release(&second);
}

static void test_differences_are_reported_part_by_part(void **state)
{
    (void)state;
    assert_difference(make_golden(), make_golden(), 0, "");
    assert_difference(make_key("a", "1", "b", "2", "c", "3", NULL),
                      make_key("d", "4", "b", "5", "a", "1", NULL), 3, "+d4*b5-c3");
    assert_difference(make_key("x", "1", "x", "2", "x", "3", NULL),
                      make_key("x", "1", "x", "9", NULL), 2, "*x9-x3");
    assert_difference(make_key("x", "1", NULL), make_key("x", "1", "x", "1", NULL), 1, "+x1");
    assert_difference(finish(new_builder()), make_key("a", "1", NULL), 1, "+a1");
    assert_difference(make_key("a", "1", "b", "2", NULL), finish(new_builder()), 2, "-a1-b2");
}

static void test_the_walk_of_differences_can_be_ended(void **state)
{
    (void)state;
    kiln_key *first = make_key("a", "1", "b", "2", NULL);
    kiln_key *second = make_key("c", "3", NULL);
    for (size_t stop = 1; stop <= 3; stop++) {
        change_list list = {.stop_after = stop};
        assert_int_equal(kiln_key_difference(first, second, note_change, &list), stop);
        assert_int_equal(list.count, stop);
    }
    kiln_key_release(&first);
    kiln_key_release(&second);
}

/* ---- stripping ---- */

static void test_golden_stripped_key(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    kiln_key *stripped = strip(key, 8);
    assert_encoding(stripped, golden_stripped_key, sizeof golden_stripped_key);
    assert_same_digest(key, stripped);
    assert_int_equal(kiln_key_equals(key, stripped), 1);
    assert_int_equal(kiln_key_equals(stripped, key), 1);
    assert_int_equal(kiln_key_difference(key, stripped, NULL, NULL), 0);

    kiln_key_part part;
    assert_int_equal(kiln_key_part_at(stripped, 2, &part), KILN_OK);
    assert_string_equal(part.name, "source");
    assert_null(part.bytes);
    assert_int_equal(part.size, 18);
    assert_memory_equal(part.digest, golden_stripped_key + sizeof golden_stripped_key - 32, 32);
    assert_int_equal(kiln_key_part_at(stripped, 1, &part), KILN_OK);
    assert_non_null(part.bytes);

    kiln_key *again = decode(golden_stripped_key, sizeof golden_stripped_key);
    assert_same_digest(key, again);
    assert_int_equal(kiln_key_equals(again, key), 1);
    assert_int_equal(kiln_key_equals(again, stripped), 1);
    kiln_key_release(&again);
    kiln_key_release(&stripped);
    kiln_key_release(&key);
}

static void test_a_stripped_key_is_stripped_further(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    kiln_key *half = strip(key, 8), *whole = strip(half, 0), *directly = strip(key, 0);
    size_t size;
    const void *bytes = kiln_key_encoding(directly, &size);
    assert_encoding(whole, bytes, size);
    assert_int_equal(kiln_key_equals(whole, half), 1);
    assert_int_equal(kiln_key_equals(whole, key), 1);
    assert_same_digest(whole, key);
    kiln_key_release(&half);
    kiln_key_release(&whole);
    kiln_key_release(&directly);
    kiln_key_release(&key);
}

static void test_nothing_to_strip_changes_nothing(void **state)
{
    (void)state;
    kiln_key *key = make_golden();
    kiln_key *same = strip(key, 18);
    assert_encoding(same, golden_key, sizeof golden_key);
    kiln_key_release(&same);
    kiln_key *empty_part = make_key("a", "", NULL);
    same = strip(empty_part, 0);
    assert_int_equal(kiln_key_equals(same, empty_part), 1);
    kiln_key_release(&same);
    kiln_key_release(&empty_part);
    assert_int_equal(kiln_key_strip(NULL, 0, &same), KILN_E_INVALID);
    assert_int_equal(kiln_key_strip(key, 0, NULL), KILN_E_INVALID);
    kiln_key_release(&key);
}

static void test_stripped_keys_that_differ_are_not_equal(void **state)
{
    (void)state;
    kiln_key *a = make_key("s", "0123456789", "t", "x", NULL);
    kiln_key *b = make_key("s", "0123456780", "t", "x", NULL);
    kiln_key *c = make_key("s", "012345678", "t", "x", NULL);
    kiln_key *d = make_key("u", "0123456789", "t", "x", NULL);
    kiln_key *e = make_key("s", "0123456789", NULL);
    kiln_key *others[] = {b, c, d, e};
    kiln_key *stripped = strip(a, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(kiln_key_equals(stripped, others[i]), 0);
        assert_int_equal(kiln_key_equals(others[i], stripped), 0);
        assert_true(kiln_key_difference(stripped, others[i], NULL, NULL) > 0);
        kiln_key *other = strip(others[i], 4);
        assert_int_equal(kiln_key_equals(stripped, other), 0);
        kiln_key_release(&other);
        kiln_key_release(&others[i]);
    }
    kiln_key_release(&stripped);
    kiln_key_release(&a);
}

/* ---- decoding ---- */

static void test_decoding_returns_the_key(void **state)
{
    (void)state;
    kiln_key *made = make_golden();
    kiln_key *key = decode(golden_key, sizeof golden_key);
    assert_int_equal(kiln_key_equals(key, made), 1);
    assert_same_digest(key, made);
    assert_encoding(key, golden_key, sizeof golden_key);
    kiln_key_release(&key);
    kiln_key_release(&made);
    assert_int_equal(kiln_key_decode(NULL, 5, &key), KILN_E_INVALID);
    assert_int_equal(kiln_key_decode(golden_key, sizeof golden_key, NULL), KILN_E_INVALID);
}

static void test_every_truncation_is_corrupt(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof golden_key; size++) {
        assert_corrupt(golden_key, size);
    }
    for (size_t size = 0; size < sizeof golden_stripped_key; size++) {
        assert_corrupt(golden_stripped_key, size);
    }
    unsigned char longer[sizeof golden_key + 1] = {0};
    memcpy(longer, golden_key, sizeof golden_key);
    assert_corrupt(longer, sizeof longer);
}

/* Flips each bit. If the bytes still decode, they yield a different key, which encodes to the
 * flipped bytes. */
static void flip_all(const unsigned char *bytes, size_t size)
{
    kiln_key *original = decode(bytes, size);
    unsigned char *flipped = malloc(size);
    assert_non_null(flipped);
    memcpy(flipped, bytes, size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        flipped[bit / 8] ^= (unsigned char)(1 << bit % 8);
        kiln_key *key = NULL;
        kiln_status status = decode_copy(flipped, size, &key);
        if (status == KILN_OK) {
            assert_encoding(key, flipped, size);
            kiln_digest a = kiln_key_digest(key), b = kiln_key_digest(original);
            assert_true(!kiln_key_equals(key, original) ||
                        memcmp(a.bytes, b.bytes, sizeof a.bytes) != 0);
        } else {
            assert_int_equal(status, KILN_E_CORRUPT);
            assert_null(key);
        }
        kiln_key_release(&key);
        flipped[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(flipped);
    kiln_key_release(&original);
}

static void test_every_flipped_bit_is_corrupt_or_another_key(void **state)
{
    (void)state;
    flip_all(golden_key, sizeof golden_key);
    flip_all(golden_stripped_key, sizeof golden_stripped_key);
}

static void test_noncanonical_encoding_is_corrupt(void **state)
{
    (void)state;
    unsigned char bytes[sizeof golden_stripped_key];
    const size_t size = sizeof golden_key;
    memcpy(bytes, golden_key, size);
    bytes[12] = 2; /* fewer parts than the key has */
    assert_corrupt(bytes, size);
    bytes[12] = 4; /* more */
    assert_corrupt(bytes, size);
    memcpy(bytes, golden_key, size);
    memset(bytes + 12, 0xff, 4);
    assert_corrupt(bytes, size);
    memcpy(bytes, golden_key, size);
    bytes[20] = 0; /* a zero within a name */
    assert_corrupt(bytes, size);
    memcpy(bytes, golden_key, size);
    bytes[23] = 'x'; /* no terminating zero of a name */
    assert_corrupt(bytes, size);
    memcpy(bytes, golden_key, size);
    bytes[24] = 2; /* an unknown form */
    assert_corrupt(bytes, size);
    memcpy(bytes, golden_key, size);
    memset(bytes + 25, 0xff, 8); /* a part of 2^64 - 1 bytes */
    assert_corrupt(bytes, size);
    memcpy(bytes, golden_stripped_key, sizeof bytes);
    bytes[sizeof bytes - 40] = 0; /* an empty stripped part */
    assert_corrupt(bytes, sizeof bytes);
    bytes[sizeof bytes - 40] = 18;
    bytes[sizeof bytes - 34] = 1; /* more than 2^40 bytes */
    assert_corrupt(bytes, sizeof bytes);

    /* A stripped key with no stripped part. */
    memcpy(bytes, golden_key, 16);
    memset(bytes + 8, 0, 8);
    bytes[8] = 1;
    memset(bytes + 16, 7, 16);
    assert_corrupt(bytes, 32);
}

static void test_no_claimed_count_is_allocated(void **state)
{
    (void)state;
    unsigned char bytes[sizeof golden_key];
    memcpy(bytes, golden_key, sizeof bytes);
    memcpy(bytes + 12, "\xff\xff", 2);
    kiln_key *key = NULL;
    failing_malloc_arm(1);
    kiln_status status = kiln_key_decode(bytes, sizeof bytes, &key);
    assert_int_equal(failing_malloc_disarm(), 0);
    assert_int_equal(status, KILN_E_CORRUPT);
}

/* ---- digests ---- */

static void test_digests_are_read_and_written(void **state)
{
    (void)state;
    kiln_digest digest, expected;
    memcpy(expected.bytes, golden_digest, sizeof expected.bytes);
    assert_int_equal(kiln_digest_parse("26817279a3bd628b936a173372dbf51d", &digest), KILN_OK);
    assert_memory_equal(&digest, &expected, sizeof digest);
    assert_int_equal(kiln_digest_parse("26817279A3BD628B936A173372DBF51D", &digest), KILN_OK);
    assert_memory_equal(&digest, &expected, sizeof digest);
    static const char *const wrong[] = {
        "",
        "2",
        "26817279a3bd628b936a173372dbf51",
        "26817279a3bd628b936a173372dbf51d0",
        "26817279a3bd628b936a173372dbf51g",
        "g6817279a3bd628b936a173372dbf51d",
        "26817279-3bd628b936a173372dbf51d",
        " 6817279a3bd628b936a173372dbf51d",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(kiln_digest_parse(wrong[i], &digest), KILN_E_PARSE);
    }
    assert_int_equal(kiln_digest_parse(NULL, &digest), KILN_E_PARSE);
    assert_memory_equal(&digest, &expected, sizeof digest);
}

/* ---- without memory ---- */

static kiln_status make_and_strip(kiln_key **ret_stripped)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        kiln_key_builder_add_text(builder, "device", "cpu");
        kiln_key_builder_add_number(builder, "count", 7);
        kiln_key_builder_add_text(builder, "source", "kernel void f() {}");
        status = kiln_key_builder_finish(builder, &key);
    }
    if (status == KILN_OK) {
        status = kiln_key_strip(key, 8, ret_stripped);
    }
    kiln_key_builder_free(&builder);
    kiln_key_release(&key);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    size_t n = 1;
    for (;; n++) {
        kiln_key *key = NULL, *decoded = NULL;
        failing_malloc_arm(n);
        kiln_status status = make_and_strip(&key);
        if (status == KILN_OK) {
            status = kiln_key_decode(golden_key, sizeof golden_key, &decoded);
        }
        size_t count = failing_malloc_disarm();
        kiln_key_release(&key);
        if (count < n) {
            assert_int_equal(status, KILN_OK);
            kiln_key_release(&decoded);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(decoded);
    }
    assert_true(n > 4);
}

static void test_no_key_lacks_a_part_if_memory_runs_out(void **state)
{
    (void)state;
    kiln_key_builder *builder = new_builder();
    assert_int_equal(kiln_key_builder_add_text(builder, "a", "1"), KILN_OK);
    char large[1000] = {0};
    failing_malloc_arm(1);
    assert_int_equal(kiln_key_builder_add(builder, "b", large, sizeof large), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_E_NO_MEMORY);
    assert_null(key);
    kiln_key_builder_free(&builder);
}

/* ---- the keyed hash ---- */

static ssize_t refused_getrandom(void *buffer, size_t size, unsigned flags)
{
    (void)buffer;
    (void)size;
    (void)flags;
    errno = EAGAIN;
    return -1;
}

/* Runs first: the secret is made with the first key of a process. */
static void test_keys_are_hashed_without_random_bytes_of_the_system(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        kilni_os_table table = *kilni_os_system();
        table.getrandom = refused_getrandom;
        kilni_os_replace(&table);
        static const char bytes[300] = "some bytes";
        const unsigned char none[XXH3_SECRET_DEFAULT_SIZE] = {0};
        const uint64_t hash = kilni_hash_keyed(bytes, sizeof bytes);
        _exit(hash == kilni_hash_keyed(bytes, sizeof bytes - 1) ||
              hash == XXH3_64bits(bytes, sizeof bytes) ||
              hash == XXH3_64bits_withSecret(bytes, sizeof bytes, none, sizeof none));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_equal_digests_have_different_hashes(void **state)
{
    (void)state;
    kiln_key *first = make_colliding_key(1), *second = make_colliding_key(2);
    assert_memory_equal(&first->digest, &second->digest, sizeof first->digest);
    assert_int_equal(first->encoding_size, second->encoding_size);
    assert_false(kiln_key_equals(first, second));
    assert_true(first->hash != second->hash);
    kiln_key_release(&first);
    kiln_key_release(&second);
}

static void test_equal_keys_have_one_hash(void **state)
{
    (void)state;
    kiln_key *key = make_colliding_key(1), *same = make_colliding_key(1);
    kiln_key *stripped = strip(key, 8), *again = strip(stripped, 0);
    assert_true(key->hash == same->hash);
    assert_true(key->hash == stripped->hash && key->hash == again->hash);
    const pid_t child = fork();
    if (child == 0) {
        kiln_key *in_child = make_colliding_key(1);
        _exit(in_child->hash != key->hash);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kiln_key_release(&key);
    kiln_key_release(&same);
    kiln_key_release(&stripped);
    kiln_key_release(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_hashed_without_random_bytes_of_the_system),
        cmocka_unit_test(test_golden_encoding_and_digest),
        cmocka_unit_test(test_a_key_of_no_parts),
        cmocka_unit_test(test_parts_are_found_in_order),
        cmocka_unit_test(test_a_builder_makes_keys_with_a_common_beginning),
        cmocka_unit_test(test_wrong_parts_are_refused),
        cmocka_unit_test(test_a_builder_keeps_its_first_error),
        cmocka_unit_test(test_parts_are_counted_up_to_a_limit),
        cmocka_unit_test(test_references_are_counted),
        cmocka_unit_test(test_no_two_lists_are_confused),
        cmocka_unit_test(test_equality_accepts_missing_keys),
        cmocka_unit_test(test_differences_are_reported_part_by_part),
        cmocka_unit_test(test_the_walk_of_differences_can_be_ended),
        cmocka_unit_test(test_golden_stripped_key),
        cmocka_unit_test(test_a_stripped_key_is_stripped_further),
        cmocka_unit_test(test_nothing_to_strip_changes_nothing),
        cmocka_unit_test(test_stripped_keys_that_differ_are_not_equal),
        cmocka_unit_test(test_decoding_returns_the_key),
        cmocka_unit_test(test_every_truncation_is_corrupt),
        cmocka_unit_test(test_every_flipped_bit_is_corrupt_or_another_key),
        cmocka_unit_test(test_noncanonical_encoding_is_corrupt),
        cmocka_unit_test(test_no_claimed_count_is_allocated),
        cmocka_unit_test(test_digests_are_read_and_written),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_no_key_lacks_a_part_if_memory_runs_out),
        cmocka_unit_test(test_equal_digests_have_different_hashes),
        cmocka_unit_test(test_equal_keys_have_one_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
