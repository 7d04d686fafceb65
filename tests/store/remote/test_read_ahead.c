/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how often a walk asks the server, and that it returns the right value for each place.
 */
#include "support/store_scene.h"

#include "store/remote/read_ahead.h"

#define COUNT KILNI_READ_AHEAD_GROUP
#define HEAD_SIZE 100u

static char names[COUNT][16];
static size_t sizes[COUNT]; /* 0: the server does not have it */
static unsigned asked;      /* the number of questions */
static size_t asked_last;   /* the number of values in the last question */
static unsigned fails_from; /* the number of the first call that fails; 0: none */

static size_t place_of(const char *name)
{
    return (size_t)atoi(name);
}

/* Each value consists of one byte, its place. */
static void answer(kilni_remote_question *question)
{
    const size_t place = place_of(question->name);
    const size_t head_size = question->head_size;
    if (sizes[place] == 0) {
        question->status = KILN_MISS;
        return;
    }
    question->bytes.size = head_size > 0 && head_size < sizes[place] ? head_size : sizes[place];
    question->bytes.data = malloc(question->bytes.size);
    memset(question->bytes.data, (int)place, question->bytes.size);
    question->whole_size = sizes[place];
    question->status = KILN_OK;
}

static void ask_many(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                     uint64_t deadline_ns)
{
    (void)remote, (void)deadline_ns;
    uint64_t bytes = 0, max_bytes = 0;
    asked++;
    asked_last = count;
    for (size_t i = 0; i < count; i++) {
        questions[i].status = KILN_E_IO;
        if (fails_from == 0 || asked < fails_from) {
            answer(&questions[i]);
        }
        bytes += questions[i].bytes.size;
        max_bytes += questions[i].max_bytes;
    }
    assert_in_range(bytes, 0, max_bytes);
}

static const kilni_connector connector = {.ask_many = ask_many};
static kilni_read_ahead ahead;

static void begin(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ahead.heads[i].name = names[i];
    }
    kilni_read_ahead_begin(&ahead, count);
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        sizes[i] = 1000 + i;
    }
    ahead = (kilni_read_ahead){.connector = &connector, .head_size = HEAD_SIZE};
    asked = 0;
    fails_from = 0;
    begin(COUNT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kilni_read_ahead_end(&ahead);
    return 0;
}

static bool take(size_t place)
{
    kilni_remote_bytes bytes = {.data = NULL};
    const bool is_there = kilni_read_ahead_take(&ahead, place, 0, &bytes);
    if (is_there) {
        assert_int_equal(bytes.size, sizes[place]);
        for (size_t i = 0; i < bytes.size; i++) {
            assert_int_equal(bytes.data[i], place);
        }
    }
    free(bytes.data);
    return is_there;
}

static void test_all_heads_by_one_question(void **state)
{
    (void)state;
    sizes[7] = 0;
    sizes[8] = 50;
    for (size_t i = 0; i < COUNT; i++) {
        const kilni_remote_question *head = kilni_read_ahead_head(&ahead, i, 0);
        assert_non_null(head);
        assert_int_equal(head->status, i == 7 ? KILN_MISS : KILN_OK);
        assert_int_equal(head->bytes.size, i == 7 ? 0 : i == 8 ? 50 : HEAD_SIZE);
        assert_int_equal(head->whole_size, sizes[i]);
        assert_int_equal(i == 7 ? i : head->bytes.data[0], i);
    }
    assert_int_equal(asked, 1);
}

/* The walk asks for one, two, four, eight and then sixteen values at a time, and for the last value
 * alone. */
static void test_reading_in_order(void **state)
{
    (void)state;
    kilni_read_ahead_head(&ahead, 0, 0);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(take(i), i > 0 && i + 1 < COUNT);
    }
    assert_int_equal(asked_last, 16);
    assert_int_equal(asked, 1 + 6);
    /* The next group begins where this one ended. */
    kilni_read_ahead_end(&ahead);
    begin(COUNT);
    kilni_read_ahead_head(&ahead, 0, 0);
    assert_true(take(0));
    assert_int_equal(asked_last, 16);
}

/* If a caller skips values, none is read ahead, because it is unknown which value the caller reads
 * next. */
static void test_reading_some(void **state)
{
    (void)state;
    kilni_read_ahead_head(&ahead, 0, 0);
    for (size_t i = 1; i < COUNT; i += 2) {
        assert_false(take(i));
    }
    assert_int_equal(asked, 1);
    /* Nor is an entry read ahead if its size is unknown. */
    kilni_read_ahead_end(&ahead);
    begin(COUNT);
    assert_false(take(0));
    assert_int_equal(asked, 1);
}

static void test_what_is_not_read_ahead(void **state)
{
    (void)state;
    sizes[1] = 0;
    sizes[4] = 1 << 20;
    kilni_read_ahead_head(&ahead, 0, 0);
    assert_false(take(0)); /* the first is read alone */
    assert_false(take(1)); /* the server does not have it */
    assert_true(take(2));  /* together with 3, but without 4, which is too large */
    assert_int_equal(asked_last, 2);
    assert_true(take(3));
    assert_false(take(3)); /* the value was returned already */
    assert_false(take(4));
    assert_int_equal(asked, 2);
}

static void test_a_server_that_fails(void **state)
{
    (void)state;
    fails_from = 2;
    assert_non_null(kilni_read_ahead_head(&ahead, 0, 0));
    assert_false(take(0));
    assert_false(take(1));
    assert_int_equal(asked, 2);
    kilni_read_ahead_end(&ahead);
    begin(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_null(kilni_read_ahead_head(&ahead, i, 0));
        assert_false(take(i));
    }
    assert_int_equal(asked, 3); /* the server is not asked for each place */
}

static void test_a_server_that_takes_single_questions(void **state)
{
    (void)state;
    static const kilni_connector plain = {.ask_many = NULL};
    ahead.connector = &plain;
    assert_null(kilni_read_ahead_head(&ahead, 0, 0));
    assert_false(take(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_heads_by_one_question, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reading_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reading_some, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_read_ahead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_takes_single_questions, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
