/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of included files are kept beside a store, once each, and never on a server.
 */
#include "support/store_scene.h"

#include <sodium.h>

#include "support/failing_malloc.h"

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char cache[SCRATCH_PATH_SIZE];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

typedef struct file {
    unsigned char bytes[5000], digest[32];
    kiln_bytes content;
} file;

static void make_file(file *made, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        made->bytes[i] = (unsigned char)(i % 7);
    }
    made->content = (kiln_bytes){made->bytes, size};
    crypto_generichash(made->digest, sizeof made->digest, made->bytes, size, NULL, 0);
}

static kiln_status open_at(const char *location, uint32_t flags, kiln_store **ret_included)
{
    const kiln_store_params params = {.struct_size = sizeof params, .flags = flags};
    kiln_store *beside = NULL;
    kiln_status status = kiln_store_open(location, &params, &beside, NULL);
    if (status == KILN_OK) {
        status = kiln_included_open(beside, 1 << 20, ret_included);
        kiln_store_close(&beside);
    }
    return status;
}

static kiln_status get(kiln_store *included, const file *wanted)
{
    kiln_entry *found = NULL;
    const kiln_status status = kiln_included_get(included, wanted->digest, &found);
    if (status == KILN_OK) {
        const kiln_bytes payload = kiln_entry_payload(found);
        assert_int_equal(payload.size, wanted->content.size);
        assert_memory_equal(payload.data, wanted->bytes, payload.size);
    }
    kiln_entry_release(&found);
    return status;
}

static void test_a_content_is_kept_under_its_digest(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5000};
    kiln_store *included = NULL;
    assert_int_equal(open_at(cache, 0, &included), KILN_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        file made;
        make_file(&made, sizes[i]);
        assert_int_equal(kiln_included_contains(included, made.digest), KILN_MISS);
        assert_int_equal(get(included, &made), KILN_MISS);
        assert_int_equal(kiln_included_put(included, made.digest, made.content), KILN_OK);
        assert_int_equal(kiln_included_contains(included, made.digest), KILN_OK);
        assert_int_equal(get(included, &made), KILN_OK);
        made.digest[31] ^= 1;
        assert_int_equal(kiln_included_put(included, made.digest, made.content), KILN_E_INVALID);
        assert_int_equal(get(included, &made), KILN_MISS);
    }
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(included, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 3);
    assert_true(stat.bytes <= 3 * 4096);
    kiln_store_close(&included);
}

/* The content of an entry that somebody has put under another file's digest is not believed. */
static void test_a_wrong_content_is_not_returned(void **state)
{
    (void)state;
    kiln_store *included = NULL;
    kiln_entry *right = NULL, *wrong = NULL;
    file made;
    make_file(&made, 100);
    assert_int_equal(open_at(cache, 0, &included), KILN_OK);
    assert_int_equal(kiln_included_put(included, made.digest, made.content), KILN_OK);
    assert_int_equal(kiln_included_get(included, made.digest, &right), KILN_OK);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = kiln_entry_key(right),
                                      .kind = KILN_ENTRY_BLOB,
                                      .payload = {"wrong", 5}};
    assert_int_equal(kiln_entry_new(&params, &wrong), KILN_OK);
    assert_int_equal(kiln_store_put(included, wrong), KILN_OK);
    assert_int_equal(get(included, &made), KILN_E_CORRUPT);
    kiln_entry_release(&wrong);
    kiln_entry_release(&right);
    kiln_store_close(&included);
}

static void test_a_copy(void **state)
{
    (void)state;
    kiln_store *from = NULL, *into = NULL;
    kiln_store_stat stat = {.struct_size = sizeof stat};
    file small, large;
    make_file(&small, 10);
    make_file(&large, 5000);
    assert_int_equal(open_at(cache, 0, &from), KILN_OK);
    assert_int_equal(open_at(scratch_path(scratch, "other"), 0, &into), KILN_OK);
    assert_int_equal(kiln_included_put(from, small.digest, small.content), KILN_OK);
    assert_int_equal(kiln_included_put(from, large.digest, large.content), KILN_OK);
    assert_int_equal(scratch_put(from, 1, 100), KILN_OK);
    assert_int_equal(kiln_included_put(into, small.digest, small.content), KILN_OK);
    assert_int_equal(kiln_included_copy(from, into), KILN_OK);
    assert_int_equal(get(into, &small), KILN_OK);
    assert_int_equal(get(into, &large), KILN_OK);
    assert_int_equal(kiln_store_get_stat(into, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 2);
    assert_true(stat.bytes <= 2 * 4096);
    assert_int_equal(kiln_included_copy(from, NULL), KILN_E_INVALID);
    kiln_store_close(&into);
    kiln_store_close(&from);
}

static void test_where_it_is(void **state)
{
    (void)state;
    char chain[4 * SCRATCH_PATH_SIZE];
    kiln_store *included = NULL;
    file made;
    make_file(&made, 10);
    assert_int_equal(open_at(cache, KILN_STORE_READONLY | KILN_STORE_NO_CREATE, &included),
                     KILN_MISS);
    snprintf(chain, sizeof chain, "http://127.0.0.1:9/?trust=any|%s|%s/second", cache, scratch);
    assert_int_equal(open_at(chain, 0, &included), KILN_OK);
    assert_int_equal(kiln_included_put(included, made.digest, made.content), KILN_OK);
    kiln_store_close(&included);
    assert_int_equal(open_at(cache, KILN_STORE_READONLY, &included), KILN_OK);
    assert_int_equal(get(included, &made), KILN_OK);
    assert_int_equal(kiln_included_put(included, made.digest, made.content), KILN_E_READONLY);
    kiln_store_close(&included);
    assert_int_equal(open_at("http://127.0.0.1:9/?trust=any", 0, &included), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_included_open(NULL, 1, &included), KILN_E_INVALID);
    assert_null(included);
}

/* The contents do not appear among the entries. */
static void test_it_is_not_a_part_of_the_store(void **state)
{
    (void)state;
    kiln_store *beside = NULL, *included = NULL;
    kiln_store_stat stat = {.struct_size = sizeof stat};
    file made;
    make_file(&made, 5000);
    assert_int_equal(kiln_store_open(cache, NULL, &beside, NULL), KILN_OK);
    assert_int_equal(kiln_included_open(beside, 1 << 20, &included), KILN_OK);
    assert_int_equal(kiln_included_put(included, made.digest, made.content), KILN_OK);
    assert_int_equal(scratch_put(beside, 1, 100), KILN_OK);
    assert_int_equal(kiln_store_get_stat(beside, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 1);
    assert_int_equal(trim_to(beside, 0, NULL), KILN_OK);
    assert_int_equal(get(included, &made), KILN_OK);
    kiln_store_close(&included);
    kiln_store_close(&beside);
}

static kiln_status use(kiln_store *beside, const file *made)
{
    kiln_store *included = NULL;
    kiln_status status = kiln_included_open(beside, 1 << 20, &included);
    if (status == KILN_OK) {
        status = kiln_included_put(included, made->digest, made->content);
    }
    if (status == KILN_OK) {
        status = kiln_included_contains(included, made->digest);
    }
    if (status == KILN_OK) {
        status = get(included, made);
    }
    kiln_store_close(&included);
    return status;
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    kiln_store *beside = NULL;
    file made;
    make_file(&made, 5000);
    assert_int_equal(kiln_store_open(cache, NULL, &beside, NULL), KILN_OK);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = use(beside, &made);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        /* Closing a store also allocates memory, and does without. */
        assert_true(status == KILN_E_NO_MEMORY || status == KILN_OK);
    }
    kiln_store_close(&beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_content_is_kept_under_its_digest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wrong_content_is_not_returned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_where_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_not_a_part_of_the_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_runs_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
