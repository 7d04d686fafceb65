/* SPDX-License-Identifier: Apache-2.0
 *
 * The uses of a server's entries that the processes of a machine share.
 */
#include "support/store_scene.h"

#include "store/remote/daily_uses.h"

#define DAY_S INT64_C(86400)
#define TODAY_S (INT64_C(20000) * DAY_S + 1000)

static char scratch[SCRATCH_DIRECTORY_SIZE];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

static kiln_digest digest_of(uint64_t number)
{
    return kilni_hash(&number, sizeof number);
}

static void test_a_use_is_reported_once_a_day(void **state)
{
    (void)state;
    kilni_daily_uses uses = {0};
    const kiln_digest digest = digest_of(1);
    for (int64_t now_s = TODAY_S; now_s < TODAY_S + 3 * DAY_S; now_s += DAY_S) {
        assert_false(kilni_daily_uses_has(&uses, &digest, now_s));
        assert_true(kilni_daily_uses_claim(&uses, &digest, now_s));
        assert_true(kilni_daily_uses_has(&uses, &digest, now_s));
        assert_false(kilni_daily_uses_claim(&uses, &digest, now_s));
        kilni_daily_uses_note(&uses, &digest, now_s);
    }
}

static void test_processes_share_a_file(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/uses", scratch);
    const kiln_digest digest = digest_of(1);
    kilni_daily_uses first = {.file = path}, second = {.file = path}, third = {.file = path};
    assert_true(kilni_daily_uses_claim(&first, &digest, TODAY_S));
    /* The report of the first process has failed, so the second one makes it. */
    assert_true(kilni_daily_uses_claim(&second, &digest, TODAY_S));
    kilni_daily_uses_note(&second, &digest, TODAY_S);
    assert_false(kilni_daily_uses_claim(&third, &digest, TODAY_S));
    assert_true(kilni_daily_uses_claim(&third, &digest, TODAY_S + DAY_S));
    kilni_daily_uses_note(&third, &digest, TODAY_S + DAY_S);
    assert_false(kilni_daily_uses_claim(&first, &digest, TODAY_S + DAY_S));
}

static void test_a_file_that_cannot_be_used(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/missing/uses", scratch);
    const kiln_digest digest = digest_of(1);
    kilni_daily_uses uses = {.file = path};
    assert_true(kilni_daily_uses_claim(&uses, &digest, TODAY_S));
    kilni_daily_uses_note(&uses, &digest, TODAY_S);
    assert_false(kilni_daily_uses_claim(&uses, &digest, TODAY_S));
}

/* Entries that share a bit on one day have different bits on other days, so each is reported on
 * most days. */
static void test_bits_that_entries_share(void **state)
{
    (void)state;
    enum { ENTRIES = 2000, DAYS = 10 };
    static unsigned reports[ENTRIES];
    kilni_daily_uses uses = {0};
    unsigned all = 0;
    memset(reports, 0, sizeof reports);
    for (unsigned day = 0; day < DAYS; day++) {
        for (unsigned i = 0; i < ENTRIES; i++) {
            const kiln_digest digest = digest_of(i);
            reports[i] += kilni_daily_uses_claim(&uses, &digest, TODAY_S + day * DAY_S);
        }
    }
    for (unsigned i = 0; i < ENTRIES; i++) {
        assert_true(reports[i] > DAYS / 4);
        all += reports[i];
    }
    assert_in_range(all, ENTRIES * DAYS * 9 / 10, ENTRIES * DAYS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_use_is_reported_once_a_day),
        cmocka_unit_test_setup_teardown(test_processes_share_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_used, set_up, tear_down),
        cmocka_unit_test(test_bits_that_entries_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
