/* SPDX-License-Identifier: Apache-2.0
 *
 * The variable that sets capacities: how it is read, and when.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <kiln/constant.h>

#include "face/onednn/constant_environment.h"
#include "support/child.h"
#include "support/constant_budget.h"

enum { CPU, GPU };

static kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
static kilni_constant_warnings warnings;

static void read_value(const char *value)
{
    memset(&warnings, 0, sizeof warnings);
    for (int i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        kinds[i] = (kilni_constant_limits){KILN_UNLIMITED, KILN_POLICY_NO_EVICT};
    }
    kilni_constant_environment_read(value, kinds, &warnings);
}

static void assert_kind(int kind, uint64_t capacity_mib, uint32_t policy)
{
    assert_int_equal(kinds[kind].capacity_mib, capacity_mib);
    assert_int_equal(kinds[kind].policy, policy);
}

static void test_each_kind_gets_its_piece(void **state)
{
    (void)state;
    read_value("cpu:10240;gpu:2048");
    assert_kind(CPU, 10240, KILN_POLICY_NO_EVICT);
    assert_kind(GPU, 2048, KILN_POLICY_NO_EVICT);
    read_value("gpu:0");
    assert_kind(CPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_kind(GPU, 0, KILN_POLICY_NO_EVICT);
    assert_int_equal(warnings.count, 0);
}

static void test_a_piece_may_name_a_policy(void **state)
{
    (void)state;
    read_value("cpu:10240:NO_EVICT;gpu:2048:lru");
    assert_kind(CPU, 10240, KILN_POLICY_NO_EVICT);
    assert_kind(GPU, 2048, KILN_POLICY_LRU);
    read_value("CPU:1:Cost;Gpu:2:AUTO;");
    assert_kind(CPU, 1, KILN_POLICY_COST);
    assert_kind(GPU, 2, KILN_POLICY_AUTO);
    assert_int_equal(warnings.count, 0);
}

static void test_silent_peer_is_not_an_error(void **state)
{
    (void)state;
    const char *const values[] = {NULL, "", ";", ";;cpu:4;;"};
    for (int i = 0; i < 4; i++) {
        read_value(values[i]);
        assert_int_equal(warnings.count, 0);
        assert_kind(CPU, i == 3 ? 4 : KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    }
}

static void test_the_last_piece_of_a_kind_counts(void **state)
{
    (void)state;
    read_value("cpu:1:lru;gpu:5;cpu:2");
    assert_kind(CPU, 2, KILN_POLICY_LRU);
    assert_kind(GPU, 5, KILN_POLICY_NO_EVICT);
    read_value("cpu:1;cpu:two");
    assert_kind(CPU, 1, KILN_POLICY_NO_EVICT);
}

static void test_a_value_may_be_long(void **state)
{
    (void)state;
    char value[512];
    memset(value, ';', sizeof value);
    strcpy(value + 300, "cpu:18446744073709551615;gpu:00000000000000000000000000000000007");
    read_value(value);
    assert_kind(CPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_kind(GPU, 7, KILN_POLICY_NO_EVICT);
    assert_int_equal(warnings.count, 0);
}

static void test_a_malformed_piece_is_ignored_alone(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "cpu",      "cpu:",       ":10",     "cpu:abc",  "cpu:10abc",
        "cpu:-1",   "cpu:+1",     "cpu: 1",  " cpu:1",   "cpu:1.5",
        "cpu:0x10", "cpu:1:",     "cpu:1:x", "cpux:1",   "cp:1",
        "xpu:1",    "cpu:1:lru:", "cpu::",   "cpu:1K",   "cpu:18446744073709551616",
        "cpu=1",    "cpu,1",      "::::",    "cpu:1\n",  "cpu:1:no_evict_no_evict",
        ":",        "cpu:1:lru ", "0:1",     "cpu::lru", "cpu:99999999999999999999999999"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char value[128];
        snprintf(value, sizeof value, "cpu:3:lru;%s;gpu:4", pieces[i]);
        read_value(value);
        assert_int_equal(warnings.count, 1);
        assert_kind(CPU, 3, KILN_POLICY_LRU);
        assert_kind(GPU, 4, KILN_POLICY_NO_EVICT);
        const char *line = warnings.lines[0];
        assert_non_null(strstr(line, "ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY, piece 2, \""));
        assert_non_null(strstr(line, "expected "));
        assert_null(strchr(line, '\n'));
        assert_int_equal(warnings.lines[1][0], '\0');
    }
}

static void test_a_warning_says_what_was_expected(void **state)
{
    (void)state;
    read_value("tpu:1;cpu:x;cpu:1:mru;cpu");
    assert_int_equal(warnings.count, 4);
    assert_non_null(strstr(warnings.lines[0], "piece 1, \"tpu:1\": expected the kind cpu or gpu"));
    assert_non_null(strstr(warnings.lines[1], "piece 2, \"cpu:x\": expected a capacity in MiB"));
    assert_non_null(strstr(warnings.lines[2], "piece 3, \"cpu:1:mru\": expected the policy "));
    assert_non_null(strstr(warnings.lines[3], "piece 4, \"cpu\": expected kind:MiB"));
}

static void test_warnings_are_bounded(void **state)
{
    (void)state;
    char value[2048];
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    read_value(value);
    assert_int_equal(warnings.count, 1);
    assert_non_null(strstr(warnings.lines[0], "xxx...\": expected"));
    value[0] = '\0';
    for (int i = 0; i < 20; i++) {
        strcat(value, "x;");
    }
    read_value(value);
    assert_int_equal(warnings.count, 20);
    assert_non_null(strstr(warnings.lines[15], "piece 16,"));
    assert_non_null(strstr(warnings.lines[16], "4 more pieces"));
}

/* ---- a process ---- */

static void check_capacity(uint32_t kind, uint64_t capacity_mib, uint32_t policy)
{
    uint64_t capacity;
    uint32_t found;
    CHECK(constant_get_kind(kind, &capacity, &found) == KILN_OK);
    CHECK(capacity == capacity_mib && found == policy);
}

static void set_variable(const char *value)
{
    CHECK(setenv(KILNI_CONSTANT_VARIABLE, value, 1) == 0);
}

static void read_at_first_use(void)
{
    set_variable("cpu:10240;bad;gpu:2048:cost");
    check_capacity(KILN_ENGINE_CPU, 10240, KILN_POLICY_NO_EVICT);
    check_capacity(KILN_ENGINE_GPU, 2048, KILN_POLICY_COST);
    CHECK(strstr(kiln_constant_warning(0), "piece 2, \"bad\""));
    CHECK(!kiln_constant_warning(1));
    /* The variable is read only once. */
    set_variable("cpu:1;gpu:1");
    check_capacity(KILN_ENGINE_CPU, 10240, KILN_POLICY_NO_EVICT);
    kiln_constant_cache *cache;
    CHECK(kiln_constant_cache_of(KILN_ENGINE_GPU, 0, &cache) == KILN_OK);
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    CHECK(kiln_constant_get_stats(cache, &stats) == KILN_OK);
    CHECK(stats.max_bytes == (uint64_t)2 << 30 && stats.policy == KILN_POLICY_COST);
}

static void a_call_wins(void)
{
    set_variable("cpu:10:lru;gpu:20:lru");
    CHECK(constant_set_kind(KILN_ENGINE_CPU, 5, KILN_POLICY_UNCHANGED) == KILN_OK);
    CHECK(constant_set_index(KILN_ENGINE_GPU, 0, 6, KILN_POLICY_COST) == KILN_OK);
    check_capacity(KILN_ENGINE_CPU, 5, KILN_POLICY_LRU);
    check_capacity(KILN_ENGINE_GPU, 20, KILN_POLICY_LRU);
    uint64_t capacity;
    CHECK(constant_get_index(KILN_ENGINE_GPU, 0, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 6);
    CHECK(constant_get_index(KILN_ENGINE_GPU, 1, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 20);
}

static void zero_disables(void)
{
    set_variable("cpu:0;gpu:0");
    int flag = -1;
    CHECK(kiln_constant_get_enabled(&flag) == KILN_OK && flag == 0);
    CHECK(kiln_constant_set_enabled(1) == KILN_OK);
    check_capacity(KILN_ENGINE_CPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
}

static void a_warning_is_a_first_use_too(void)
{
    set_variable("x;x;x;x;x;x;x;x;x;x;x;x;x;x;x;x;x;x;cpu:8");
    CHECK(strstr(kiln_constant_warning(16), "2 more pieces"));
    CHECK(!kiln_constant_warning(17));
    set_variable("cpu:9");
    check_capacity(KILN_ENGINE_CPU, 8, KILN_POLICY_NO_EVICT);
}

static void test_the_variable_is_read_once_at_first_use(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(read_at_first_use), 0);
    assert_int_equal(run_in_child(a_warning_is_a_first_use_too), 0);
}

static void test_calls_override_the_variable(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(a_call_wins), 0);
}

static void test_the_variable_may_disable(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(zero_disables), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_gets_its_piece),
        cmocka_unit_test(test_a_piece_may_name_a_policy),
        cmocka_unit_test(test_silent_peer_is_not_an_error),
        cmocka_unit_test(test_the_last_piece_of_a_kind_counts),
        cmocka_unit_test(test_a_value_may_be_long),
        cmocka_unit_test(test_a_malformed_piece_is_ignored_alone),
        cmocka_unit_test(test_a_warning_says_what_was_expected),
        cmocka_unit_test(test_warnings_are_bounded),
        cmocka_unit_test(test_the_variable_is_read_once_at_first_use),
        cmocka_unit_test(test_calls_override_the_variable),
        cmocka_unit_test(test_the_variable_may_disable),
    };
    return cmocka_run_group_tests_name("constant environment", tests, NULL, NULL);
}
