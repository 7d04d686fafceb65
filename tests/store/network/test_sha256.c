/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 and HMAC-SHA-256, compared with the examples in FIPS 180 and RFC 4231.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/network/sha256.h"

static void expect(const unsigned char digest[KILNI_SHA256_SIZE], const char *hex)
{
    char text[2 * KILNI_SHA256_SIZE + 1];
    for (size_t i = 0; i < KILNI_SHA256_SIZE; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, hex);
}

static void test_hashes(void **state)
{
    (void)state;
    unsigned char digest[KILNI_SHA256_SIZE];
    kilni_sha256("", 0, digest);
    expect(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    kilni_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, digest);
    expect(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* Keys that are shorter and longer than a block. */
static void test_codes(void **state)
{
    (void)state;
    static const char data[] = "what do ya want for nothing?";
    static const char long_data[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    unsigned char code[KILNI_SHA256_SIZE];
    unsigned char key[131];
    kilni_hmac_sha256("Jefe", 4, data, sizeof data - 1, code);
    expect(code, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    kilni_hmac_sha256(key, sizeof key, long_data, sizeof long_data - 1, code);
    expect(code, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* The result may take the place of the key. */
static void test_in_place(void **state)
{
    (void)state;
    unsigned char key[KILNI_SHA256_SIZE];
    memset(key, 0x0b, sizeof key);
    kilni_hmac_sha256(key, 20, "Hi There", 8, key);
    expect(key, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hashes), cmocka_unit_test(test_codes),
                                       cmocka_unit_test(test_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
