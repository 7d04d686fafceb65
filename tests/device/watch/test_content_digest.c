/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests device/watch/content_digest.h: a digest that is remembered is that of the content.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include <sodium.h>

#include "device/watch/content_digest.h"

enum { CONTENTS = 5000, LONGEST = 700, THREADS = 4 };

static void assert_digest(const unsigned char *bytes, size_t size)
{
    unsigned char expected[KILNI_FILE_DIGEST_BYTES], digest[KILNI_FILE_DIGEST_BYTES];
    crypto_generichash(expected, sizeof expected, bytes, size, NULL, 0);
    kilni_content_digest(bytes, size, digest);
    assert_memory_equal(digest, expected, sizeof digest);
}

static void fill(unsigned char *bytes, size_t size, unsigned number)
{
    memset(bytes, 'x', size);
    memcpy(bytes, &number, size < sizeof number ? size : sizeof number);
}

/* More contents than there are slots, so that some displace others. */
static void *ask_for_all(void *unused)
{
    unsigned char bytes[LONGEST];
    for (unsigned i = 0; i < 2 * CONTENTS; i++) {
        const size_t size = 200 + i % CONTENTS % 500;
        fill(bytes, size, i % CONTENTS);
        assert_digest(bytes, size);
    }
    return unused;
}

static void test_equals_blake2b(void **state)
{
    (void)state;
    ask_for_all(NULL);
    assert_digest((const unsigned char *)"", 0);
}

static void test_contents_that_differ_in_one_bit(void **state)
{
    unsigned char bytes[LONGEST] = {0};
    (void)state;
    assert_digest(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_digest(bytes, sizeof bytes);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_digest(bytes, sizeof bytes - 1 - bit % 64);
    }
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_all, NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_blake2b),
        cmocka_unit_test(test_contents_that_differ_in_one_bit),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
