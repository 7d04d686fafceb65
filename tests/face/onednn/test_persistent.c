/* SPDX-License-Identifier: Apache-2.0
 *
 * The persistent cache of a process: its settings, and the contexts that use it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include <kiln/persistent.h>

#include "program/context.h"
#include "program/store_source.h"
#include "support/failing_malloc.h"
#include "support/get_program.h"
#include "support/persistent_settings.h"
#include "support/scripted_device.h"
#include "support/store_scene.h"

#define MIB (UINT64_C(1) << 20)
#define DRAIN_NS UINT64_C(60000000000)

typedef struct fixture {
    char directory[SCRATCH_DIRECTORY_SIZE];
    char cache[SCRATCH_PATH_SIZE];
    scripted_device device;
    int start; /* the working directory */
} fixture;

static void reset_settings(void)
{
    assert_int_equal(persistent_set_capacity(0), KILN_OK);
    assert_int_equal(persistent_set_dir(NULL), KILN_OK);
    assert_int_equal(persistent_set_policy(KILN_POLICY_FIFO), KILN_OK);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_CPU, 1), KILN_OK);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, 1), KILN_OK);
    assert_int_equal(persistent_set_log(NULL), KILN_OK);
    assert_int_equal(persistent_set_backend(NULL), KILN_OK);
}

static int set_up(void **state)
{
    fixture *f = test_calloc(1, sizeof *f);
    scratch_make(f->directory);
    snprintf(f->cache, sizeof f->cache, "%s/cache", f->directory);
    f->start = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = f;
    return f->start >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    reset_settings();
    const bool is_clean =
        atomic_load(&f->device.live_programs) == 0 && atomic_load(&f->device.wrong) == 0;
    const int back = fchdir(f->start);
    close(f->start);
    scratch_remove(f->directory);
    test_free(f);
    return is_clean && back == 0 ? 0 : -1;
}

/* ---- contexts, and where their programs come from ---- */

static kiln_program_context *open_context(const fixture *f, uint32_t kind, kiln_store *store)
{
    void *const devices[] = {(void *)(uintptr_t)&f->device};
    const kiln_program_context_params params = {.struct_size = sizeof params,
                                                .ops = &scripted_cheap_ops,
                                                .devices = devices,
                                                .device_count = 1,
                                                .store = store,
                                                .store_source = kiln_persistent_source(kind)};
    kiln_program_context *context = NULL;
    assert_int_equal(kiln_program_context_new(&params, &context), KILN_OK);
    return context;
}

static kiln_program_source source_of(const char *text)
{
    return (kiln_program_source){.struct_size = sizeof(kiln_program_source),
                                 .form = KILN_SOURCE_TEXT,
                                 .code = {text, strlen(text)},
                                 .options = "",
                                 .name = "test"};
}

/* Returns where a context gets a program from. */
static uint32_t ask(kiln_program_context *context, const char *text)
{
    const kiln_program_source source = source_of(text);
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(get_program(context, &source, &program, &result, NULL), KILN_OK);
    const scripted_program *made = kiln_program_handle(program);
    assert_true(made->value == scripted_value(scripted_value(0, text, strlen(text)), "", 0));
    kiln_program_release(&program);
    return result.from;
}

/* Returns where a context with nothing in memory gets a program from. */
static uint32_t ask_anew(const fixture *f, uint32_t kind, const char *text)
{
    kiln_program_context *context = open_context(f, kind, NULL);
    const uint32_t source = ask(context, text);
    kiln_program_context_free(&context);
    return source;
}

static void turn_on(const fixture *f)
{
    assert_int_equal(persistent_set_dir(f->cache), KILN_OK);
    assert_int_equal(persistent_set_capacity(64), KILN_OK);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static uint64_t counted_bytes;

static int count_file(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)path, (void)walk;
    counted_bytes += kind == FTW_F ? (uint64_t)stat->st_blocks * 512 : 0;
    return 0;
}

/* Returns the size of all files below a directory. */
static uint64_t disk_bytes(const char *path)
{
    counted_bytes = 0;
    nftw(path, count_file, 16, FTW_PHYS);
    return counted_bytes;
}

static kiln_status put_entry(uint64_t number, size_t size)
{
    kiln_entry *entry = scratch_entry(number, size);
    assert_non_null(entry);
    const kiln_status status = kiln_persistent_put(KILN_ENGINE_GPU, entry);
    kiln_entry_release(&entry);
    return status;
}

static kiln_status get_entry(uint32_t kind, uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_entry *entry = NULL;
    const kiln_status status = kiln_persistent_get(kind, key, &entry);
    assert_int_equal(status == KILN_OK, entry != NULL);
    assert_true(!entry || scratch_entry_is(entry, number));
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    return status;
}

/* Puts a file in the place of an entry's folder, so that the entry can't be written. */
static void block_entry(const char *directory, uint64_t number)
{
    char path[SCRATCH_PATH_SIZE], digest[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest of_key = kiln_key_digest(key);
    kiln_digest_format(&of_key, digest);
    snprintf(path, sizeof path, "%s/%s", directory, digest);
    FILE *file = fopen(path, "wx");
    assert_non_null(file);
    fclose(file);
    kiln_key_release(&key);
}

/* ---- settings ---- */

static void assert_dir_is(const char *expected)
{
    kiln_persistent_settings settings = {.struct_size = sizeof settings};
    size_t size = 0;
    assert_int_equal(kiln_persistent_get_settings(&settings, NULL, &size), KILN_OK);
    assert_null(settings.dir);
    assert_int_equal(size, strlen(expected) + 1);
    char *texts = test_malloc(size);
    assert_int_equal(kiln_persistent_get_settings(&settings, texts, &size), KILN_OK);
    assert_string_equal(settings.dir, expected);
    assert_null(settings.backend);
    test_free(texts);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(persistent_get().cpu, 1);
    assert_int_equal(persistent_get().gpu, 1);
    assert_int_equal(persistent_get().capacity_mib, 0);
    assert_int_equal(persistent_get().policy, KILN_POLICY_FIFO);
    assert_dir_is("./kiln_persistent_cache");
}

static void test_settings_are_returned(void **state)
{
    (void)state;
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, 0), KILN_OK);
    assert_int_equal(persistent_get().gpu, 0);
    assert_int_equal(persistent_get().cpu, 1);
    assert_int_equal(persistent_set_capacity(INT32_MAX), KILN_OK);
    assert_int_equal(persistent_get().capacity_mib, INT32_MAX);
    assert_int_equal(persistent_set_policy(KILN_POLICY_NO_EVICT), KILN_OK);
    assert_int_equal(persistent_get().policy, KILN_POLICY_NO_EVICT);
    assert_int_equal(persistent_set_dir("/a b"), KILN_OK);
    assert_dir_is("/a b");
    assert_int_equal(persistent_set_dir("there"), KILN_OK);
    assert_dir_is("./there");
    assert_int_equal(persistent_set_dir("./there"), KILN_OK);
    assert_dir_is("./there");
    assert_int_equal(persistent_set_dir(""), KILN_OK);
    assert_dir_is("./kiln_persistent_cache");
}

static void test_wrong_arguments_change_nothing(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind <= 3; kind += 3) {
        assert_int_equal(kiln_persistent_open(kind, NULL), KILN_E_INVALID);
        assert_int_equal(get_entry(kind, 1), KILN_E_INVALID);
    }
    for (uint32_t changed = 0; changed <= 128; changed += 128) {
        const kiln_persistent_settings unknown = {.struct_size = sizeof unknown,
                                                  .changed = changed};
        assert_int_equal(kiln_persistent_set(&unknown), KILN_E_INVALID);
    }
    assert_int_equal(kiln_persistent_set(NULL), KILN_E_INVALID);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_CPU, 2), KILN_E_INVALID);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_CPU, -1), KILN_E_INVALID);
    assert_int_equal(persistent_set_capacity(-1), KILN_E_INVALID);
    assert_int_equal(persistent_set_policy(KILN_POLICY_LRU), KILN_E_INVALID);
    assert_int_equal(persistent_set_backend("../up"), KILN_E_INVALID);
    assert_int_equal(persistent_set_backend("0"), KILN_E_INVALID);
    kiln_persistent_settings settings = {.struct_size = sizeof settings, .capacity_mib = 7};
    assert_int_equal(kiln_persistent_get_settings(NULL, NULL, NULL), KILN_E_INVALID);
    char dir[8] = "before";
    size_t size = sizeof dir;
    assert_int_equal(kiln_persistent_get_settings(&settings, dir, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_persistent_get_settings(&settings, dir, &size), KILN_E_TOO_LARGE);
    assert_int_equal(settings.capacity_mib, 7);
    assert_int_equal(size, sizeof "./kiln_persistent_cache");
    assert_string_equal(dir, "before");
    kiln_entry *entry = NULL;
    kiln_key *key = scratch_key(1);
    assert_int_equal(kiln_persistent_get(KILN_ENGINE_CPU, NULL, &entry), KILN_E_INVALID);
    assert_int_equal(kiln_persistent_get(KILN_ENGINE_CPU, key, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_persistent_put(KILN_ENGINE_CPU, NULL), KILN_E_INVALID);
    kiln_key_release(&key);
    test_defaults(state);
}

static void test_sources_are_of_engine_kinds(void **state)
{
    (void)state;
    assert_non_null(kiln_persistent_source(KILN_ENGINE_CPU));
    assert_ptr_not_equal(kiln_persistent_source(KILN_ENGINE_GPU),
                         kiln_persistent_source(KILN_ENGINE_CPU));
    assert_null(kiln_persistent_source(0));
    assert_null(kiln_persistent_source(3));
}

/* ---- effects of settings on contexts ---- */

static void test_nothing_is_kept_without_a_capacity(void **state)
{
    fixture *f = *state;
    assert_int_equal(persistent_set_dir(f->cache), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(kiln_persistent_open(KILN_ENGINE_GPU, NULL), KILN_MISS);
    assert_int_equal(put_entry(1, 100), KILN_MISS);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 1), KILN_MISS);
    assert_false(exists(f->cache));
}

static void test_memory_miss_is_found_on_disk(void **state)
{
    fixture *f = *state;
    turn_on(f);
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
    assert_int_equal(ask(context, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask(context, "s"), KILN_PROGRAM_FROM_MEMORY);
    kiln_program_context_free(&context);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_STORE);
    assert_int_equal(ask_anew(f, KILN_ENGINE_CPU, "s"), KILN_PROGRAM_FROM_STORE);
    assert_int_equal(ask_anew(f, 0, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(atomic_load(&f->device.build.count), 2);
}

/* A result that isn't kept is counted with the others. */
static void test_passed_through_builds_are_counted(void **state)
{
    fixture *f = *state;
    turn_on(f);
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
    assert_int_equal(ask(context, "s"), KILN_PROGRAM_FROM_BUILD);
    script(&f->device.describe, 1, KILN_E_UNSUPPORTED);
    assert_int_equal(ask(context, "other"), KILN_PROGRAM_FROM_PRIVATE_BUILD);
    const kiln_store_source *source = kiln_persistent_source(KILN_ENGINE_GPU);
    kilni_held_store *held = source->hold(source->user, false);
    assert_non_null(held);
    assert_int_equal(kiln_program_context_drain(context, DRAIN_NS), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(held->store, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.builds, 1);
    assert_int_equal(stat.totals.passed_through, 1);
    source->release(held);
    kiln_program_context_free(&context);
}

static void test_own_store_takes_precedence(void **state)
{
    fixture *f = *state;
    turn_on(f);
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(scratch_path(f->directory, "own"), NULL, &store, NULL),
                     KILN_OK);
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, store);
    assert_int_equal(ask(context, "s"), KILN_PROGRAM_FROM_BUILD);
    kiln_program_context_free(&context);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 1);
    kiln_store_close(&store);
    assert_false(exists(f->cache));
}

static void test_kinds_are_switched_apart(void **state)
{
    fixture *f = *state;
    turn_on(f);
    kiln_program_context *cpu = open_context(f, KILN_ENGINE_CPU, NULL);
    kiln_program_context *gpu = open_context(f, KILN_ENGINE_GPU, NULL);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, 0), KILN_OK);
    assert_int_equal(ask(cpu, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask(gpu, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(kiln_persistent_open(KILN_ENGINE_GPU, NULL), KILN_MISS);
    assert_int_equal(kiln_persistent_open(KILN_ENGINE_CPU, NULL), KILN_OK);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_CPU, 0), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_CPU, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, 1), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_CPU, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_STORE);
    kiln_program_context_free(&cpu);
    kiln_program_context_free(&gpu);
}

/* Counts the names in a directory, except "." and "..". */
static size_t count_names(const char *path)
{
    DIR *listing = opendir(path);
    assert_non_null(listing);
    size_t count = 0;
    while (readdir(listing)) {
        count++;
    }
    closedir(listing);
    return count - 2;
}

static void test_the_default_is_a_leaf_in_the_working_directory(void **state)
{
    fixture *f = *state;
    assert_int_equal(chdir(f->directory), 0);
    const int file = open("mine", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(file >= 0);
    assert_int_equal(write(file, "text", 4), 4);
    close(file);
    struct stat before, after;
    assert_int_equal(stat("mine", &before), 0);

    assert_int_equal(persistent_set_capacity(1), KILN_OK);
    assert_false(exists("kiln_persistent_cache"));
    assert_int_equal(ask_anew(f, KILN_ENGINE_CPU, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask_anew(f, KILN_ENGINE_CPU, "s"), KILN_PROGRAM_FROM_STORE);
    assert_int_equal(count_names("."), 2);
    assert_true(exists("kiln_persistent_cache"));
    assert_int_equal(stat("mine", &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
}

/* A path with characters that mean something in a URL. */
static void test_a_directory_is_taken_literally(void **state)
{
    fixture *f = *state;
    const char *odd = scratch_path(f->directory, "a b%20?max-size=0&c#|d");
    assert_int_equal(persistent_set_dir(odd), KILN_OK);
    assert_int_equal(persistent_set_capacity(1), KILN_OK);
    assert_int_equal(put_entry(1, 100), KILN_OK);
    assert_int_equal(get_entry(KILN_ENGINE_CPU, 1), KILN_OK);
    assert_true(exists(scratch_path(f->directory, "a b%20?max-size=0&c#|d")));

    assert_int_equal(chdir(f->directory), 0);
    assert_int_equal(persistent_set_dir("relative/leaf"), KILN_OK);
    assert_int_equal(put_entry(1, 100), KILN_OK);
    assert_true(exists("relative/leaf"));
}

/* ---- changes while the store is open ---- */

static void test_a_new_directory_closes_the_old_one(void **state)
{
    fixture *f = *state;
    turn_on(f);
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
    const unsigned descriptors = scratch_count_descriptors();
    for (char text[] = "a"; text[0] <= 'z'; text[0]++) {
        assert_int_equal(ask(context, text), KILN_PROGRAM_FROM_BUILD);
    }
    assert_int_equal(persistent_set_dir(scratch_path(f->directory, "other")), KILN_OK);
    /* Everything has been written, and no file of the old directory is open. */
    assert_int_equal(scratch_count_descriptors(), descriptors);
    assert_int_equal(ask(context, "other"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "a"), KILN_PROGRAM_FROM_BUILD);

    assert_int_equal(persistent_set_dir(f->cache), KILN_OK);
    for (char text[] = "a"; text[0] <= 'z'; text[0]++) {
        assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, text), KILN_PROGRAM_FROM_STORE);
    }
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "other"), KILN_PROGRAM_FROM_BUILD);
    kiln_program_context_free(&context);
    assert_int_equal(scratch_count_descriptors(), descriptors);
}

/* A context that ends with a hit that is not counted yet must not open a store to count it. */
static void test_a_context_that_ends_opens_no_store(void **state)
{
    fixture *f = *state;
    turn_on(f);
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
    assert_int_equal(ask(context, "a"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask(context, "a"), KILN_PROGRAM_FROM_MEMORY);
    const char *other = scratch_path(f->directory, "other");
    assert_int_equal(persistent_set_dir(other), KILN_OK);
    assert_int_equal(kiln_program_context_drain(context, KILN_UNLIMITED), KILN_OK);
    assert_int_equal(ask(context, "a"), KILN_PROGRAM_FROM_MEMORY);
    kiln_program_context_free(&context);
    assert_false(exists(other));
}

/* A request in progress ends with the store that it began with. */
static void turn_to_another(void *user)
{
    const fixture *f = user;
    persistent_set_dir(scratch_path(f->directory, "other"));
}

static void test_a_build_ends_where_it_began(void **state)
{
    fixture *f = *state;
    turn_on(f);
    f->device.while_building = turn_to_another;
    f->device.user = f;
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    f->device.while_building = NULL;
    assert_int_equal(persistent_set_dir(f->cache), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_STORE);
}

/* Turns the cache off from the writer's thread, during a put. */
static void turn_off(void *user, kiln_log_level level, const char *text)
{
    (void)level, (void)text;
    persistent_set_capacity(0);
    sem_post(user);
}

static void test_a_log_callback_may_change_settings(void **state)
{
    fixture *f = *state;
    const unsigned descriptors = scratch_count_descriptors();
    sem_t has_ended;
    sem_init(&has_ended, 0, 0);
    const kiln_log log = {turn_off, &has_ended};
    assert_int_equal(persistent_set_log(&log), KILN_OK);
    turn_on(f);
    const kiln_store_source *source = kiln_persistent_source(KILN_ENGINE_GPU);
    kilni_held_store *held = source->hold(source->user, true);
    assert_non_null(held);
    block_entry(f->cache, 1);
    kiln_entry *entry = scratch_entry(1, 100);
    kilni_writer *writer = held->writer;
    source->release(held);
    assert_int_equal(kilni_writer_put(writer, entry, NULL), KILN_OK);
    kiln_entry_release(&entry);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    assert_int_equal(sem_timedwait(&has_ended, &end), 0);
    for (int i = 0; i < 30000 && scratch_count_descriptors() != descriptors; i++) {
        usleep(1000);
    }
    assert_int_equal(scratch_count_descriptors(), descriptors);
    assert_int_equal(persistent_set_log(NULL), KILN_OK);
    sem_destroy(&has_ended);
}

static void test_a_smaller_capacity_trims(void **state)
{
    fixture *f = *state;
    turn_on(f);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(put_entry(i, MIB / 2), KILN_OK);
    }
    assert_true(disk_bytes(f->cache) > 3 * MIB);
    assert_int_equal(persistent_set_capacity(2), KILN_OK);
    assert_true(disk_bytes(f->cache) <= 2 * MIB);
    assert_true(disk_bytes(f->cache) > MIB);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 5), KILN_OK);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 0), KILN_MISS);
    /* The new setting is in effect from now on. */
    for (uint64_t i = 6; i < 12; i++) {
        assert_int_equal(put_entry(i, MIB / 2), KILN_OK);
    }
    assert_true(disk_bytes(f->cache) <= 2 * MIB + MIB / 2);
}

static void test_full_cache_evicts_or_refuses(void **state)
{
    fixture *f = *state;
    assert_int_equal(persistent_set_dir(f->cache), KILN_OK);
    assert_int_equal(persistent_set_capacity(2), KILN_OK);
    assert_int_equal(persistent_set_policy(KILN_POLICY_NO_EVICT), KILN_OK);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(put_entry(i, MIB / 2), KILN_OK);
    }
    assert_int_equal(put_entry(3, MIB), KILN_E_FULL);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 3), KILN_MISS);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(get_entry(KILN_ENGINE_GPU, i), KILN_OK);
    }

    assert_int_equal(persistent_set_policy(KILN_POLICY_FIFO), KILN_OK);
    assert_int_equal(put_entry(3, MIB), KILN_OK);
    assert_int_equal(persistent_set_capacity(1), KILN_OK);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 0), KILN_MISS);
    assert_true(disk_bytes(f->cache) <= MIB);
}

/* The files in oneDNN's proposal: <hash>/<n>/key.bin, <hash>/<n>/kernel.bin and size.txt. */
static bool has_key, has_kernel, has_size;

static int look_at_name(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    has_key = has_key || (walk->level == 3 && strcmp(path + walk->base, "key.bin") == 0);
    has_kernel = has_kernel || (walk->level == 3 && strcmp(path + walk->base, "kernel.bin") == 0);
    has_size = has_size || (walk->level == 1 && strcmp(path + walk->base, "size.txt") == 0);
    return 0;
}

static void test_the_layout_is_that_of_the_proposal(void **state)
{
    fixture *f = *state;
    turn_on(f);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    nftw(f->cache, look_at_name, 16, FTW_PHYS);
    assert_true(has_key);
    assert_true(has_kernel);
    assert_true(has_size);
}

static void test_a_smaller_capacity_makes_no_directory(void **state)
{
    fixture *f = *state;
    turn_on(f);
    assert_int_equal(persistent_set_capacity(1), KILN_OK);
    assert_false(exists(f->cache));
}

static void test_disabling_deletes_nothing(void **state)
{
    fixture *f = *state;
    turn_on(f);
    assert_int_equal(put_entry(1, MIB), KILN_OK);
    const uint64_t bytes = disk_bytes(f->cache);
    assert_int_equal(persistent_set_capacity(0), KILN_OK);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 1), KILN_MISS);
    assert_int_equal(persistent_set_capacity(64), KILN_OK);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_CPU, 0), KILN_OK);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, 0), KILN_OK);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 1), KILN_MISS);
    assert_true(disk_bytes(f->cache) == bytes);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, 1), KILN_OK);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 1), KILN_OK);
}

/* ---- directories that must not be used ---- */

typedef struct heard {
    int count;
    char text[256];
} heard;

static void hear(void *user, kiln_log_level level, const char *text)
{
    heard *h = user;
    assert_int_equal(level, KILN_LOG_ERROR);
    h->count++;
    snprintf(h->text, sizeof h->text, "%s", text);
}

static void test_a_directory_of_others_is_not_used(void **state)
{
    fixture *f = *state;
    heard h = {0};
    const kiln_log log = {.write = hear, .user = &h};
    assert_int_equal(persistent_set_log(&log), KILN_OK);
    assert_int_equal(mkdir(f->cache, 0777), 0);
    assert_int_equal(chmod(f->cache, 0777), 0);
    turn_on(f);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(h.count, 1);
    assert_non_null(strstr(h.text, f->cache));
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
    assert_int_equal(ask(context, "s"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(ask(context, "t"), KILN_PROGRAM_FROM_BUILD);
    assert_true(h.count <= 2);
    const int count = h.count;
    assert_int_equal(ask(context, "u"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(h.count, count);
    assert_int_equal(count_names(f->cache), 0);

    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_persistent_open(KILN_ENGINE_GPU, &error), KILN_E_DENIED);
    assert_non_null(strstr(error.text, f->cache));
    assert_int_equal(chmod(f->cache, 0700), 0);
    assert_int_equal(ask(context, "v"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(count_names(f->cache), 0);
    assert_int_equal(kiln_persistent_open(KILN_ENGINE_GPU, &error), KILN_OK);
    assert_int_equal(kiln_persistent_open(KILN_ENGINE_GPU, &error), KILN_OK);
    assert_int_equal(ask(context, "w"), KILN_PROGRAM_FROM_BUILD);
    kiln_program_context_free(&context);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "w"), KILN_PROGRAM_FROM_STORE);
    assert_int_equal(persistent_set_log(NULL), KILN_OK);
}

/* ---- which programs are kept ---- */

static void test_sizes_that_are_not_kept(void **state)
{
    fixture *f = *state;
    turn_on(f);
    void *const devices[] = {&f->device};
    kiln_program_context_params params = {.struct_size = sizeof params,
                                          .ops = &scripted_cheap_ops,
                                          .devices = devices,
                                          .device_count = 1,
                                          .store_source = kiln_persistent_source(KILN_ENGINE_GPU),
                                          .min_stored_bytes = 2,
                                          .max_stored_bytes = 3};
    for (int i = 0; i < 2; i++) {
        const uint32_t from = i == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE;
        kiln_program_context *context = NULL;
        assert_int_equal(kiln_program_context_new(&params, &context), KILN_OK);
        assert_int_equal(ask(context, "a"), KILN_PROGRAM_FROM_BUILD);
        assert_int_equal(ask(context, "aa"), from);
        assert_int_equal(ask(context, "aaa"), from);
        assert_int_equal(ask(context, "aaaa"), KILN_PROGRAM_FROM_BUILD);
        assert_int_equal(ask(context, "aaaa"), KILN_PROGRAM_FROM_MEMORY);
        kiln_program_context_free(&context);
    }
}

/* ---- forks ---- */

/* The child starts no thread, because ThreadSanitizer does not support that. */
static bool child_finds_and_keeps(const fixture *f, kiln_program_context **parents)
{
    kiln_program_context *own = open_context(f, KILN_ENGINE_GPU, NULL);
    const bool is_found = ask(own, "s") == KILN_PROGRAM_FROM_STORE;
    const bool is_kept = put_entry(1, 100) == KILN_OK;
    kiln_program_context_free(&own);
    kiln_program_context_free(parents);
    return is_found && is_kept;
}

static void test_a_child_opens_its_store_again(void **state)
{
    fixture *f = *state;
    turn_on(f);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
    assert_int_equal(ask(context, "t"), KILN_PROGRAM_FROM_BUILD);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(child_finds_and_keeps(f, &context) ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(get_entry(KILN_ENGINE_GPU, 1), KILN_OK);
    kiln_program_context_free(&context);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "t"), KILN_PROGRAM_FROM_STORE);
}

/* ---- threads ---- */

#define USERS 3
#define ROUNDS 60

typedef struct user {
    fixture *f;
    uint32_t kind;
    _Atomic bool *has_to_end;
} user;

static void *use(void *argument)
{
    const user *u = argument;
    for (unsigned i = 0; !atomic_load(u->has_to_end); i++) {
        kiln_program_context *context = open_context(u->f, u->kind, NULL);
        char text[16];
        snprintf(text, sizeof text, "source %u", i % 8);
        ask(context, text);
        ask(context, text);
        kiln_program_context_free(&context);
        const kiln_status got = get_entry(u->kind, 1);
        assert_true(got == KILN_OK || got == KILN_MISS);
    }
    return NULL;
}

static void change_all(const fixture *f, int round)
{
    const char *dir = round % 2 ? f->cache : scratch_path(f->directory, "other");
    assert_int_equal(persistent_set_dir(dir), KILN_OK);
    assert_int_equal(persistent_set_capacity(round % 5), KILN_OK);
    assert_int_equal(persistent_set_enabled(KILN_ENGINE_GPU, round % 3 != 0), KILN_OK);
    assert_int_equal(persistent_set_policy(round % 4 ? KILN_POLICY_FIFO : KILN_POLICY_NO_EVICT),
                     KILN_OK);
    const kiln_status put = put_entry(1, 1000);
    assert_true(put == KILN_OK || put == KILN_MISS || put == KILN_E_FULL);
    kiln_persistent_settings settings = {.struct_size = sizeof settings};
    char texts[2 * SCRATCH_PATH_SIZE];
    size_t size = sizeof texts;
    assert_int_equal(kiln_persistent_get_settings(&settings, texts, &size), KILN_OK);
}

static void test_settings_change_during_use(void **state)
{
    fixture *f = *state;
    _Atomic bool has_to_end = false;
    pthread_t threads[USERS];
    user users[USERS];
    turn_on(f);
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){f, i % 2 ? KILN_ENGINE_CPU : KILN_ENGINE_GPU, &has_to_end};
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        change_all(f, round);
    }
    atomic_store(&has_to_end, true);
    for (int i = 0; i < USERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* ---- backends ---- */

static void test_each_backend_has_a_folder(void **state)
{
    fixture *f = *state;
    turn_on(f);
    assert_int_equal(persistent_set_backend("opencl"), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    char folder[SCRATCH_PATH_SIZE + 16];
    snprintf(folder, sizeof folder, "%s/opencl", f->cache);
    assert_true(exists(folder));
    assert_int_equal(persistent_set_backend("level_zero"), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_BUILD);
    kiln_persistent_settings settings = {.struct_size = sizeof settings};
    char texts[2 * SCRATCH_PATH_SIZE];
    size_t size = sizeof texts;
    assert_int_equal(kiln_persistent_get_settings(&settings, texts, &size), KILN_OK);
    assert_string_equal(settings.dir, f->cache);
    assert_string_equal(settings.backend, "level_zero");
    assert_int_equal(persistent_set_backend("opencl"), KILN_OK);
    assert_int_equal(ask_anew(f, KILN_ENGINE_GPU, "s"), KILN_PROGRAM_FROM_STORE);
}

/* ---- out of memory ---- */

static void test_failing_allocations_of_settings(void **state)
{
    fixture *f = *state;
    turn_on(f);
    failing_malloc_arm(1);
    assert_int_equal(persistent_set_dir("elsewhere"), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    assert_dir_is(f->cache);
    failing_malloc_arm(1);
    assert_int_equal(persistent_set_capacity(1), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    assert_int_equal(persistent_get().capacity_mib, 1);
}

static void test_failing_allocations_of_an_opening(void **state)
{
    fixture *f = *state;
    turn_on(f);
    for (size_t n = 1;; n++) {
        assert_true(n < 1000);
        failing_malloc_arm(n);
        const kiln_status status = kiln_persistent_open(KILN_ENGINE_GPU, NULL);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_int_equal(get_entry(KILN_ENGINE_GPU, 1), KILN_MISS);
    }
    assert_int_equal(put_entry(1, 100), KILN_OK);
}

/* A request succeeds whether or not there is memory for the store. */
static void test_failing_allocations_of_a_request(void **state)
{
    fixture *f = *state;
    turn_on(f);
    bool has_run_out = true;
    for (size_t n = 1; has_run_out; n++) {
        assert_true(n < 1000);
        kiln_program_context *context = open_context(f, KILN_ENGINE_GPU, NULL);
        char text[32];
        snprintf(text, sizeof text, "source %zu", n);
        const kiln_program_source source = source_of(text);
        kiln_program *program = NULL;
        failing_malloc_arm(n);
        const kiln_status status = get_program(context, &source, &program, NULL, NULL);
        has_run_out = failing_malloc_disarm() >= n;
        assert_true(status == KILN_OK || status == KILN_E_NO_MEMORY);
        assert_int_equal(status == KILN_OK, program != NULL);
        kiln_program_release(&program);
        kiln_program_context_free(&context);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_settings_are_returned),
        TEST(test_wrong_arguments_change_nothing),
        TEST(test_sources_are_of_engine_kinds),
        TEST(test_nothing_is_kept_without_a_capacity),
        TEST(test_memory_miss_is_found_on_disk),
        TEST(test_passed_through_builds_are_counted),
        TEST(test_own_store_takes_precedence),
        TEST(test_kinds_are_switched_apart),
        TEST(test_the_default_is_a_leaf_in_the_working_directory),
        TEST(test_a_directory_is_taken_literally),
        TEST(test_a_new_directory_closes_the_old_one),
        TEST(test_a_context_that_ends_opens_no_store),
        TEST(test_a_build_ends_where_it_began),
        TEST(test_a_log_callback_may_change_settings),
        TEST(test_a_smaller_capacity_trims),
        TEST(test_full_cache_evicts_or_refuses),
        TEST(test_the_layout_is_that_of_the_proposal),
        TEST(test_a_smaller_capacity_makes_no_directory),
        TEST(test_disabling_deletes_nothing),
        TEST(test_a_directory_of_others_is_not_used),
        TEST(test_sizes_that_are_not_kept),
        TEST(test_a_child_opens_its_store_again),
        TEST(test_settings_change_during_use),
        TEST(test_each_backend_has_a_folder),
        TEST(test_failing_allocations_of_settings),
        TEST(test_failing_allocations_of_an_opening),
        TEST(test_failing_allocations_of_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
