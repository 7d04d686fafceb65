/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of S3 listings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "store/s3/list.h"

#define BEGIN                                                                                      \
    "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"  \
    "<Name>kiln</Name><Prefix>p/</Prefix><KeyCount>2</KeyCount>"
#define END "</ListBucketResult>"
#define KEY(name) "<Contents><Key>" name "</Key><Size>5</Size></Contents>"

static void add(void *user, const kilni_s3_key *key)
{
    kilni_text_append_bytes(user, key->text, key->text_size);
    kilni_text_append(user, ",");
}

static const struct page {
    const char *text, *keys, *last;
    bool has_more;
} pages[] = {
    {BEGIN "<IsTruncated>false</IsTruncated>" END, "", "", false},
    {BEGIN "<IsTruncated>true</IsTruncated>" KEY("p/a") KEY("p/b") END, "p/a,p/b,", "p/b", true},
    {BEGIN KEY("p/a") "<IsTruncated>false</IsTruncated>" END, "p/a,", "p/a", false},
    {BEGIN "<IsTruncated>false</IsTruncated>" KEY("a&amp;b") KEY("c") END, "c,", "c", false},
    {BEGIN "<IsTruncated>true</IsTruncated>" KEY("a") KEY("a&amp;b") END, "a,", "a", true},
    {BEGIN "<IsTruncated>true</IsTruncated>" KEY("a<b") END, "", "", true},
    {BEGIN "<IsTruncated>false</IsTruncated>" KEY("") END, ",", "", false},
};

static void test_pages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        kilni_text keys = {0};
        kilni_s3_page page;
        kilni_text_append(&keys, "");
        assert_true(kilni_s3_page_read(pages[i].text, strlen(pages[i].text), add, &keys, &page));
        assert_string_equal(keys.bytes, pages[i].keys);
        assert_int_equal(page.has_more, pages[i].has_more);
        assert_int_equal(page.last_key_size, strlen(pages[i].last));
        if (page.last_key_size > 0) {
            assert_memory_equal(page.last_key, pages[i].last, page.last_key_size);
        }
        kilni_text_done(&keys);
    }
}

static const char *const wrong[] = {
    "",
    "<html></html>",
    "<Error><Code>NoSuchBucket</Code></Error>",
    BEGIN END,
    BEGIN "<IsTruncated>maybe</IsTruncated>" END,
    BEGIN "<IsTruncated>false" END,
    BEGIN "<IsTruncated>false</IsTruncated>",
    BEGIN "<IsTruncated>false</IsTruncated><Contents><Key>a" END,
    BEGIN "<IsTruncated>false</IsTruncated><Contents></Contents>" END,
};

static void test_what_is_no_page(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        kilni_text keys = {0};
        kilni_s3_page page;
        assert_false(kilni_s3_page_read(wrong[i], strlen(wrong[i]), add, &keys, &page));
        kilni_text_done(&keys);
    }
    /* Pages that are truncated at any byte. */
    kilni_text keys = {0};
    kilni_s3_page page;
    for (size_t size = 0; size < strlen(pages[1].text); size++) {
        assert_false(kilni_s3_page_read(pages[1].text, size, add, &keys, &page));
    }
    kilni_text_done(&keys);
}

/* ---- sizes and times ---- */

#define ONE(contents) BEGIN "<IsTruncated>false</IsTruncated><Contents>" contents "</Contents>" END

static void take_key(void *user, const kilni_s3_key *key)
{
    *(kilni_s3_key *)user = *key;
}

static const struct facts {
    const char *text;
    uint64_t size, put_s;
} facts[] = {
    {ONE("<Key>a</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified><Size>5</Size>"), 5,
     784111777},
    {ONE("<Size>18446744073709551609</Size><LastModified>2026-02-28T23:59:59Z</LastModified>"
         "<Key>a</Key>"),
     UINT64_C(18446744073709551609), 1772323199},
    {ONE("<Key>a</Key><LastModified>1994-11-06T08:49:37.000</LastModified><Size>5</Size>"), 0, 0},
    {ONE("<Key>a</Key><LastModified>1994-00-06T08:49:37.000Z</LastModified><Size>5</Size>"), 0, 0},
    {ONE("<Key>a</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified><Size>x</Size>"), 0, 0},
    {ONE("<Key>a</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified><Size></Size>"), 0, 0},
    {ONE("<Key>a</Key><LastModified>Z</LastModified><Size>5</Size>"), 0, 0},
    {ONE("<Key>a</Key><Size>5</Size>") "<LastModified>1994-11-06T08:49:37.000Z</LastModified>", 0,
     0},
    {ONE("<Key>a</Key>"), 0, 0},
};

static void test_sizes_and_times(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        kilni_s3_page page;
        kilni_s3_key key = {.text = NULL};
        assert_true(
            kilni_s3_page_read(facts[i].text, strlen(facts[i].text), take_key, &key, &page));
        assert_memory_equal(key.text, "a", key.text_size);
        assert_int_equal(key.size, facts[i].size);
        assert_int_equal(key.put_s, facts[i].put_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages),
                                       cmocka_unit_test(test_what_is_no_page),
                                       cmocka_unit_test(test_sizes_and_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
