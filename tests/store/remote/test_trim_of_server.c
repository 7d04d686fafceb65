/* SPDX-License-Identifier: Apache-2.0
 *
 * Trims stores on two servers that are in this process: one knows about uses, as Redis does, and
 * one only lists sizes and times, as S3 does.
 */
#include "support/store_scene.h"

#include "os/clock.h"
#include "store/remote/remote.h"
#include "support/failing_malloc.h"

#define COUNT 150u
#define DAY_S 86400
#define PAGE 40u

typedef struct fake_value {
    char name[64];
    unsigned char *bytes; /* NULL: the server does not have the value */
    size_t size;
    uint64_t put_s, unused_s, left_s;
} fake_value;

static fake_value values[COUNT];
static unsigned calls;           /* how many calls the server has had */
static unsigned fails_at;        /* the number of the call that fails; 0: none */
static unsigned removals;        /* how many values the server has removed */
static void (*on_removal)(void); /* called once, before the server removes the first value */
static kiln_store *store;

static const kilni_remote_naming naming = {"kiln/", "", "damaged/", "", "devices/", ""};

/* ---- the server ---- */

static kiln_status begin_call(void)
{
    calls++;
    return calls == fails_at ? KILN_E_IO : KILN_OK;
}

static fake_value *find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (values[i].bytes && strcmp(values[i].name, name) == 0) {
            return &values[i];
        }
    }
    return NULL;
}

static kiln_status take_head(const fake_value *value, size_t size, kilni_remote_bytes *ret_bytes)
{
    size = size < value->size ? size : value->size;
    ret_bytes->data = malloc(size);
    if (!ret_bytes->data) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(ret_bytes->data, value->bytes, size);
    ret_bytes->size = size;
    return KILN_OK;
}

static void answer(kilni_remote_question *question)
{
    const fake_value *value = find(question->name);
    question->status = value ? take_head(value, question->head_size, &question->bytes) : KILN_MISS;
    if (question->status == KILN_OK) {
        question->whole_size = value->size;
        question->unused_s = value->unused_s;
        question->left_s = value->left_s;
        memcpy(question->end, value->bytes + value->size - 8, 8);
    }
}

/* If the call fails, it does so for one of the values, as if one node of a cluster had failed. */
static void ask_many(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                     uint64_t deadline_ns)
{
    (void)remote, (void)deadline_ns;
    const kiln_status status = begin_call();
    for (size_t i = 0; i < count; i++) {
        assert_true(questions[i].is_about_use);
        answer(&questions[i]);
    }
    if (status != KILN_OK) {
        free(questions[count - 1].bytes.data);
        questions[count - 1].bytes.data = NULL;
        questions[count - 1].status = status;
    }
}

static kiln_status get_head(kilni_remote *remote, const char *name, size_t size,
                            uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                            uint64_t *ret_whole_size)
{
    (void)remote, (void)deadline_ns;
    const fake_value *value = find(name);
    const kiln_status status = begin_call();
    if (status != KILN_OK || !value) {
        return status != KILN_OK ? status : KILN_MISS;
    }
    *ret_whole_size = value->size;
    return take_head(value, size, ret_bytes);
}

static void remove_one(kilni_remote_judged *judged)
{
    fake_value *value = find(judged->name);
    const bool is_same =
        value && judged->size == value->size &&
        (judged->put_s > 0 ? judged->put_s == value->put_s
                           : memcmp(judged->end, value->bytes + value->size - 8, 8) == 0);
    judged->status = is_same ? KILN_OK : KILN_MISS;
    if (is_same) {
        free(value->bytes);
        value->bytes = NULL;
        removals++;
    }
}

static kiln_status remove_judged(kilni_remote *remote, kilni_remote_judged *judged, size_t count,
                                 uint64_t deadline_ns)
{
    (void)remote, (void)deadline_ns;
    void (*const hook)(void) = on_removal;
    const kiln_status status = begin_call();
    on_removal = NULL;
    if (hook) {
        hook();
    }
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        remove_one(&judged[i]);
    }
    return status;
}

/* A page begins with the last names of the previous page, so names are repeated. */
static kiln_status list_page(char *cursor, bool has_facts, kilni_remote_visit_fn *visit, void *user)
{
    const size_t from = strtoul(cursor, NULL, 10);
    const kiln_status status = begin_call();
    size_t i = from > 5 ? from - 5 : 0;
    if (status != KILN_OK) {
        return status;
    }
    for (; i < COUNT && i < from + PAGE; i++) {
        if (values[i].bytes) {
            visit(user, &(kilni_remote_listed){.name = values[i].name,
                                               .name_size = strlen(values[i].name),
                                               .size = has_facts ? values[i].size : 0,
                                               .put_s = has_facts ? values[i].put_s : 0});
        }
    }
    visit(user, &(kilni_remote_listed){.name = "kiln/other", .name_size = 10});
    snprintf(cursor, KILNI_REMOTE_CURSOR_SIZE, "%zu", i);
    cursor[0] = i < COUNT ? cursor[0] : '\0';
    return KILN_OK;
}

static kiln_status list_names(kilni_remote *remote, const char *prefix,
                              char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                              kilni_remote_visit_fn *visit, void *user)
{
    (void)remote, (void)prefix, (void)deadline_ns;
    return list_page(cursor, false, visit, user);
}

static kiln_status list_facts(kilni_remote *remote, const char *prefix,
                              char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                              kilni_remote_visit_fn *visit, void *user)
{
    (void)remote, (void)prefix, (void)deadline_ns;
    return list_page(cursor, true, visit, user);
}

static kiln_status open_server(const kilni_remote_server *server, kilni_remote **ret_remote,
                               kiln_error *error)
{
    (void)server, (void)error;
    *ret_remote = NULL;
    return KILN_OK;
}

static void close_server(kilni_remote *remote)
{
    (void)remote;
}

static void limit_calls(const _Atomic uint64_t *end_ns)
{
    (void)end_ns;
}

static kilni_server_fault fault(const kilni_remote *remote)
{
    (void)remote;
    return KILNI_FAULT_SILENT;
}

static const kilni_connector knows_uses = {.open = open_server,
                                           .close = close_server,
                                           .limit_calls = limit_calls,
                                           .ask_many = ask_many,
                                           .knows_uses = true,
                                           .get_head = get_head,
                                           .remove_judged = remove_judged,
                                           .list = list_names,
                                           .fault = fault};
static const kilni_connector knows_puts = {.open = open_server,
                                           .close = close_server,
                                           .limit_calls = limit_calls,
                                           .get_head = get_head,
                                           .remove_judged = remove_judged,
                                           .list = list_facts,
                                           .fault = fault};
static const kilni_connector *const connectors[] = {&knows_uses, &knows_puts};

/* ---- the scene ---- */

/* Value @i was last used or put @i days ago. It is the larger, the smaller @i is. */
static void fill(void)
{
    const uint64_t now_s = (uint64_t)kilni_clock_unix_s();
    for (size_t i = 0; i < COUNT; i++) {
        fake_value *value = &values[i];
        kiln_entry *entry = scratch_entry(i, 1000 + COUNT - i);
        const kiln_bytes bytes = kiln_entry_encoding(entry);
        const kiln_digest digest = kiln_key_digest(kiln_entry_key(entry));
        char text[KILN_DIGEST_TEXT_SIZE];
        kiln_digest_format(&digest, text);
        free(value->bytes);
        *value = (fake_value){.size = bytes.size,
                              .put_s = now_s - i * DAY_S,
                              .unused_s = i * DAY_S,
                              .left_s = UINT64_MAX};
        snprintf(value->name, sizeof value->name, "kiln/%s", text);
        value->bytes = malloc(bytes.size);
        memcpy(value->bytes, bytes.data, bytes.size);
        kiln_entry_release(&entry);
    }
    calls = 0;
    fails_at = 0;
    removals = 0;
    on_removal = NULL;
}

static void open_with(const kilni_connector *connector, uint32_t policy, uint64_t expire_s)
{
    const kilni_remote_server server = {.port = 0};
    const kilni_store_options options = {.policy = policy,
                                         .expire_s = expire_s,
                                         .max_entry_bytes = KILN_UNLIMITED,
                                         .trusts_any = true};
    kiln_store_close(&store);
    assert_int_equal(kilni_remote_open("a server", connector, &server, &naming, &options,
                                       KILNI_STORE_WRITABLE, NULL, &store, NULL),
                     KILN_OK);
    fill();
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    for (size_t i = 0; i < COUNT; i++) {
        free(values[i].bytes);
        values[i].bytes = NULL;
    }
    return 0;
}

static uint64_t bytes_of(size_t from, size_t to)
{
    uint64_t bytes = 0;
    for (size_t i = from; i < to; i++) {
        bytes += values[i].bytes ? values[i].size : 0;
    }
    return bytes;
}

static kiln_status trim(uint32_t flags, uint64_t max_bytes, uint64_t older_than_s,
                        kiln_trim_report *ret_report)
{
    const kiln_trim_params params = {.struct_size = sizeof params,
                                     .flags = flags,
                                     .max_bytes = max_bytes,
                                     .older_than_s = older_than_s};
    *ret_report = (kiln_trim_report){.struct_size = sizeof *ret_report};
    return kiln_store_trim(store, &params, ret_report);
}

/* Checks that the server has exactly the values from @from to @to. */
static void expect_left(size_t from, size_t to)
{
    for (size_t i = 0; i < COUNT; i++) {
        if ((values[i].bytes != NULL) != (i >= from && i < to)) {
            fail_msg("value %zu, of %zu to %zu", i, from, to);
        }
    }
}

/* ---- the order ---- */

static void test_the_oldest_are_removed(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        kiln_trim_report report;
        open_with(connectors[c], KILN_POLICY_LRU, 0);
        const uint64_t limit = bytes_of(0, 60), all = bytes_of(0, COUNT);
        assert_int_equal(trim(KILN_TRIM_BY_SIZE | KILN_TRIM_DRY_RUN, limit, 0, &report), KILN_OK);
        assert_int_equal(report.removed, COUNT - 60);
        assert_int_equal(removals, 0);
        assert_int_equal(trim(KILN_TRIM_BY_SIZE, limit, 0, &report), KILN_OK);
        expect_left(0, 60);
        assert_int_equal(report.removed, COUNT - 60);
        assert_int_equal(report.removed_bytes, all - limit);
        assert_int_equal(report.entries, 60);
        assert_int_equal(report.bytes, limit);
        assert_int_equal(trim(0, 0, 30 * DAY_S + 3600, &report), KILN_OK);
        expect_left(0, 31);
        assert_int_equal(trim(0, 0, 0, &report), KILN_OK);
        assert_int_equal(report.removed, 0);
        assert_int_equal(report.entries, 31);
        /* Both: 20 days, and after that the size. */
        assert_int_equal(trim(KILN_TRIM_BY_SIZE, bytes_of(0, 10), 20 * DAY_S + 3600, &report),
                         KILN_OK);
        expect_left(0, 10);
        assert_int_equal(trim(KILN_TRIM_BY_SIZE, 0, 0, &report), KILN_OK);
        expect_left(0, 0);
    }
}

/* All entries cost nearly the same, so the large ones that are old are removed. With half of them
 * used now, the newest is one of the largest, and stays. */
static void test_the_policy_counts_where_costs_are_known(void **state)
{
    (void)state;
    kiln_trim_report report;
    open_with(&knows_uses, KILN_POLICY_COST, 0);
    for (size_t i = 0; i < COUNT; i++) {
        values[i].unused_s = i == 0 ? 0 : DAY_S;
    }
    assert_int_equal(trim(KILN_TRIM_BY_SIZE, values[0].size + bytes_of(100, COUNT), 0, &report),
                     KILN_OK);
    assert_non_null(values[0].bytes);
    assert_null(values[1].bytes);
    assert_null(values[99].bytes);
    assert_int_equal(report.entries, COUNT - 99);
    assert_int_equal(trim(KILN_TRIM_BY_SIZE, values[0].size, 0, &report), KILN_OK);
    expect_left(0, 1);
}

/* What is left of the time to live counts, and not the idle time. */
static void test_the_time_to_live_counts(void **state)
{
    (void)state;
    kiln_trim_report report;
    open_with(&knows_uses, KILN_POLICY_COST, 100 * DAY_S);
    for (size_t i = 0; i < COUNT; i++) {
        values[i].unused_s = 1;
        values[i].left_s = i <= 100 ? (100 - i) * DAY_S : 500 * DAY_S;
    }
    values[50].left_s = UINT64_MAX; /* it does not expire, so the idle time counts */
    assert_int_equal(trim(0, 0, 40 * DAY_S + 3600, &report), KILN_OK);
    assert_int_equal(report.removed, 100 - 41);
    assert_non_null(values[40].bytes);
    assert_null(values[41].bytes);
    assert_non_null(values[50].bytes);
    assert_non_null(values[101].bytes);
}

/* Replaces a value by an entry that a machine with a wrong clock has built. */
static void build_at(size_t number, int64_t created_s)
{
    fake_value *value = &values[number];
    kiln_key *key = scratch_key(number);
    kiln_entry *entry = NULL;
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .created_s = created_s},
        .payload = {"payload", 7},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    free(value->bytes);
    value->bytes = malloc(bytes.size);
    memcpy(value->bytes, bytes.data, bytes.size);
    value->size = bytes.size;
    value->unused_s = UINT64_MAX;
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

/* A time that is far in the past or in the future counts as the oldest. */
static void test_impossible_times(void **state)
{
    (void)state;
    kiln_trim_report report;
    open_with(&knows_uses, KILN_POLICY_LRU, 0);
    build_at(0, INT64_MAX);
    build_at(1, INT64_MIN);
    build_at(2, INT64_C(1) << 40);
    values[3].unused_s = (uint64_t)INT64_MAX / 2;
    assert_int_equal(trim(0, 0, 1000 * DAY_S, &report), KILN_OK);
    expect_left(4, COUNT);
    open_with(&knows_puts, KILN_POLICY_LRU, 0);
    values[0].put_s = UINT64_C(253402300799); /* the end of the year 9999 */
    assert_int_equal(trim(0, 0, 1000 * DAY_S, &report), KILN_OK);
    expect_left(1, COUNT);
}

/* ---- what stays ---- */

static void test_newer_entries_stay(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        kiln_trim_report report;
        open_with(connectors[c], KILN_POLICY_LRU, 0);
        values[COUNT - 1].bytes[8] = 2;
        values[COUNT - 2].bytes[0] = 'x'; /* damaged */
        const uint64_t size = values[COUNT - 1].size;
        assert_int_equal(trim(KILN_TRIM_BY_SIZE | KILN_TRIM_NEWER, 0, 0, &report),
                         KILN_E_UNSUPPORTED);
        /* Others are removed in its place. */
        assert_int_equal(trim(KILN_TRIM_BY_SIZE, bytes_of(0, 20) + size, 0, &report), KILN_OK);
        assert_non_null(values[COUNT - 1].bytes);
        assert_null(values[COUNT - 2].bytes);
        assert_non_null(values[19].bytes);
        assert_null(values[20].bytes);
        assert_int_equal(trim(KILN_TRIM_BY_SIZE, 0, 1, &report), KILN_OK);
        expect_left(COUNT - 1, COUNT);
        assert_int_equal(report.entries, 1);
        assert_int_equal(report.bytes, size);
    }
}

static void replace(void)
{
    fake_value *value = &values[COUNT - 3];
    value->bytes[value->size - 1] ^= 1;
    value->put_s += 1000;
    free(values[COUNT - 4].bytes);
    values[COUNT - 4].bytes = NULL; /* a different trim removes it */
}

static void test_what_is_replaced_meanwhile_stays(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        kiln_trim_report report;
        open_with(connectors[c], KILN_POLICY_LRU, 0);
        const uint64_t limit = bytes_of(0, 20);
        on_removal = replace;
        assert_int_equal(trim(KILN_TRIM_BY_SIZE, limit, 0, &report), KILN_OK);
        assert_non_null(values[COUNT - 3].bytes);
        assert_null(values[COUNT - 4].bytes);
        assert_non_null(values[19].bytes);
        assert_null(values[20].bytes);
        assert_int_equal(report.removed, COUNT - 20 - 2);
    }
}

/* ---- failures ---- */

/* A failure never removes what should stay, and the next trim finishes the work. */
static void test_every_call_fails(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        bool has_succeeded = false, has_begun = false;
        for (unsigned n = 1; !has_succeeded; n++) {
            kiln_trim_report report;
            open_with(connectors[c], KILN_POLICY_LRU, 0);
            const uint64_t limit = bytes_of(0, 20);
            fails_at = n;
            const kiln_status status = trim(KILN_TRIM_BY_SIZE, limit, 0, &report);
            has_succeeded = calls < n;
            assert_int_equal(status, has_succeeded ? KILN_OK : KILN_E_IO);
            has_begun = has_begun || (!has_succeeded && removals > 0);
            assert_true(bytes_of(0, 20) == limit);
            fails_at = 0;
            assert_int_equal(trim(KILN_TRIM_BY_SIZE, limit, 0, &report), KILN_OK);
            expect_left(0, 20);
        }
        assert_true(has_begun);
    }
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        kiln_trim_report report;
        open_with(connectors[c], KILN_POLICY_LRU, 0);
        const uint64_t limit = bytes_of(0, 20);
        for (size_t n = 1;; n++) {
            failing_malloc_arm(n);
            const kiln_status status = trim(KILN_TRIM_BY_SIZE, limit, 0, &report);
            if (failing_malloc_disarm() < n) {
                assert_int_equal(status, KILN_OK);
                break;
            }
            assert_true(status == KILN_E_NO_MEMORY || status == KILN_OK);
            assert_true(bytes_of(0, 20) == limit);
        }
        expect_left(0, 20);
    }
}

/* A list without times is not a list of S3. */
static void test_a_list_without_times(void **state)
{
    (void)state;
    kiln_trim_report report;
    open_with(&knows_puts, KILN_POLICY_LRU, 0);
    values[70].put_s = 0;
    assert_int_equal(trim(KILN_TRIM_BY_SIZE, 0, 0, &report), KILN_E_IO);
    expect_left(0, COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_oldest_are_removed, tear_down),
        cmocka_unit_test_teardown(test_the_policy_counts_where_costs_are_known, tear_down),
        cmocka_unit_test_teardown(test_the_time_to_live_counts, tear_down),
        cmocka_unit_test_teardown(test_impossible_times, tear_down),
        cmocka_unit_test_teardown(test_newer_entries_stay, tear_down),
        cmocka_unit_test_teardown(test_what_is_replaced_meanwhile_stays, tear_down),
        cmocka_unit_test_teardown(test_every_call_fails, tear_down),
        cmocka_unit_test_teardown(test_every_allocation_fails, tear_down),
        cmocka_unit_test_teardown(test_a_list_without_times, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
