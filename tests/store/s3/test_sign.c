/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of questions to S3, compared with those in Amazon's description of them, and with
 * those of an independent implementation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/s3/sign.h"

#define TIME 1369353600 /* 2013-05-24 00:00:00 */
#define ACCESS_KEY "AKIAIOSFODNN7EXAMPLE"
#define SECRET_KEY "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define TOKEN "IQoJb3JpZ2luX2VjEXAMPLE//token=="
#define PUBLISHED_HOST "examplebucket.s3.amazonaws.com"
#define OTHER_HOST "storage.example:9000"
#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HELLO "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define DATE_FIELDS "x-amz-content-sha256;x-amz-date"

static const struct example {
    const char *host, *method, *path, *query; /* the path is not escaped */
    size_t range;
    const char *body, *token, *region;
    const char *body_hash, *fields, *signature;
    bool must_be_new;
} examples[] = {
    /* "Signature Calculations for the Authorization Header", in Amazon S3's API reference. */
    {PUBLISHED_HOST, "GET", "/test.txt", "", 10, NULL, NULL, "us-east-1", NOTHING,
     "host;range;" DATE_FIELDS, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
     false},
    {PUBLISHED_HOST, "GET", "/", "lifecycle=", 0, NULL, NULL, "us-east-1", NOTHING,
     "host;" DATE_FIELDS, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
     false},
    {PUBLISHED_HOST, "GET", "/", "max-keys=2&prefix=J", 0, NULL, NULL, "us-east-1", NOTHING,
     "host;" DATE_FIELDS, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
     false},
    /* S3SigV4Auth of botocore 1.43.11. */
    {OTHER_HOST, "PUT", "/team.cache/a=b,c+d~/kiln-v1/0123", "", 0, "hello", TOKEN, "eu-west-1",
     HELLO, "content-type;host;" DATE_FIELDS ";x-amz-security-token",
     "88be365c2d6e1998c09aa9ded0e850f28ca8cb8bb5e05e7d3b3cad0145a4aaba", false},
    {OTHER_HOST, "GET", "/team.cache",
     "list-type=2&prefix=a%3Db%2Cc%2Bd~%2Fkiln-v1%2F"
     "&start-after=a%3Db%2Cc%2Bd~%2Fkiln-v1%2F0%20%2A",
     0, NULL, TOKEN, "eu-west-1", NOTHING, "host;" DATE_FIELDS ";x-amz-security-token",
     "da1956dc47c911f138612637a720db1553f23295abe7a280817e70d6b384c5ba", false},
    /* The same put as above, with a condition; computed with Python's hmac and hashlib. */
    {OTHER_HOST, "PUT", "/team.cache/a=b,c+d~/kiln-v1/0123", "", 0, "hello", TOKEN, "eu-west-1",
     HELLO, "content-type;host;if-none-match;" DATE_FIELDS ";x-amz-security-token",
     "eed56924894519cdaa032bf7d0546b1242563f749e92691a5d3236df92080992", true},
};

static void write_expected(const struct example *example, char expected[1024])
{
    char token[128] = "";
    if (example->token) {
        snprintf(token, sizeof token, "x-amz-security-token: %s\r\n", example->token);
    }
    snprintf(expected, 1024,
             "x-amz-content-sha256: %s\r\n"
             "x-amz-date: 20130524T000000Z\r\n%s"
             "Authorization: AWS4-HMAC-SHA256 "
             "Credential=" ACCESS_KEY "/20130524/%s/s3/aws4_request,SignedHeaders=%s,Signature=%s"
             "\r\n",
             example->body_hash, token, example->region, example->fields, example->signature);
}

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const struct example *example = &examples[i];
        const kilni_s3_signer signer = {.access_key = ACCESS_KEY,
                                        .secret_key = SECRET_KEY,
                                        .session_token = example->token,
                                        .region = example->region};
        kilni_text path = {0};
        kilni_text text = {0};
        char expected[1024];
        kilni_http_append_escaped(&path, example->path, true);
        const kilni_http_question question = {.method = example->method,
                                              .path = path.bytes,
                                              .query = example->query,
                                              .range = example->range,
                                              .must_be_new = example->must_be_new,
                                              .body = example->body,
                                              .body_size =
                                                  example->body ? strlen(example->body) : 0};
        assert_int_equal(kilni_s3_append_signature(&signer, example->host, &question, TIME, &text),
                         KILN_OK);
        write_expected(example, expected);
        assert_string_equal(text.bytes, expected);
        kilni_text_done(&path);
        kilni_text_done(&text);
    }
}

/* Amazon's rules: each byte of UTF-8 is escaped separately, with uppercase digits, and a space does
 * not become a plus sign. */
static void test_escapes(void **state)
{
    (void)state;
    static const struct escape {
        const char *text, *in_path, *in_query;
    } escapes[] = {
        {"test$file.text", "test%24file.text", "test%24file.text"},
        {"a/b c", "a/b%20c", "a%2Fb%20c"},
        {"-._~aZ09", "-._~aZ09", "-._~aZ09"},
        {"+*=,&?#%", "%2B%2A%3D%2C%26%3F%23%25", "%2B%2A%3D%2C%26%3F%23%25"},
        {"\xc3\xa4\x01\x7f", "%C3%A4%01%7F", "%C3%A4%01%7F"},
    };
    for (size_t i = 0; i < 2 * (sizeof escapes / sizeof escapes[0]); i++) {
        const struct escape *escape = &escapes[i / 2];
        kilni_text text = {0};
        assert_int_equal(kilni_http_append_escaped(&text, escape->text, i % 2 == 0), KILN_OK);
        assert_string_equal(text.bytes, i % 2 == 0 ? escape->in_path : escape->in_query);
        kilni_text_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_escapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
