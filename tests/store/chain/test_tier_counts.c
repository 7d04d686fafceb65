/* SPDX-License-Identifier: Apache-2.0
 *
 * What the look-ups and puts in a chain's tiers did, in the process and in the files.
 */
#include "support/store_scene.h"

#include "store/chain/tier_counts.h"

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

/* ---- durations ---- */

static uint64_t latency_of(const uint64_t *durations_ns, size_t count)
{
    kilni_tier_counts counts = {0};
    uint64_t values[KILNI_TIER_COUNTERS];
    for (size_t i = 0; i < count; i++) {
        kilni_tier_counts_note_get(&counts, KILN_MISS, 0, durations_ns[i]);
    }
    for (unsigned i = 0; i < KILNI_TIER_COUNTERS; i++) {
        values[i] = atomic_load(&counts.values[i]);
    }
    return kilni_tier_counts_latency(values);
}

static void test_a_latency_is_right_to_within_a_quarter(void **state)
{
    (void)state;
    for (uint64_t ns = 2000; ns < UINT64_C(8000000000); ns += ns / 7) {
        const uint64_t found_ns = latency_of(&ns, 1);
        assert_in_range(found_ns, ns - ns / 4, ns + ns / 4);
    }
    const uint64_t extremes[] = {1, UINT64_MAX};
    assert_int_equal(latency_of(&extremes[0], 1), 0); /* it did not come from a server */
    assert_true(latency_of(&extremes[1], 1) > UINT64_C(8000000000));
    assert_int_equal(latency_of(NULL, 0), 0);
}

static void test_the_latency_is_the_median(void **state)
{
    (void)state;
    const uint64_t durations_ns[] = {100000, 110000, 105000, 3000000000, 2500000000};
    assert_in_range(latency_of(durations_ns, 5), 75000, 140000);
    assert_in_range(latency_of(durations_ns + 2, 3), 1800000000, 4000000000);
}

/* ---- the file ---- */

static void test_counts_add_up(void **state)
{
    (void)state;
    uint64_t values[KILNI_TIER_COUNTERS];
    kilni_tier_counts counts = {0};
    kilni_tier_counts_read(scratch, "a", values);
    assert_int_equal(values[KILNI_TIER_HITS], 0);
    kilni_tier_counts_save(&counts, scratch, "a");
    assert_int_equal(access(scratch_path(scratch, "kiln-tier-"), F_OK), -1);
    for (unsigned i = 1; i <= 2; i++) {
        kilni_tier_counts_note_get(&counts, KILN_OK, 1000, 5000);
        kilni_tier_counts_note_get(&counts, KILN_MISS, 0, 5000);
        kilni_tier_counts_note_get(&counts, KILN_E_CORRUPT, 0, 5000);
        kilni_tier_counts_note_get(&counts, KILN_E_UNAUTHENTICATED, 0, 5000);
        kilni_tier_counts_note_get(&counts, KILN_E_VERSION, 0, 5000);
        kilni_tier_counts_note_get(&counts, KILN_E_IO, 0, UINT64_C(250000000));
        kilni_tier_counts_note_put(&counts, KILN_OK);
        kilni_tier_counts_note_put(&counts, KILN_E_DENIED);
        kilni_tier_counts_note_put(&counts, KILN_E_TOO_LARGE);
        kilni_tier_counts_note_fault(&counts, KILN_E_IO);
        kilni_tier_counts_note_fault(&counts, KILN_BUSY);
        kilni_tier_counts_note_drop(&counts);
        kilni_tier_counts_save(&counts, scratch, "a");
        kilni_tier_counts_save(&counts, scratch, "a");
        kilni_tier_counts_read(scratch, "a", values);
        assert_int_equal(values[KILNI_TIER_HITS], i);
        assert_int_equal(values[KILNI_TIER_READ_BYTES], 1000 * i);
        assert_int_equal(values[KILNI_TIER_MISSES], i);
        assert_int_equal(values[KILNI_TIER_DAMAGED], 2 * i);
        assert_int_equal(values[KILNI_TIER_FAULTS], 3 * i);
        assert_int_equal(values[KILNI_TIER_PUTS], i);
        assert_int_equal(values[KILNI_TIER_DROPPED], i);
        assert_in_range(kilni_tier_counts_latency(values), 3750, 6250);
    }
    kilni_tier_counts_read(scratch, "b", values);
    assert_int_equal(values[KILNI_TIER_HITS], 0);
}

static void test_counts_that_cannot_be_saved_are_kept(void **state)
{
    (void)state;
    uint64_t values[KILNI_TIER_COUNTERS];
    kilni_tier_counts counts = {0};
    kilni_tier_counts_note_get(&counts, KILN_MISS, 0, 0);
    kilni_tier_counts_save(&counts, scratch_path(scratch, "missing"), "a");
    kilni_tier_counts_save(&counts, scratch, "a");
    kilni_tier_counts_read(scratch, "a", values);
    assert_int_equal(values[KILNI_TIER_MISSES], 1);
}

/* Older look-ups weigh less, and newer ones are not drowned by all that were ever made. */
static void test_the_file_forgets_old_durations(void **state)
{
    (void)state;
    uint64_t values[KILNI_TIER_COUNTERS];
    for (unsigned i = 0; i < 40; i++) {
        kilni_tier_counts counts = {0};
        for (unsigned k = 0; k < 100; k++) {
            kilni_tier_counts_note_get(&counts, KILN_MISS, 0, i < 30 ? 100000 : 10000000);
        }
        kilni_tier_counts_save(&counts, scratch, "a");
    }
    kilni_tier_counts_read(scratch, "a", values);
    assert_int_equal(values[KILNI_TIER_MISSES], 4000);
    assert_in_range(kilni_tier_counts_latency(values), 7500000, 12500000);
}

/* ---- a chain ---- */

static kiln_tier_info seen[4];
static char locations[4][SCRATCH_PATH_SIZE];
static size_t seen_count;

static void take_tier(void *user, const kiln_tier_info *info)
{
    (void)user;
    assert_int_equal(info->struct_size, sizeof *info);
    seen[seen_count] = *info;
    snprintf(locations[seen_count], SCRATCH_PATH_SIZE, "%s", info->location);
    seen_count++;
}

static void look_at(kiln_store *store)
{
    seen_count = 0;
    assert_int_equal(kiln_store_each_tier(store, take_tier, NULL), KILN_OK);
}

static kiln_store *open_pair(uint32_t flags)
{
    char location[2 * SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    const kiln_store_params params = {.struct_size = sizeof params, .flags = flags};
    snprintf(location, sizeof location, "%s/a|%s/b", scratch, scratch);
    assert_int_equal(kiln_store_open(location, &params, &store, NULL), KILN_OK);
    return store;
}

static void test_the_tiers_of_a_chain(void **state)
{
    (void)state;
    kiln_store *below = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, "b"), NULL, &below, NULL), KILN_OK);
    assert_int_equal(scratch_put(below, 1, 1000), KILN_OK);
    look_at(below);
    assert_int_equal(seen_count, 0);
    kiln_store_close(&below);

    kiln_store *store = open_pair(0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    assert_int_equal(scratch_put(store, 3, 1000), KILN_OK);
    for (unsigned round = 0; round < 2; round++) {
        look_at(store);
        assert_int_equal(seen_count, 2);
        assert_string_equal(locations[0], scratch_path(scratch, "a"));
        assert_string_equal(locations[1], scratch_path(scratch, "b"));
        assert_int_equal(seen[0].hits, 1);
        assert_int_equal(seen[0].misses, 2);
        assert_int_equal(seen[0].puts, 2);
        assert_int_equal(seen[1].hits, 1);
        assert_int_equal(seen[1].misses, 1);
        assert_int_equal(seen[1].puts, 1);
        assert_true(seen[0].read_bytes > 1000 && seen[1].read_bytes > 1000);
        assert_int_equal(seen[0].latency_ns, 0);
        assert_null(seen[0].outage);
        /* A different process, which has not counted anything. */
        kiln_store_close(&store);
        store = open_pair(0);
    }
    kiln_store_close(&store);
    assert_int_equal(kiln_store_each_tier(NULL, take_tier, NULL), KILN_OK);
    assert_int_equal(kiln_store_each_tier(NULL, NULL, NULL), KILN_E_INVALID);
}

static void test_a_tier_that_cannot_be_opened(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path(scratch, "b"), 0777), 0);
    assert_int_equal(chmod(scratch_path(scratch, "b"), 0777), 0);
    kiln_store *store = open_pair(0);
    look_at(store);
    assert_null(seen[0].outage);
    assert_string_equal(seen[1].outage, "it could not be opened");
    assert_in_range(seen[1].retry_ns, 0, UINT64_C(1000000000));
    kiln_store_close(&store);
}

/* With KILN_STORE_READONLY, nothing is written to a chain's directories. */
static void test_a_chain_that_is_not_written(void **state)
{
    (void)state;
    kiln_store *store = open_pair(0);
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    kiln_store_close(&store);
    for (unsigned round = 0; round < 2; round++) {
        store = open_pair(KILN_STORE_READONLY);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
        kiln_store_close(&store);
    }
    store = open_pair(0);
    look_at(store);
    assert_int_equal(seen[0].hits, 0);
    assert_int_equal(seen[0].puts, 1);
    kiln_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_latency_is_right_to_within_a_quarter),
        cmocka_unit_test(test_the_latency_is_the_median),
        cmocka_unit_test_setup_teardown(test_counts_add_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counts_that_cannot_be_saved_are_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_file_forgets_old_durations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_tiers_of_a_chain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tier_that_cannot_be_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_chain_that_is_not_written, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
