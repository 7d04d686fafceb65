/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the record of files that NVRTC's programs read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "device/watch/changed_files.h"
#include "device/watch/known_reads.h"
#include "device/watch/read_files.h"
#include "support/child.h"
#include "support/failing_malloc.h"
#include "support/nvrtc_scene.h"

#define MUCH ((size_t)1 << 30)

static const kiln_digest first = {{1}}, second = {{2}}, third = {{3}};

/* ---- reads ---- */

static kiln_bytes bytes_of(const kilni_text *text)
{
    return (kiln_bytes){text->bytes, text->length};
}

static const kiln_bytes nothing = {NULL, 0};

/* Returns the reads of a compilation that reads one file. */
static kiln_status read_file(const char *path, kilni_text *ret_reads)
{
    kilni_reads *reads = NULL;
    kilni_words words = {.list = &kilni_clock_words};
    const char *why;
    kiln_status status = kilni_reads_new(NULL, &kilni_clock_words, &reads);
    if (status == KILN_OK) {
        kilni_reads_note(reads, path);
        status = kilni_reads_finish(reads, false, &words, ret_reads, &why);
        kilni_reads_free(&reads);
    }
    return status;
}

static kilni_text reads_of(const char *path)
{
    kilni_text text = {0};
    assert_int_equal(read_file(path, &text), KILN_OK);
    return text;
}

/* Returns reads of about 40 KB, of paths that do not exist. */
static kilni_text long_reads(char letter)
{
    kilni_reads *reads = NULL;
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text text = {0};
    const char *why;
    assert_int_equal(kilni_reads_new(NULL, &kilni_clock_words, &reads), KILN_OK);
    for (int i = 0; i < 200; i++) {
        char path[256];
        snprintf(path, sizeof path, "%c%0200d", letter, i);
        kilni_reads_note(reads, path);
    }
    assert_int_equal(kilni_reads_finish(reads, false, &words, &text, &why), KILN_OK);
    kilni_reads_free(&reads);
    return text;
}

/* ---- what is known ---- */

static kilni_known_reads *new_known(size_t bytes_max)
{
    kilni_known_reads *known = NULL;
    assert_int_equal(kilni_known_reads_new(bytes_max, NULL, &known), KILN_OK);
    return known;
}

static uint64_t ask(kilni_known_reads *known, const kiln_digest *program)
{
    uint64_t revision = 0;
    const char *why = NULL;
    assert_int_equal(kilni_known_reads_get_revision(known, program, &revision, &why), KILN_OK);
    assert_null(why);
    assert_true(revision > 0);
    return revision;
}

static void set(kilni_known_reads *known, const kiln_digest *program, kiln_bytes reads)
{
    assert_int_equal(kilni_known_reads_set(known, program, reads, NULL), KILN_OK);
}

static uint64_t begin_look(kilni_known_reads *known, const kiln_digest *program)
{
    uint64_t mark = 0;
    assert_int_equal(kilni_known_reads_begin_check(known, program, &mark), KILN_OK);
    return mark;
}

/* A kilni_known_reads, and the reads of two states of a file. */
typedef struct known_scene {
    kilni_known_reads *known;
    kilni_text a, b;
} known_scene;

static known_scene new_scene(void)
{
    known_scene s = {.known = new_known(MUCH)};
    write_file("v.h", "b");
    s.b = reads_of("v.h");
    write_file("v.h", "a");
    s.a = reads_of("v.h");
    return s;
}

static void end_scene(known_scene *s)
{
    kilni_known_reads_free(&s->known);
    assert_null(s->known);
    kilni_text_done(&s->a);
    kilni_text_done(&s->b);
}

/* ---- revisions ---- */

static void test_revisions(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t revision = ask(s.known, &first);
    assert_int_equal(ask(s.known, &first), revision);
    assert_int_not_equal(ask(s.known, &second), revision);
    set(s.known, &first, bytes_of(&s.a));
    assert_int_equal(ask(s.known, &first), revision);
    set(s.known, &first, bytes_of(&s.a));
    assert_int_equal(ask(s.known, &first), revision);
    write_file("v.h", "b");
    const uint64_t next = ask(s.known, &first);
    assert_int_not_equal(next, revision);
    set(s.known, &first, bytes_of(&s.b));
    assert_int_equal(ask(s.known, &first), next);
    write_file("v.h", "a");
    set(s.known, &first, bytes_of(&s.a));
    assert_true(ask(s.known, &first) > next);
    end_scene(&s);
}

/* Two objects never have the same revision. */
static void test_revisions_of_two_objects(void **state)
{
    (void)state;
    kilni_known_reads *one = new_known(MUCH), *other = new_known(MUCH);
    assert_int_not_equal(ask(one, &first), ask(other, &first));
    kilni_known_reads_free(&one);
    kilni_known_reads_free(&other);
    kilni_known_reads_free(&other);
}

static void test_unknown_reads(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t before = ask(s.known, &first);
    set(s.known, &first, nothing);
    const uint64_t without = ask(s.known, &first);
    assert_int_not_equal(without, before);
    set(s.known, &first, bytes_of(&s.a));
    assert_int_equal(ask(s.known, &first), without);
    set(s.known, &first, nothing);
    assert_int_not_equal(ask(s.known, &first), without);
    end_scene(&s);
}

static void test_reason_is_returned(void **state)
{
    (void)state;
    static const char reason[] = "a reason";
    known_scene s = new_scene();
    uint64_t revision = 0;
    const char *why = NULL;
    assert_int_equal(kilni_known_reads_set(s.known, &first, bytes_of(&s.a), reason), KILN_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kilni_known_reads_get_revision(s.known, &first, &revision, &why),
                         KILN_E_UNSUPPORTED);
        assert_ptr_equal(why, reason);
    }
    assert_int_equal(revision, 0);
    ask(s.known, &second);
    write_file("v.h", "b");
    ask(s.known, &first);
    end_scene(&s);
}

/* ---- how much is known ---- */

static void test_the_oldest_are_forgotten(void **state)
{
    (void)state;
    kilni_known_reads *known = new_known(100000);
    kilni_text a = long_reads('a');
    const uint64_t of_first = ask(known, &first), of_second = ask(known, &second);
    set(known, &first, bytes_of(&a));
    set(known, &second, bytes_of(&a));
    assert_int_equal(ask(known, &first), of_first);
    set(known, &third, bytes_of(&a));
    assert_int_equal(ask(known, &first), of_first);
    assert_int_not_equal(ask(known, &second), of_second);
    kilni_known_reads_free(&known);
    kilni_text_done(&a);
}

static void test_the_newest_is_never_forgotten(void **state)
{
    (void)state;
    kilni_known_reads *known = new_known(1);
    kilni_text a = long_reads('a');
    const uint64_t revision = ask(known, &first);
    set(known, &first, bytes_of(&a));
    assert_int_equal(ask(known, &first), revision);
    ask(known, &second);
    assert_int_not_equal(ask(known, &first), revision);
    kilni_known_reads_free(&known);
    kilni_text_done(&a);
}

/* Reads that were replaced, ended or forgotten no longer count towards the size. */
static void test_replaced_reads_use_no_memory(void **state)
{
    (void)state;
    kilni_known_reads *known = new_known(100000);
    kilni_text a = long_reads('a'), b = long_reads('b');
    for (unsigned char i = 0; i < 10; i++) {
        const kiln_digest other = {{(unsigned char)(10 + i)}};
        set(known, &other, bytes_of(&a));
        set(known, &first, bytes_of(&a));
        set(known, &first, bytes_of(&b));
        set(known, &first, nothing);
    }
    const uint64_t of_first = ask(known, &first);
    set(known, &first, bytes_of(&a));
    set(known, &second, bytes_of(&a));
    assert_int_equal(ask(known, &first), of_first);
    kilni_known_reads_free(&known);
    kilni_text_done(&a);
    kilni_text_done(&b);
}

/* Recorded reads cause older ones to be forgotten, even if no revision is requested. */
static void test_recorded_reads_replace_older_ones(void **state)
{
    (void)state;
    kilni_known_reads *known = new_known(100000);
    kilni_text a = long_reads('a');
    const uint64_t of_first = ask(known, &first);
    set(known, &first, bytes_of(&a));
    set(known, &second, bytes_of(&a));
    set(known, &third, bytes_of(&a));
    set(known, &third, nothing);
    assert_int_not_equal(ask(known, &first), of_first);
    kilni_known_reads_free(&known);
    kilni_text_done(&a);
}

/* ---- reads that an entry lists ---- */

static void test_found_without_a_request(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t revision = ask(s.known, &first), mark = begin_look(s.known, &first);
    ask(s.known, &second);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, 0, bytes_of(&s.a)), KILN_OK);
    assert_int_equal(ask(s.known, &first), revision);
    write_file("v.h", "b");
    assert_int_not_equal(ask(s.known, &first), revision);
    end_scene(&s);
}

static void test_found_after_a_request(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t mark = begin_look(s.known, &first);
    const uint64_t revision = ask(s.known, &first);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, 0, bytes_of(&s.a)),
                     KILN_BUSY);
    assert_int_equal(ask(s.known, &first), revision); /* the reads are known now */
    write_file("v.h", "b");
    assert_int_not_equal(ask(s.known, &first), revision);
    end_scene(&s);
}

static void test_found_with_other_reads_known(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t revision = ask(s.known, &first);
    set(s.known, &first, bytes_of(&s.b));
    const uint64_t mark = begin_look(s.known, &first);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, 0, bytes_of(&s.a)),
                     KILN_BUSY);
    assert_int_not_equal(ask(s.known, &first), revision);
    end_scene(&s);
}

static void test_found_with_the_same_reads_known(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t revision = ask(s.known, &first);
    set(s.known, &first, bytes_of(&s.a));
    const uint64_t mark = begin_look(s.known, &first);
    assert_int_equal(ask(s.known, &first), revision);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, 0, bytes_of(&s.a)), KILN_OK);
    assert_int_equal(ask(s.known, &first), revision);
    end_scene(&s);
}

/* A caller received the revision with the reads that were known then, which have changed since. */
static void test_found_after_the_known_reads_ended(void **state)
{
    (void)state;
    known_scene s = new_scene();
    set(s.known, &first, bytes_of(&s.a));
    const uint64_t mark = begin_look(s.known, &first);
    ask(s.known, &first);
    set(s.known, &first, nothing);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, 0, bytes_of(&s.b)),
                     KILN_BUSY);
    end_scene(&s);
}

/* A caller received the revision before any reads were known. */
static void test_found_after_the_same_became_known(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t mark = begin_look(s.known, &first);
    ask(s.known, &first);
    set(s.known, &first, bytes_of(&s.a));
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, 0, bytes_of(&s.a)),
                     KILN_BUSY);
    end_scene(&s);
}

/* ---- other revisions ---- */

/* Reads that were found for an earlier revision do not belong to the present one, whether confirm
 * or a request noticed that the earlier one has ended. */
static void test_found_for_a_different_revision(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t earlier = ask(s.known, &first);
    set(s.known, &first, bytes_of(&s.a));
    write_file("v.h", "b");
    uint64_t mark = begin_look(s.known, &first);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, earlier, bytes_of(&s.b)),
                     KILN_MISS);
    const uint64_t later = ask(s.known, &first);
    mark = begin_look(s.known, &first);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, earlier, bytes_of(&s.b)),
                     KILN_MISS);
    assert_int_equal(kilni_known_reads_confirm(s.known, &first, mark, later, bytes_of(&s.b)),
                     KILN_OK);
    end_scene(&s);
}

/* ---- memory that runs out ---- */

/* A call that is made after the reads of the first program were recorded for the scene's state
 * a. */
typedef kiln_status known_call(known_scene *s);

static kiln_status make(known_scene *s)
{
    kilni_known_reads *made = NULL;
    const kiln_status status = kilni_known_reads_new(MUCH, NULL, &made);
    (void)s;
    kilni_known_reads_free(&made);
    return status;
}

static kiln_status ask_for_known(known_scene *s)
{
    uint64_t revision;
    const char *why;
    return kilni_known_reads_get_revision(s->known, &first, &revision, &why);
}

static kiln_status ask_for_new(known_scene *s)
{
    uint64_t revision;
    const char *why;
    return kilni_known_reads_get_revision(s->known, &second, &revision, &why);
}

static kiln_status set_known(known_scene *s)
{
    return kilni_known_reads_set(s->known, &first, bytes_of(&s->b), NULL);
}

static kiln_status set_new(known_scene *s)
{
    return kilni_known_reads_set(s->known, &second, bytes_of(&s->a), NULL);
}

static kiln_status look_at_new(known_scene *s)
{
    uint64_t mark;
    return kilni_known_reads_begin_check(s->known, &second, &mark);
}

static kiln_status find_known(known_scene *s)
{
    const kiln_status status = kilni_known_reads_confirm(s->known, &first, 0, 0, bytes_of(&s->b));
    return status == KILN_BUSY ? KILN_OK : status;
}

static kiln_status find_new(known_scene *s)
{
    const kiln_status status = kilni_known_reads_confirm(s->known, &second, 0, 0, bytes_of(&s->a));
    return status == KILN_BUSY ? KILN_OK : status;
}

/* Returns whether an allocation failed. */
static bool fail_at(size_t n, known_call *call)
{
    known_scene s = new_scene();
    set(s.known, &first, bytes_of(&s.a));
    failing_malloc_arm(n);
    const kiln_status status = call(&s);
    const bool failed = failing_malloc_disarm() >= n;
    assert_int_equal(status, failed ? KILN_E_NO_MEMORY : KILN_OK);
    ask(s.known, &first);
    ask(s.known, &second);
    end_scene(&s);
    return failed;
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    static known_call *const calls[] = {make,    ask_for_known, ask_for_new, set_known,
                                        set_new, look_at_new,   find_known,  find_new};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        size_t n = 1;
        while (fail_at(n, calls[i])) {
            n++;
        }
        assert_true(n > 1);
    }
}

/* If reads cannot be recorded, a new revision begins, so that no caller continues with the earlier
 * revision. */
static void test_memory_runs_out_for_reads(void **state)
{
    (void)state;
    known_scene s = new_scene();
    const uint64_t revision = ask(s.known, &first);
    failing_malloc_arm(1);
    assert_int_equal(kilni_known_reads_set(s.known, &first, bytes_of(&s.a), NULL),
                     KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    assert_int_not_equal(ask(s.known, &first), revision);
    end_scene(&s);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 150, REVISIONS_MAX = 1 << 16 };

/* Threads build, load and request revisions while a file changes. Its content is a number that only
 * grows. Content that is shared under a revision must have been current at some time during the
 * request of each thread that finds it. */
typedef struct storm {
    kilni_known_reads *known;
    atomic_int written, to_be_written;
    atomic_int shared[REVISIONS_MAX]; /* the content under each revision; 0: none */
    atomic_int found, faults;
} storm;

static void *write_versions(void *user)
{
    storm *s = user;
    for (int version = 2; version < ROUNDS; version++) {
        FILE *file = fopen("next", "w");
        fprintf(file, "%d", version);
        fclose(file);
        atomic_store(&s->to_be_written, version);
        s->faults += rename("next", "v.h") != 0;
        atomic_store(&s->written, version);
    }
    return NULL;
}

/* Reads as a compilation does. Returns the content, or 0 if the file changed meanwhile. */
static int read_version(kilni_text *ret_reads)
{
    FILE *file = fopen("v.h", "r");
    int before = 0, after = -1;
    const bool is_read = file && fscanf(file, "%d", &before) == 1;
    fclose(file);
    if (!is_read || read_file("v.h", ret_reads) != KILN_OK) {
        return 0;
    }
    file = fopen("v.h", "r");
    after = file && fscanf(file, "%d", &after) == 1 ? after : -1;
    fclose(file);
    if (before != after) {
        kilni_text_done(ret_reads);
        return 0;
    }
    return after;
}

static uint64_t ask_in_storm(storm *s, const kiln_digest *program)
{
    const int earliest = atomic_load(&s->written);
    uint64_t revision = 0;
    const char *why;
    const kiln_status status = kilni_known_reads_get_revision(s->known, program, &revision, &why);
    if (status != KILN_OK || revision >= REVISIONS_MAX) {
        s->faults++;
        return 0;
    }
    const int shared = atomic_load(&s->shared[revision]);
    s->found += shared != 0;
    s->faults += shared != 0 && (shared < earliest || shared > atomic_load(&s->to_be_written));
    return revision;
}

/* Builds, and shares the result under the revision if the revision is unchanged afterwards. */
static void build_in_storm(storm *s, const kiln_digest *program, uint64_t revision)
{
    kilni_text reads = {0};
    const int version = read_version(&reads);
    s->faults += kilni_known_reads_set(s->known, program, bytes_of(&reads), NULL) != KILN_OK;
    if (ask_in_storm(s, program) == revision && version > 0) {
        atomic_store(&s->shared[revision], version);
    }
    kilni_text_done(&reads);
}

/* Finds a result for the revision. Shares it if the record confirms the revision, or if the record
 * cannot tell and the reads still hold. */
static void find_in_storm(storm *s, const kiln_digest *program, uint64_t revision)
{
    kilni_text reads = {0};
    uint64_t mark = 0;
    s->faults += kilni_known_reads_begin_check(s->known, program, &mark) != KILN_OK;
    const int version = read_version(&reads);
    kiln_status status = KILN_MISS;
    if (version > 0) {
        status = kilni_known_reads_confirm(s->known, program, mark, revision, bytes_of(&reads));
    }
    if (status == KILN_BUSY) {
        status = kilni_reads_hold(bytes_of(&reads), NULL, NULL);
    }
    if (status == KILN_OK) {
        atomic_store(&s->shared[revision], version);
    }
    kilni_text_done(&reads);
}

static void *build_and_find(void *user)
{
    static const kiln_digest *const programs[] = {&first, &second, &third};
    storm *s = user;
    for (int i = 0; i < ROUNDS; i++) {
        const kiln_digest *program = programs[i % 3];
        const uint64_t revision = ask_in_storm(s, program);
        if (i % 2 == 0) {
            build_in_storm(s, program, revision);
        } else {
            find_in_storm(s, program, revision);
        }
        ask_in_storm(s, program);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static storm s;
    pthread_t threads[THREADS + 1];
    s.known = new_known(500); /* so little room that some reads are forgotten */
    s.written = s.to_be_written = 1;
    write_file("v.h", "1");
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, build_and_find, &s), 0);
    }
    assert_int_equal(pthread_create(&threads[THREADS], NULL, write_versions, &s), 0);
    for (size_t i = 0; i <= THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(s.faults, 0);
    assert_true(s.found > 0);
    kilni_known_reads_free(&s.known);
}

/* ---- forks ---- */

static _Atomic bool is_over;

static void *ask_for_ever(void *user)
{
    const known_scene *s = user;
    uint64_t revision;
    const char *why;
    while (!atomic_load(&is_over)) {
        kilni_known_reads_get_revision(s->known, &first, &revision, &why);
    }
    return NULL;
}

/* In a forked child, no lock is held by a thread that exists only in the parent. */
static void test_forks(void **state)
{
    (void)state;
    SKIP_FORKS_BESIDE_ALLOCATIONS();
    known_scene s = new_scene();
    pthread_t thread;
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, ask_for_ever, &s), 0);
    for (int i = 0; i < 50; i++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0) {
            uint64_t revision;
            const char *why;
            alarm(10);
            _exit(kilni_known_reads_get_revision(s.known, &second, &revision, &why) == KILN_OK ? 0
                                                                                               : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    end_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_revisions),
        IN_SCRATCH(test_revisions_of_two_objects),
        IN_SCRATCH(test_unknown_reads),
        IN_SCRATCH(test_reason_is_returned),
        IN_SCRATCH(test_the_oldest_are_forgotten),
        IN_SCRATCH(test_the_newest_is_never_forgotten),
        IN_SCRATCH(test_replaced_reads_use_no_memory),
        IN_SCRATCH(test_recorded_reads_replace_older_ones),
        IN_SCRATCH(test_found_without_a_request),
        IN_SCRATCH(test_found_after_a_request),
        IN_SCRATCH(test_found_with_other_reads_known),
        IN_SCRATCH(test_found_with_the_same_reads_known),
        IN_SCRATCH(test_found_after_the_known_reads_ended),
        IN_SCRATCH(test_found_after_the_same_became_known),
        IN_SCRATCH(test_found_for_a_different_revision),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_memory_runs_out_for_reads),
        IN_SCRATCH(test_threads),
        IN_SCRATCH(test_forks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
