/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys that a server has just denied to have.
 */
#include "support/store_scene.h"

#include <pthread.h>

#include "store/remote/recent_misses.h"

#define NOW_NS (UINT64_C(1) << 60)

static kiln_digest digest_of(uint64_t number)
{
    return kilni_hash(&number, sizeof number);
}

static void note(kilni_recent_misses *misses, const kiln_digest *digest, uint64_t now_ns)
{
    kilni_recent_misses_note(misses, digest, now_ns, kilni_recent_misses_begin(misses));
}

static void test_a_key_is_remembered_for_a_moment(void **state)
{
    (void)state;
    static kilni_recent_misses misses;
    const kiln_digest first = digest_of(1), second = digest_of(2);
    assert_false(kilni_recent_misses_has(&misses, &first, NOW_NS));
    assert_false(kilni_recent_misses_has(&misses, &first, 0));
    note(&misses, &first, NOW_NS);
    assert_true(kilni_recent_misses_has(&misses, &first, NOW_NS));
    assert_false(kilni_recent_misses_has(&misses, &second, NOW_NS));
    assert_true(
        kilni_recent_misses_has(&misses, &first, NOW_NS + KILNI_RECENT_MISSES_LAST_NS - 2000000));
    assert_false(
        kilni_recent_misses_has(&misses, &first, NOW_NS + KILNI_RECENT_MISSES_LAST_NS + 2000000));
    assert_false(kilni_recent_misses_has(&misses, &first, NOW_NS + UINT64_C(3600) * 1000000000));
    note(&misses, &first, NOW_NS);
    kilni_recent_misses_forget(&misses, &first);
    assert_false(kilni_recent_misses_has(&misses, &first, NOW_NS));
}

/* The time is counted in 32 bits. */
static void test_the_time_wraps_around(void **state)
{
    (void)state;
    static kilni_recent_misses misses;
    const kiln_digest digest = digest_of(1);
    const uint64_t before_ns = UINT64_C(0xffffffff) * 1000000;
    note(&misses, &digest, before_ns);
    assert_true(kilni_recent_misses_has(&misses, &digest, before_ns + 100000000));
    assert_false(kilni_recent_misses_has(&misses, &digest, before_ns + 400000000));
}

/* An answer may arrive after this process has put the entry that the server did not have. */
static void test_an_answer_that_comes_too_late(void **state)
{
    (void)state;
    static kilni_recent_misses misses;
    const kiln_digest digest = digest_of(1);
    const uint64_t generation = kilni_recent_misses_begin(&misses);
    kilni_recent_misses_forget(&misses, &digest);
    kilni_recent_misses_note(&misses, &digest, NOW_NS, generation);
    assert_false(kilni_recent_misses_has(&misses, &digest, NOW_NS));
}

/* ---- threads: a put that has returned is never denied ---- */

static kilni_recent_misses shared;
static _Atomic bool is_stored, is_over;

static void *ask(void *unused)
{
    (void)unused;
    const kiln_digest digest = digest_of(1);
    while (!atomic_load(&is_over)) {
        const uint64_t generation = kilni_recent_misses_begin(&shared);
        if (!atomic_load(&is_stored)) {
            kilni_recent_misses_note(&shared, &digest, NOW_NS, generation);
        }
    }
    return NULL;
}

static void test_a_put_and_late_answers(void **state)
{
    (void)state;
    pthread_t thread;
    const kiln_digest digest = digest_of(1);
    assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
    for (unsigned i = 0; i < 20000; i++) {
        atomic_store(&is_stored, true);
        kilni_recent_misses_forget(&shared, &digest);
        /* The answer may be in its slot for as long as the thread that records it has not looked at
         * the generation again. */
        unsigned spins = 0;
        while (kilni_recent_misses_has(&shared, &digest, NOW_NS)) {
            assert_true(++spins < 1000000000);
        }
        atomic_store(&is_stored, false);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_is_remembered_for_a_moment),
        cmocka_unit_test(test_the_time_wraps_around),
        cmocka_unit_test(test_an_answer_that_comes_too_late),
        cmocka_unit_test(test_a_put_and_late_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
