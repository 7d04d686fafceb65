/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of watching NVRTC. Each uses a new copy of a stand-in, which has not been watched before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <wchar.h>

#include "device/nvrtc/compiler.h"
#include "device/nvrtc/loader.h"
#include "device/symbols.h"
#include "device/watch/changed_files.h"
#include "device/watch/intercepted_calls.h"
#include "device/watch/watch.h"
#include "os/os.h"
#include "support/failing_malloc.h"
#include "support/nvrtc_scene.h"

static const char *stand_in;
static const char *calling_unknown;  /* calls a function that cannot be watched */
static const char *read_only;        /* its slots are read-only */
static const char *watching_copy;    /* a library with its own copy of Kiln */
static const char *descriptors_only; /* a library that opens nothing */

enum { THREADS = 4, PAGES_MAX = 4096 };

/* ---- a library ---- */

typedef struct nvrtc_copy {
    struct link_map *map;
    kilni_nvrtc_functions functions;
} nvrtc_copy;

/* Copies a library, which the loader then treats as a new one, and opens the copy.
 *
 * @when  its functions are looked up: RTLD_NOW or RTLD_LAZY */
static nvrtc_copy load_copy_when(const char *library, int when)
{
    static int count;
    nvrtc_copy copy;
    char *folder = getcwd(NULL, 0), *path = NULL, *command = NULL;
    assert_true(asprintf(&path, "%s/libnvrtc.so.%d", folder, ++count) > 0);
    assert_true(asprintf(&command, "cp '%s' %s", library, path) > 0);
    assert_int_equal(system(command), 0);
    void *handle = dlopen(path, when | RTLD_LOCAL);
    assert_non_null(handle);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &copy.map), 0);
    assert_int_equal(kilni_nvrtc_open(path, &copy.functions, NULL), KILN_OK);
    dlclose(handle);
    free(folder);
    free(path);
    free(command);
    return copy;
}

static nvrtc_copy load_copy(const char *library)
{
    return load_copy_when(library, RTLD_NOW);
}

static kilni_watched *find(const nvrtc_copy *copy)
{
    kilni_watched *library = NULL;
    assert_int_equal(kilni_watched_find(copy->map, &library), KILN_OK);
    assert_non_null(library);
    return library;
}

/* ---- its slots ---- */

static void **slot_in(const nvrtc_copy *copy, ElfW(Sxword) table, ElfW(Sxword) size,
                      const char *name)
{
    const ElfW(Rela) *items = NULL;
    size_t count = 0;
    kilni_symbols of;
    assert_true(kilni_symbols_of(copy->map, &of));
    for (const ElfW(Dyn) *entry = copy->map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == table) {
            items = (const ElfW(Rela) *)entry->d_un.d_ptr; /* NOLINT */
        } else if (entry->d_tag == size) {
            count = entry->d_un.d_val / sizeof *items;
        }
    }
    for (size_t i = 0; items && i < count; i++) {
        const ElfW(Sym) *symbol = &of.entries[ELF64_R_SYM(items[i].r_info)];
        if (strcmp(of.names + symbol->st_name, name) == 0) {
            return (void **)(copy->map->l_addr + items[i].r_offset); /* NOLINT */
        }
    }
    return NULL;
}

/* Returns the slot through which the library calls fopen. */
static void **fopen_slot(const nvrtc_copy *copy)
{
    static const char *const names[] = {"fopen64", "fopen"};
    void **slot = NULL;
    for (size_t i = 0; i < 2 && !slot; i++) {
        slot = slot_in(copy, DT_JMPREL, DT_PLTRELSZ, names[i]);
        slot = slot ? slot : slot_in(copy, DT_RELA, DT_RELASZ, names[i]);
    }
    assert_non_null(slot);
    return slot;
}

static void put(void **slot, void *function)
{
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)slot & ~(page_size - 1)); /* NOLINT */
    assert_int_equal(mprotect(page, page_size, PROT_READ | PROT_WRITE), 0);
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
}

static void *get(void *const *slot)
{
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/* A function that a tool other than Kiln may store in a slot. */
static FILE *foreign_fopen(const char *path, const char *mode)
{
    return fopen(path, mode);
}

/* ---- compilations ---- */

typedef struct compilation {
    const nvrtc_copy *copy;
    const char *source;
    kilni_watched *library; /* NULL: the compilation is not watched */
    void (*meanwhile)(void *user);
    void *user;

    kilni_reads *reads;
    kiln_status status; /* the status of the reads */
    kilni_text encoded, folds;
    const char *why;
} compilation;

static int in_the_middle(void *payload, void *reserved)
{
    compilation *c = payload;
    (void)reserved;
    if (c->meanwhile) {
        c->meanwhile(c->user);
    }
    return 0;
}

static void compile(compilation *c)
{
    const kilni_nvrtc_functions *nvrtc = &c->copy->functions;
    kilni_nvrtc_program program = NULL;
    nvrtc->create(&program, c->source, NULL, 0, NULL, NULL);
    nvrtc->set_callback(program, in_the_middle, c);
    nvrtc->compile(program, 0, NULL);
    nvrtc->destroy(&program);
}

static void compile_watched(compilation *c)
{
    kilni_watch watch;
    kilni_folds *folds = NULL;
    kilni_words words = {.list = &kilni_clock_words};
    c->status = kilni_reads_new(NULL, &kilni_clock_words, &c->reads);
    if (c->status == KILN_OK) {
        c->status = kilni_folds_new(&folds);
    }
    if (c->status == KILN_OK) {
        c->status = kilni_watch_begin(&watch, c->library, c->reads, folds);
    }
    if (c->status == KILN_OK) {
        compile(c);
        kilni_watch_end(&watch);
        c->status = kilni_reads_finish(c->reads, false, &words, &c->encoded, &c->why);
    }
    if (c->status == KILN_OK) {
        c->status = kilni_folds_finish(folds, &c->folds, &c->why);
    }
    kilni_folds_free(&folds);
    kilni_reads_free(&c->reads);
}

static void compilation_done(compilation *c)
{
    kilni_text_done(&c->encoded);
    kilni_text_done(&c->folds);
}

/* Runs the compilation on a thread, with or without a watch. */
static void *run(void *argument)
{
    compilation *c = argument;
    if (c->library) {
        compile_watched(c);
    } else {
        compile(c);
    }
    return NULL;
}

static void on_another_thread(void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) == 0) {
        pthread_join(thread, NULL);
    }
}

static int is_path(void *user, const kiln_read *read)
{
    const char **sought = user;
    if (strcmp(read->path, *sought) == 0) {
        *sought = NULL;
    }
    return *sought == NULL;
}

static bool has_read(const kilni_text *encoded, const char *path)
{
    const char *sought = path;
    return kilni_reads_each((kiln_bytes){encoded->bytes, encoded->length}, NULL, is_path,
                            &sought) == KILN_OK &&
           !sought;
}

static void assert_seen(const compilation *c, const char *path)
{
    assert_int_equal(c->status, KILN_OK);
    assert_true(has_read(&c->encoded, path));
}

static void assert_spoiled(const compilation *c, const char *why)
{
    assert_int_equal(c->status, KILN_E_UNSUPPORTED);
    assert_string_equal(c->why, why);
}

#define IS_REDIRECTED "a different tool has redirected the compiler's calls"
#define WAS_REDIRECTED "the compiler's calls were redirected during the compilation"
#define WAS_FORKED "the process was forked during the compilation"

/* ---- finding a library ---- */

static kiln_status find_by_entry_point(const kilni_nvrtc_functions *functions,
                                       kilni_watched **ret_library)
{
    return kilni_watched_find_by_entry_point(&kilni_nvrtc_compiler,
                                             (const void *)functions->compile, ret_library);
}

static void test_a_library_is_found_once(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_watched *library = find(&copy), *by_functions = NULL;
    assert_ptr_equal(find(&copy), library);
    assert_int_equal(find_by_entry_point(&copy.functions, &by_functions), KILN_OK);
    assert_ptr_equal(by_functions, library);
    assert_ptr_not_equal(get(fopen_slot(&copy)), dlsym(RTLD_DEFAULT, "fopen"));
}

typedef struct finder {
    const nvrtc_copy *copy;
    pthread_barrier_t *start;
    kilni_watched *library;
} finder;

static void *find_at_once(void *argument)
{
    finder *f = argument;
    pthread_barrier_wait(f->start);
    if (kilni_watched_find(f->copy->map, &f->library) != KILN_OK) {
        f->library = NULL;
    }
    return NULL;
}

static void test_threads_find_the_same(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    pthread_t threads[THREADS];
    finder finders[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        finders[i] = (finder){&copy, &start, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, find_at_once, &finders[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start);
    for (size_t i = 0; i < THREADS; i++) {
        assert_non_null(finders[i].library);
        assert_ptr_equal(finders[i].library, finders[0].library);
    }
    assert_ptr_equal(find(&copy), finders[0].library);
}

static void test_a_library_stays_loaded(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    char *name = strdup(copy.map->l_name);
    find(&copy);
    assert_int_equal(dlclose(copy.map), 0);
    assert_non_null(dlopen(name, RTLD_NOW | RTLD_NOLOAD));
    free(name);
}

static void test_unknown_calls(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(calling_unknown);
    kilni_watched *library = NULL;
    void *before = get(fopen_slot(&copy));
    assert_int_equal(kilni_watched_find(copy.map, &library), KILN_E_UNSUPPORTED);
    assert_null(library);
    assert_ptr_equal(get(fopen_slot(&copy)), before);
}

/* Kiln replaces functions that take a descriptor only in libraries that open streams. */
static void test_a_library_that_opens_nothing(void **state)
{
    (void)state;
    struct link_map *map = NULL;
    kilni_watched *library = NULL;
    void *handle = dlopen(descriptors_only, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    assert_int_equal(kilni_watched_find_reads(map, &library), KILN_E_UNSUPPORTED);
    assert_null(library);
    assert_null(kilni_call_find("read", 0));
    assert_non_null(kilni_call_find("read", 1));
    assert_false(kilni_call_is_unobserved("fgetwc", 0));
    assert_true(kilni_call_is_unobserved("fgetwc", 1));
    dlclose(handle);
}

static int foreign_compile(kilni_nvrtc_program program, int option_count,
                           const char *const *options)
{
    (void)program;
    (void)option_count;
    (void)options;
    return 0;
}

static void test_functions_of_other_libraries(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_nvrtc_functions functions = copy.functions;
    kilni_watched *library = NULL;
    void *before = get(fopen_slot(&copy));
    functions.compile = foreign_compile;
    assert_int_equal(find_by_entry_point(&functions, &library), KILN_E_UNSUPPORTED);
    memcpy(&functions.compile, &functions.version, sizeof functions.compile);
    assert_int_equal(find_by_entry_point(&functions, &library), KILN_E_UNSUPPORTED);
    assert_null(library);
    assert_ptr_equal(get(fopen_slot(&copy)), before);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_watched *library = NULL;
    size_t n = 0;
    kiln_status status;
    do {
        failing_malloc_arm(++n);
        status = kilni_watched_find(copy.map, &library);
        assert_true(failing_malloc_disarm() >= n ? status == KILN_E_NO_MEMORY : status == KILN_OK);
    } while (status == KILN_E_NO_MEMORY);
    assert_true(n > 1);
    assert_non_null(library);
}

/* ---- protection of its pages ---- */

/* Lists the library's pages in @pages, with one letter for each; returns their number. */
static size_t list_pages(const nvrtc_copy *copy, char *pages)
{
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512], letters[5];
    unsigned long begin, end;
    size_t count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (strstr(line, copy->map->l_name) &&
            sscanf(line, "%lx-%lx %4s", &begin, &end, letters) == 3) {
            for (; begin < end && count < PAGES_MAX; begin += page_size) {
                memcpy(pages + 4 * count++, letters, 4);
            }
        }
    }
    fclose(file);
    return count;
}

static void find_without_trace(const char *path)
{
    static char before[4 * PAGES_MAX], after[4 * PAGES_MAX];
    const nvrtc_copy copy = load_copy(path);
    const size_t count = list_pages(&copy, before);
    void *const libc_fopen = get(fopen_slot(&copy));
    assert_true(count > 2);
    find(&copy);
    assert_ptr_not_equal(get(fopen_slot(&copy)), libc_fopen);
    assert_int_equal(list_pages(&copy, after), count);
    assert_memory_equal(before, after, 4 * count);
}

static void test_pages_keep_their_protection(void **state)
{
    (void)state;
    find_without_trace(stand_in);
}

static void test_read_only_pages_stay_read_only(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(read_only);
    assert_int_equal(kilni_symbols_protection(copy.map, (uintptr_t)fopen_slot(&copy)), PROT_READ);
    find_without_trace(read_only);
}

/* ---- slots that a different tool redirects ---- */

static void test_a_slot_that_was_redirected_before(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_watched *library = NULL;
    void **slot = fopen_slot(&copy), *const libc_fopen = get(slot);
    put(slot, (void *)foreign_fopen);
    assert_int_equal(kilni_watched_find(copy.map, &library), KILN_E_UNSUPPORTED);
    assert_null(library);
    assert_ptr_equal(get(slot), (void *)foreign_fopen);
    put(slot, libc_fopen); /* no other slot was redirected meanwhile */
    find(&copy);
}

static void test_a_slot_that_is_redirected_later(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    compilation c = {.copy = &copy, .source = "#include \"a.h\"", .library = find(&copy)};
    void **slot = fopen_slot(&copy);
    put(slot, (void *)foreign_fopen);
    compile_watched(&c);
    assert_spoiled(&c, IS_REDIRECTED);
    assert_ptr_equal(get(slot), (void *)foreign_fopen);
}

/* The loader overwrites a redirected slot if it was looking up the function when the slot was
 * redirected. */
static void test_a_slot_that_is_restored_is_redirected_again(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    void **slot = fopen_slot(&copy), *const libc_fopen = get(slot);
    compilation c = {.copy = &copy, .source = "#include \"a.h\"", .library = find(&copy)};
    void *const watching = get(slot);
    write_file("a.h", "text");
    put(slot, libc_fopen);
    compile_watched(&c);
    assert_seen(&c, "a.h");
    assert_ptr_equal(get(slot), watching);
    compilation_done(&c);
}

typedef struct slot_restoration {
    void **slot;
    void *function;
    compilation *then; /* on another thread; NULL: there is none */
} slot_restoration;

static void restore_slot(void *user)
{
    const slot_restoration *p = user;
    put(p->slot, p->function);
    if (p->then) {
        on_another_thread(p->then);
    }
}

static void test_a_slot_that_is_restored_during_a_compilation(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    slot_restoration back = {.slot = fopen_slot(&copy)};
    back.function = get(back.slot);
    compilation c = {.copy = &copy,
                     .source = "x",
                     .library = find(&copy),
                     .meanwhile = restore_slot,
                     .user = &back};
    compile_watched(&c);
    assert_spoiled(&c, WAS_REDIRECTED);
}

/* The second compilation redirects the slot again and records everything; the first may have missed
 * reads. */
static void test_a_slot_that_another_compilation_redirects_again(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    slot_restoration back = {.slot = fopen_slot(&copy)};
    back.function = get(back.slot);
    compilation second = {.copy = &copy, .source = "#include \"b.h\"", .library = find(&copy)};
    compilation first = second;
    first.meanwhile = restore_slot;
    first.user = &back;
    back.then = &second;
    compile_watched(&first);
    assert_seen(&second, "b.h");
    assert_spoiled(&first, WAS_REDIRECTED);
    compilation_done(&second);
}

/* ---- two copies of Kiln ---- */

/* Replaces the C library's function for Kiln too. Lets other threads run when a page is made
 * writable or read-only. */
int mprotect(void *address, size_t size, int protection)
{
    const long result = syscall(SYS_mprotect, address, size, protection);
    sched_yield();
    usleep(100);
    return (int)result;
}

typedef kiln_status watching_copy_fn(const struct link_map *map);

typedef struct second_finder {
    const nvrtc_copy *copy;
    pthread_barrier_t *start;
    watching_copy_fn *find;
} second_finder;

static void *find_by_second_copy(void *argument)
{
    const second_finder *f = argument;
    pthread_barrier_wait(f->start);
    f->find(f->copy->map);
    return NULL;
}

/* The second copy finds the calls already redirected, and takes the first copy for a different
 * tool. */
static void test_two_copies_redirect_one_library(void **state)
{
    (void)state;
    void *second = dlopen(watching_copy, RTLD_NOW | RTLD_LOCAL);
    second_finder f;
    assert_non_null(second);
    *(void **)&f.find = dlsym(second, "watching_copy_find");
    assert_non_null(f.find);
    for (size_t i = 0; i < 10; i++) {
        const nvrtc_copy copy = load_copy(read_only);
        pthread_t threads[2];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, 2);
        finder first = {&copy, &start, NULL};
        f.copy = &copy;
        f.start = &start;
        assert_int_equal(pthread_create(&threads[0], NULL, find_at_once, &first), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, find_by_second_copy, &f), 0);
        for (size_t t = 0; t < 2; t++) {
            pthread_join(threads[t], NULL);
        }
        pthread_barrier_destroy(&start);
    }
}

/* ---- which compilation reads belong to ---- */

/* Two threads compile under a watch. A third thread, without a watch, compiles while both run. */
static void test_reads_of_other_threads(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    compilation third = {.copy = &copy, .source = "#include \"c.h\""};
    compilation second = {.copy = &copy,
                          .source = "#include \"b.h\"",
                          .library = find(&copy),
                          .meanwhile = on_another_thread,
                          .user = &third};
    compilation first = second;
    first.source = "#include \"a.h\"";
    first.user = &second;
    write_file("c.h", "text");
    compile_watched(&first);
    assert_seen(&first, "a.h");
    assert_seen(&first, "c.h");
    assert_false(has_read(&first.encoded, "b.h"));
    assert_seen(&second, "b.h");
    assert_seen(&second, "c.h");
    assert_false(has_read(&second.encoded, "a.h"));
    compilation_done(&first);
    compilation_done(&second);
}

/* ---- which compilation folds belong to ---- */

/* Searches the encoded bytes for the function's name and the argument. */
static bool has_fold(const kilni_text *encoded, const char *function, double argument)
{
    return memmem(encoded->bytes, encoded->length, function, strlen(function) + 1) &&
           memmem(encoded->bytes, encoded->length, &argument, sizeof argument);
}

static kiln_status hold_folds(const kilni_text *encoded)
{
    return kilni_folds_hold((kiln_bytes){encoded->bytes, encoded->length}, NULL);
}

/* The threads are those of test_reads_of_other_threads. */
static void test_folds_of_other_threads(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    compilation third = {.copy = &copy, .source = "FOLD exp 3"};
    compilation second = {.copy = &copy,
                          .source = "FOLD exp 2",
                          .library = find(&copy),
                          .meanwhile = on_another_thread,
                          .user = &third};
    compilation first = second;
    first.source = "FOLD exp 1";
    first.user = &second;
    compile_watched(&first);
    assert_int_equal(first.status, KILN_OK);
    assert_true(has_fold(&first.folds, "exp", 1));
    assert_false(has_fold(&first.folds, "exp", 2));
    assert_true(has_fold(&first.folds, "exp", 3));
    assert_false(has_fold(&second.folds, "exp", 1));
    assert_true(has_fold(&second.folds, "exp", 2));
    assert_true(has_fold(&second.folds, "exp", 3));
    assert_int_equal(hold_folds(&first.folds), KILN_OK);
    assert_int_equal(hold_folds(&second.folds), KILN_OK);
    compilation_done(&first);
    compilation_done(&second);
}

/* Folds are reported whenever the loader looks up the function, and however NVRTC obtains its
 * address. */
static void test_each_fold_is_reported(void **state)
{
    (void)state;
    const nvrtc_copy copies[] = {load_copy(stand_in), load_copy_when(stand_in, RTLD_LAZY),
                                 load_copy(read_only)};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        compilation c = {.copy = &copies[i],
                         .source = "FOLD exp 0.5\nFOLD log 0.25\nFOLD pow 0.75 0.125\n",
                         .library = find(&copies[i])};
        compile_watched(&c);
        assert_int_equal(c.status, KILN_OK);
        assert_true(has_fold(&c.folds, "exp", 0.5));
        assert_true(has_fold(&c.folds, "log", 0.25));
        assert_true(has_fold(&c.folds, "pow", 0.75));
        assert_true(has_fold(&c.folds, "pow", 0.125));
        assert_int_equal(hold_folds(&c.folds), KILN_OK);
        compilation_done(&c);
    }
}

static void test_a_compilation_that_folds_nothing(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    compilation c = {.copy = &copy, .source = "text", .library = find(&copy)};
    compile_watched(&c);
    assert_int_equal(c.status, KILN_OK);
    assert_int_equal(c.folds.length, 4);
    compilation_done(&c);
}

/* ---- threads ---- */

static void meet(void *user)
{
    pthread_barrier_wait(user);
}

static void test_threads_compile_at_once(void **state)
{
    (void)state;
    static const char *const sources[THREADS] = {"#include \"0.h\"", "#include \"1.h\"",
                                                 "#include \"2.h\"", "#include \"3.h\""};
    static const char *const names[THREADS] = {"0.h", "1.h", "2.h", "3.h"};
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_watched *library = find(&copy);
    pthread_t threads[THREADS];
    compilation compilations[THREADS];
    pthread_barrier_t middle;
    pthread_barrier_init(&middle, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        compilations[i] = (compilation){.copy = &copy,
                                        .source = sources[i],
                                        .library = library,
                                        .meanwhile = meet,
                                        .user = &middle};
        write_file(names[i], "text");
        assert_int_equal(pthread_create(&threads[i], NULL, run, &compilations[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&middle);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(compilations[i].status, KILN_OK);
        for (size_t other = 0; other < THREADS; other++) {
            assert_int_equal(has_read(&compilations[i].encoded, names[other]), other == i);
        }
        compilation_done(&compilations[i]);
    }
}

static void *compile_until_cancelled(void *argument)
{
    compilation *c = argument;
    kilni_watch watch;
    c->status = kilni_watch_begin(&watch, c->library, c->reads, NULL);
    if (c->status == KILN_OK) {
        compile(c);
        kilni_watch_end(&watch);
    }
    pthread_testcancel();
    return c;
}

static void cancel_oneself(void *user)
{
    (void)user;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

/* A thread that is cancelled ends only after the watched compilation. */
static void test_a_thread_that_is_cancelled(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    compilation c = {.copy = &copy,
                     .source = "#include \"a.h\"",
                     .library = find(&copy),
                     .meanwhile = cancel_oneself};
    kilni_words words = {.list = &kilni_clock_words};
    pthread_t thread;
    void *result = NULL;
    write_file("a.h", "text");
    assert_int_equal(kilni_reads_new(NULL, &kilni_clock_words, &c.reads), KILN_OK);
    assert_int_equal(pthread_create(&thread, NULL, compile_until_cancelled, &c), 0);
    pthread_join(thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(c.status, KILN_OK);
    assert_int_equal(kilni_reads_finish(c.reads, false, &words, &c.encoded, &c.why), KILN_OK);
    kilni_reads_free(&c.reads);
    assert_seen(&c, "a.h");
    compilation_done(&c);
}

/* Reads after the end belong to no compilation. */
static void test_reads_end_with_the_watch(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_reads *reads = NULL;
    kilni_watch watch;
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why = NULL;
    compilation unwatched = {.copy = &copy, .source = "#include \"a.h\""};
    assert_int_equal(kilni_reads_new(NULL, &kilni_clock_words, &reads), KILN_OK);
    assert_int_equal(kilni_watch_begin(&watch, find(&copy), reads, NULL), KILN_OK);
    kilni_watch_end(&watch);
    compile(&unwatched);
    on_another_thread(&unwatched);
    assert_int_equal(kilni_reads_finish(reads, false, &words, &encoded, &why), KILN_OK);
    assert_false(has_read(&encoded, "a.h"));
    kilni_text_done(&encoded);
    kilni_reads_free(&reads);
}

static void fail_with_another_errno(kilni_reads *reads, const char *text)
{
    kilni_reads_fail(reads, text);
    errno = EXDEV;
}

static void *report_with_errno(void *ret_errno)
{
    errno = EAGAIN;
    kilni_compilation_report(fail_with_another_errno, "told");
    *(int *)ret_errno = errno;
    return NULL;
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    kilni_reads *reads = NULL;
    kilni_watch watch;
    pthread_t thread;
    int own = 0, of_another = 0;
    assert_int_equal(kilni_reads_new(NULL, &kilni_clock_words, &reads), KILN_OK);
    assert_int_equal(kilni_watch_begin(&watch, find(&copy), reads, NULL), KILN_OK);
    report_with_errno(&own);
    assert_int_equal(pthread_create(&thread, NULL, report_with_errno, &of_another), 0);
    pthread_join(thread, NULL);
    kilni_watch_end(&watch);
    kilni_reads_free(&reads);
    assert_int_equal(own, EAGAIN);
    assert_int_equal(of_another, EAGAIN);
}

/* ---- what is reported ---- */

#define CALL(type, name) ((type *)kilni_call_find(name, 1))

typedef int path_call(const char *path);
typedef int two_paths_call(const char *from, const char *to);
typedef int open_call(const char *path, int flags, ...);
typedef int openat_call(int folder, const char *path, int flags, ...);
typedef int mkstemp_call(char *path);
typedef int access_call(const char *path, int mode);
typedef int stat_call(const char *path, struct stat *facts);
typedef FILE *fopen_call(const char *path, const char *mode);
typedef char *realpath_call(const char *path, char *resolved);
typedef ssize_t readlink_call(const char *path, char *buffer, size_t size);

/* Makes calls that must be recorded, or that must make the reads fail. */
typedef void calls_fn(const char *name);

static compilation watch_calls(calls_fn *calls, const char *name)
{
    const nvrtc_copy copy = load_copy(stand_in);
    compilation c = {.library = find(&copy)};
    kilni_watch watch;
    kilni_words words = {.list = &kilni_clock_words};
    assert_int_equal(kilni_reads_new(NULL, &kilni_clock_words, &c.reads), KILN_OK);
    assert_int_equal(kilni_watch_begin(&watch, c.library, c.reads, NULL), KILN_OK);
    calls(name);
    kilni_watch_end(&watch);
    c.status = kilni_reads_finish(c.reads, false, &words, &c.encoded, &c.why);
    kilni_reads_free(&c.reads);
    return c;
}

/* Queries a path that is also the value of PWD. */
static void query_path_in_variable(const char *path)
{
    struct stat facts;
    char *whole = *path == '/' ? NULL : strdup(path), *here = getcwd(NULL, 0);
    if (!whole) {
        assert_true(asprintf(&whole, "%s%s", here, path) > 0);
    }
    assert_int_equal(setenv("PWD", whole, 1), 0);
    CALL(stat_call, "stat64")(whole, &facts);
    free(whole);
    free(here);
}

static void read_by_each_call(const char *unused)
{
    struct stat facts;
    char text[16];
    (void)unused;
    close(CALL(open_call, "open64")("open", O_RDONLY));
    close(CALL(openat_call, "openat")(AT_FDCWD, "openat", O_RDONLY));
    FILE *file = CALL(fopen_call, "fopen")("fopen", "r");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(CALL(stat_call, "stat")("stat", &facts), 0);
    assert_int_equal(CALL(stat_call, "lstat64")("lstat", &facts), 0);
    assert_int_equal(CALL(access_call, "access")("access", R_OK), 0);
    assert_int_equal(CALL(readlink_call, "readlink")("readlink", text, sizeof text), 6);
    free(CALL(realpath_call, "realpath")("realpath", NULL));
    assert_int_equal(CALL(stat_call, "stat64")("none", &facts), -1);
    query_path_in_variable("folder");
    query_path_in_variable("/spelled");
    query_path_in_variable("/open");
    query_path_in_variable("/absent");
}

static void assert_whether_seen(const compilation *c, const char *path_from_here, bool is_seen)
{
    char *here = getcwd(NULL, 0), *path = NULL;
    assert_true(asprintf(&path, "%s%s", here, path_from_here) > 0);
    assert_int_equal(has_read(&c->encoded, path), is_seen);
    free(path);
    free(here);
}

static void test_each_read_is_reported(void **state)
{
    (void)state;
    static const char *const paths[] = {"open",  "openat", "fopen",   "stat",
                                        "lstat", "access", "realpath"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        write_file(paths[i], "text");
    }
    assert_int_equal(symlink("target", "readlink"), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(mkdir("spelled", 0700), 0);
    char *spelled = strdup(getenv("PWD") ? getenv("PWD") : "/");
    compilation c = watch_calls(read_by_each_call, NULL);
    setenv("PWD", spelled, 1);
    free(spelled);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(c.status, KILN_OK);
        assert_seen(&c, paths[i]);
    }
    assert_seen(&c, "folder");
    assert_whether_seen(&c, "/spelled", false);
    assert_whether_seen(&c, "/open", true);
    assert_whether_seen(&c, "/absent", true);
    assert_seen(&c, "readlink");
    assert_seen(&c, "none");
    compilation_done(&c);
}

/* ---- streams with a copy ---- */

typedef int fileno_call(FILE *file);
typedef int descriptor_call(int file);
typedef int two_descriptors_call(int file, int to);
typedef int dup3_call(int file, int to, int flags);
typedef int command_call(int file, int command, ...);
typedef int request_call(int file, unsigned long request, ...);
typedef ssize_t read_call(int file, void *bytes, size_t size);
typedef ssize_t pread_call(int file, void *bytes, size_t size, off_t offset);
typedef off_t lseek_call(int file, off_t offset, int from);
typedef void *mmap_call(void *address, size_t size, int protection, int flags, int file,
                        off_t offset);
typedef FILE *fdopen_call(int file, const char *mode);
typedef FILE *freopen_call(const char *path, const char *mode, FILE *file);
typedef int fstat_call(int file, struct stat *facts);
typedef int fxstat_call(int version, int file, struct stat *facts);
typedef wint_t getwc_call(FILE *file);
typedef wint_t ungetwc_call(wint_t character, FILE *file);

/* Opens a file that contains "one two"; returns its descriptor. */
static int open_copy(FILE **ret_stream)
{
    write_file("a.h", "one two");
    *ret_stream = CALL(fopen_call, "fopen64")("a.h", "r");
    assert_non_null(*ret_stream);
    assert_int_equal(fileno(*ret_stream), -1);
    const int file = CALL(fileno_call, "fileno")(*ret_stream);
    assert_true(file >= 0);
    return file;
}

/* Calls a function for the descriptor of a stream, which then changes. */
static void use_descriptor(const char *name)
{
    char text[8] = "";
    FILE *stream;
    const int file = open_copy(&stream);
    int copy = -1;
    if (strcmp(name, "read") == 0) {
        assert_int_equal(CALL(read_call, name)(file, text, 4), 4);
        assert_int_equal(getc(stream), 't');
    } else if (strncmp(name, "pread", 5) == 0) {
        assert_int_equal(CALL(pread_call, name)(file, text, 3, 4), 3);
        assert_string_equal(text, "two");
        assert_int_equal(getc(stream), 'o');
    } else if (strncmp(name, "lseek", 5) == 0) {
        assert_int_equal(CALL(lseek_call, name)(file, 5, SEEK_SET), 5);
        assert_int_equal(getc(stream), 'w');
    } else if (strncmp(name, "mmap", 4) == 0) {
        char *mapped = CALL(mmap_call, name)(NULL, 7, PROT_READ, MAP_PRIVATE, file, 0);
        assert_memory_equal(mapped, "one two", 7);
        munmap(mapped, 7);
    } else if (strcmp(name, "dup") == 0) {
        copy = CALL(descriptor_call, name)(file);
    } else if (strcmp(name, "dup2") == 0) {
        copy = CALL(two_descriptors_call, name)(file, file + 1);
    } else if (strcmp(name, "dup3") == 0) {
        copy = CALL(dup3_call, name)(file, file + 1, O_CLOEXEC);
    } else if (strncmp(name, "fcntl", 5) == 0) {
        copy = CALL(command_call, name)(file, F_DUPFD, 0);
    } else if (strcmp(name, "ioctl") == 0) {
        int count = 0;
        assert_int_equal(CALL(request_call, name)(file, FIONREAD, &count), 0);
        assert_int_equal(count, 7);
    } else if (strcmp(name, "fdopen") == 0) {
        FILE *second = CALL(fdopen_call, name)(file, "r");
        assert_non_null(second);
        assert_int_equal(getc(second), 'o');
        fclose(second);
    }
    if (copy >= 0) {
        assert_int_equal(read(copy, text, 1), 1);
        assert_int_equal(getc(stream), 'n');
        close(copy);
    }
    write_file("a.h", "two one");
    fclose(stream);
}

static void test_use_of_the_descriptor_is_checked(void **state)
{
    (void)state;
    static const char *const names[] = {"read",    "pread", "pread64", "mmap",   "mmap64",
                                        "lseek",   "dup",   "dup2",    "dup3",   "fcntl",
                                        "fcntl64", "ioctl", "lseek64", "fdopen", "none"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        compilation c = watch_calls(use_descriptor, names[i]);
        assert_int_equal(c.status, strcmp(names[i], "none") == 0 ? KILN_OK : KILN_MISS);
        compilation_done(&c);
    }
}

/* Reads through the stream, and then through its descriptor. */
static void read_twice(const char *name)
{
    FILE *stream;
    const int file = open_copy(&stream);
    assert_int_equal(getc(stream), 'o');
    CALL(lseek_call, name)(file, 0, SEEK_CUR);
    fclose(stream);
}

static void replace_descriptor(const char *name)
{
    FILE *stream;
    const int file = open_copy(&stream), other = open("a.h", O_RDONLY);
    assert_int_equal(CALL(two_descriptors_call, name)(other, file), file);
    close(other);
    fclose(stream);
}

static void reopen_stream(const char *name)
{
    FILE *stream;
    open_copy(&stream);
    assert_null(CALL(freopen_call, name)("a.h", "r", stream));
    assert_int_equal(errno, EBADF);
    fclose(stream);
}

static void read_wide(const char *name)
{
    FILE *stream;
    open_copy(&stream);
    assert_true((*name == 'u' ? CALL(ungetwc_call, name)('x', stream)
                              : CALL(getwc_call, name)(stream)) == WEOF);
    assert_int_equal(errno, EBADF);
    assert_int_equal(getc(stream), 'o');
    fclose(stream);
}

/* The counterpart of each call for ordinary streams. */
static void use_plain_streams(const char *unused)
{
    (void)unused;
    write_file("a.h", "one");
    FILE *stream = fopen("a.h", "r");
    assert_int_equal(CALL(getwc_call, "getwc")(stream), 'o');
    assert_int_equal(CALL(ungetwc_call, "ungetwc")('x', stream), 'x');
    assert_int_equal(CALL(fileno_call, "fileno")(stream), fileno(stream));
    fclose(stream);
}

static void test_uses_of_a_stream_that_fail_the_result(void **state)
{
    (void)state;
    static const struct {
        calls_fn *calls;
        const char *name;
    } cases[] = {{read_twice, "lseek"},        {read_twice, "lseek64"},
                 {replace_descriptor, "dup2"}, {reopen_stream, "freopen"},
                 {reopen_stream, "freopen64"}, {read_wide, "getwc"},
                 {read_wide, "ungetwc"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const compilation c = watch_calls(cases[i].calls, cases[i].name);
        assert_int_equal(c.status, KILN_E_UNSUPPORTED);
    }
    compilation c = watch_calls(use_plain_streams, NULL);
    assert_int_equal(c.status, KILN_OK);
    compilation_done(&c);
}

static void ask_for_facts(const char *name)
{
    FILE *stream;
    struct stat facts;
    const int file = open_copy(&stream);
    if (*name == '!') {
        write_file("a.h", "a longer text");
        name++;
    }
    assert_int_equal(*name == '_' ? CALL(fxstat_call, name)(1, file, &facts)
                                  : CALL(fstat_call, name)(file, &facts),
                     0);
    fclose(stream);
}

static void test_facts_that_contradict_the_copy(void **state)
{
    (void)state;
    static const char *const names[] = {"fstat", "fstat64", "__fxstat", "__fxstat64"};
    static const char *const changed[] = {"!fstat", "!fstat64", "!__fxstat", "!__fxstat64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        compilation c = watch_calls(ask_for_facts, names[i]);
        assert_int_equal(c.status, KILN_OK);
        compilation_done(&c);
        c = watch_calls(ask_for_facts, changed[i]);
        assert_int_equal(c.status, KILN_MISS);
        compilation_done(&c);
    }
}

static void read_one(const char *path, const char *mode, char expected)
{
    FILE *stream = CALL(fopen_call, "fopen")(path, mode);
    assert_non_null(stream);
    assert_true(fileno(stream) >= 0);
    assert_int_equal(getc(stream), expected);
    fclose(stream);
}

static int looked_up;

/* Replaces a.h whenever Kiln is about to read it. */
static int replacing_openat(int directory, const char *path, int flags, mode_t mode)
{
    if (strcmp(path, "a.h") == 0) {
        write_file("b.h", "two");
        assert_int_equal(rename("b.h", "a.h"), 0);
    }
    looked_up++;
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void *read_replaced(void *unused)
{
    read_one("a.h", "r", 't');
    return unused;
}

static void read_without_copy(const char *name)
{
    kilni_os_table table = *kilni_os_system();
    table.openat = replacing_openat;
    write_file("a.h", "one");
    looked_up = 0;
    kilni_os_replace(&table);
    if (strcmp(name, "a.h") == 0) {
        pthread_t thread; /* it gets an ordinary stream; Kiln reads the file first */
        assert_int_equal(pthread_create(&thread, NULL, read_replaced, NULL), 0);
        pthread_join(thread, NULL);
        assert_null(CALL(fopen_call, "fopen")("a.h", "r,ccs=none"));
    } else if (strcmp(name, "pipe") == 0) {
        const int writer = open("pipe", O_RDWR);
        assert_int_equal(write(writer, "p", 1), 1);
        read_one("pipe", "re", 'p');
        close(writer);
        assert_int_equal(looked_up, 0);
    } else {
        fclose(CALL(fopen_call, "fopen")(name, "r"));
    }
    kilni_os_replace(NULL);
}

static void test_files_that_are_not_copied(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    compilation c = watch_calls(read_without_copy, "a.h");
    assert_seen(&c, "a.h");
    compilation_done(&c);
    c = watch_calls(read_without_copy, "folder");
    assert_seen(&c, "folder");
    compilation_done(&c);
    c = watch_calls(read_without_copy, "pipe");
    assert_spoiled(&c, "a path that cannot be read, or is neither a file nor a folder");
}

static void *read_on_thread(void *unused)
{
    read_one("a.h", "r", 'o');
    return unused;
}

/* Threads of the compiler's own might share a stream, so they get ordinary ones. */
static void read_on_another_thread(const char *unused)
{
    pthread_t thread;
    (void)unused;
    write_file("a.h", "one");
    assert_int_equal(pthread_create(&thread, NULL, read_on_thread, NULL), 0);
    pthread_join(thread, NULL);
}

static void test_other_threads_get_ordinary_streams(void **state)
{
    (void)state;
    compilation c = watch_calls(read_on_another_thread, NULL);
    assert_seen(&c, "a.h");
    compilation_done(&c);
    read_on_another_thread(NULL);
    write_file("a.h", "one");
    read_one("a.h", "r", 'o');
}

/* ---- links, and signals ---- */

static void *open_other(void *unused)
{
    (void)unused;
    close(CALL(open_call, "open")("other", O_RDONLY));
    return NULL;
}

/* Reads the link of an open file in /proc/self/fd, as LLVM does, after a thread without a watch has
 * opened a file too. */
static void read_link_of_open_file(const char *unused)
{
    char path[64], text[256];
    pthread_t thread;
    (void)unused;
    const int file = CALL(open_call, "open")("link", O_RDONLY);
    assert_int_equal(pthread_create(&thread, NULL, open_other, NULL), 0);
    pthread_join(thread, NULL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    assert_true(CALL(readlink_call, "readlink")(path, text, sizeof text) > 0);
    close(file);
}

static void test_real_name_of_an_open_file_is_recorded(void **state)
{
    (void)state;
    write_file("first", "text");
    write_file("second", "text");
    write_file("other", "other");
    assert_int_equal(symlink("first", "link"), 0);
    compilation c = watch_calls(read_link_of_open_file, NULL);
    assert_seen(&c, "link");
    const kiln_bytes reads = {c.encoded.bytes, c.encoded.length};
    assert_int_equal(kilni_reads_hold(reads, NULL, NULL), KILN_OK);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("second", "link"), 0);
    assert_int_equal(kilni_reads_hold(reads, NULL, NULL), KILN_MISS);
    compilation_done(&c);
}

typedef int sigaction_call(int number, const struct sigaction *action, struct sigaction *before);

/* A signal handler that makes the calls that LLVM's handlers make. */
static void remove_temporary_file(int number)
{
    struct stat facts;
    (void)number;
    CALL(sigaction_call, "sigaction")(SIGUSR2, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    CALL(stat_call, "stat")("stat", &facts);
    CALL(path_call, "unlink")("none");
}

/* Raises the signal while the thread reports a read. */
static bool raise_signal(const void *unused, const char *path)
{
    (void)unused, (void)path;
    raise(SIGUSR2);
    return false;
}

static void do_nothing(int number)
{
    (void)number;
}

/* comgr saves a handler, LLVM installs its own, and comgr restores the first one. */
static void save_and_restore(const char *arrives)
{
    const struct sigaction handled = {.sa_handler = do_nothing, .sa_flags = (int)SA_RESETHAND};
    struct sigaction saved, before;
    assert_int_equal(CALL(sigaction_call, "sigaction")(SIGUSR2, NULL, &saved), 0);
    assert_int_equal(CALL(sigaction_call, "sigaction")(SIGUSR2, &handled, &before), 0);
    if (arrives) {
        raise(SIGUSR2);
    }
    assert_int_equal(CALL(sigaction_call, "sigaction")(SIGUSR2, &saved, NULL), 0);
}

static void test_handlers_that_are_restored(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        compilation c = watch_calls(save_and_restore, NULL);
        assert_int_equal(c.status, KILN_OK);
        compilation_done(&c);
        c = watch_calls(save_and_restore, "a signal");
        assert_spoiled(&c, "a signal arrived during the compilation");
    }
}

static void query_header(const char *unused)
{
    struct stat facts;
    (void)unused;
    assert_int_equal(CALL(stat_call, "stat")("a.h", &facts), 0);
}

static void test_signal_in_a_report_fails_the_result(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    compilation c = {.library = find(&copy)};
    kilni_watch watch;
    kilni_words words = {.list = &kilni_clock_words};
    const struct sigaction handled = {.sa_handler = remove_temporary_file};
    struct sigaction before;
    write_file("a.h", "text");
    assert_non_null(kilni_call_find("sigaction", 0));
    assert_int_equal(kilni_reads_new(NULL, &kilni_clock_words, &c.reads), KILN_OK);
    kilni_reads_ignore(c.reads, raise_signal, NULL);
    assert_int_equal(kilni_watch_begin(&watch, c.library, c.reads, NULL), KILN_OK);
    assert_int_equal(CALL(sigaction_call, "sigaction")(SIGUSR2, &handled, &before), 0);
    query_header(NULL);
    kilni_watch_end(&watch);
    c.status = kilni_reads_finish(c.reads, false, &words, &c.encoded, &c.why);
    kilni_reads_free(&c.reads);
    assert_spoiled(&c, "a signal arrived during the compilation");
    assert_int_equal(sigaction(SIGUSR2, &before, NULL), 0);

    /* The next compilation is watched again. */
    c = watch_calls(query_header, NULL);
    assert_seen(&c, "a.h");
    compilation_done(&c);
}

static void call_with_path(const char *name)
{
    assert_int_equal(CALL(path_call, name)("none"), -1);
    assert_int_equal(errno, ENOENT);
}

static void call_with_two_paths(const char *name)
{
    assert_int_equal(CALL(two_paths_call, name)("none", "no/such/folder"), -1);
    assert_int_equal(errno, ENOENT);
}

static void open_to_write(const char *name)
{
    const int file = CALL(open_call, name)("made", O_WRONLY | O_CREAT, 0600);
    struct stat facts;
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    close(file);
    assert_int_equal(remove("made"), 0);
}

static void append_to_file(const char *name)
{
    FILE *file = CALL(fopen_call, name)("made", "a");
    assert_non_null(file);
    fclose(file);
}

static void open_in_folder(const char *name)
{
    const int folder = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(CALL(openat_call, name)(folder, "none", O_RDONLY), -1);
    close(folder);
}

static void make_temporary_file(const char *name)
{
    char path[] = "temporary-XXXXXX";
    const int file = CALL(mkstemp_call, name)(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(remove(path), 0);
}

static void test_uncheckable_read_fails_the_result(void **state)
{
    (void)state;
    static const struct {
        calls_fn *calls;
        const char *name;
    } cases[] = {{call_with_path, "unlink"},        {call_with_path, "rmdir"},
                 {call_with_path, "remove"},        {call_with_path, "chdir"},
                 {call_with_two_paths, "rename"},   {call_with_two_paths, "link"},
                 {call_with_two_paths, "symlink"},  {open_to_write, "open"},
                 {open_to_write, "open64"},         {append_to_file, "fopen"},
                 {append_to_file, "fopen64"},       {open_in_folder, "openat"},
                 {open_in_folder, "openat64"},      {make_temporary_file, "mkstemp"},
                 {make_temporary_file, "mkstemp64"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const compilation c = watch_calls(cases[i].calls, cases[i].name);
        assert_int_equal(c.status, KILN_E_UNSUPPORTED);
        assert_non_null(c.why);
    }
}

/* The names that a library calls depend on how it was compiled. */
static void test_names_for_large_files(void **state)
{
    (void)state;
    static const char *const observed[][2] = {
        {"open", "open64"},       {"openat", "openat64"},   {"fopen", "fopen64"},
        {"freopen", "freopen64"}, {"stat", "stat64"},       {"lstat", "lstat64"},
        {"statfs", "statfs64"},   {"__xstat", "__xstat64"}, {"mkstemp", "mkstemp64"}};
    static const char *const unknown[][2] = {
        {"creat", "creat64"},       {"fstatat", "fstatat64"},
        {"fts_open", "fts64_open"}, {"ftw", "ftw64"},
        {"glob", "glob64"},         {"mkostemp", "mkostemp64"},
        {"mkstemps", "mkstemps64"}, {"nftw", "nftw64"},
        {"scandir", "scandir64"},   {"scandirat", "scandirat64"},
        {"statvfs", "statvfs64"}};
    for (size_t i = 0; i < sizeof observed / sizeof *observed; i++) {
        assert_non_null(kilni_call_find(observed[i][0], 0));
        assert_ptr_equal(kilni_call_find(observed[i][0], 0), kilni_call_find(observed[i][1], 0));
        assert_false(kilni_call_is_unobserved(observed[i][1], 1));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_true(kilni_call_is_unobserved(unknown[i][0], 0));
        assert_true(kilni_call_is_unobserved(unknown[i][1], 0));
    }
}

/* ---- forks ---- */

static int wait_for(pid_t child)
{
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return status;
}

/* Runs in a child: its reads do not belong to the parent, which was compiling; and the child can
 * watch compilations. */
static int compile_in_child(const compilation *parents)
{
    compilation unwatched = {.copy = parents->copy, .source = "#include \"b.h\""};
    compilation watched = {
        .copy = parents->copy, .source = "#include \"c.h\"", .library = parents->library};
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why;
    compile(&unwatched);
    if (kilni_reads_finish(parents->reads, false, &words, &encoded, &why) != KILN_OK ||
        has_read(&encoded, "b.h")) {
        return 2;
    }
    compile_watched(&watched);
    return watched.status == KILN_OK && has_read(&watched.encoded, "c.h") ? 0 : 3;
}

typedef struct forking {
    const compilation *parents;
    int status;
} forking;

static void *fork_on_thread(void *argument)
{
    forking *f = argument;
    const pid_t child = fork();
    if (child == 0) {
        _exit(compile_in_child(f->parents));
    }
    f->status = wait_for(child);
    return NULL;
}

static void fork_on_another_thread(void *user)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fork_on_thread, user) == 0) {
        pthread_join(thread, NULL);
    }
}

static void test_another_thread_forks(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    forking f = {.status = -1};
    compilation c = {.copy = &copy,
                     .source = "#include \"a.h\"",
                     .library = find(&copy),
                     .meanwhile = fork_on_another_thread,
                     .user = &f};
    f.parents = &c;
    compile_watched(&c);
    assert_int_equal(f.status, 0);
    assert_seen(&c, "a.h");
    assert_false(has_read(&c.encoded, "b.h"));
    compilation_done(&c);
}

/* Forks in the thread that compiles; the child continues the compilation. */
static void fork_here(void *user)
{
    pid_t *child = user;
    *child = fork();
}

static void test_a_fork_during_a_compilation(void **state)
{
    (void)state;
    const nvrtc_copy copy = load_copy(stand_in);
    pid_t child = -1;
    compilation c = {.copy = &copy,
                     .source = "#include \"a.h\"",
                     .library = find(&copy),
                     .meanwhile = fork_here,
                     .user = &child};
    compile_watched(&c);
    if (child == 0) {
        const bool is_reported = c.status == KILN_E_UNSUPPORTED && strcmp(c.why, WAS_FORKED) == 0;
        c.meanwhile = NULL;
        compile_watched(&c);
        _exit(is_reported && c.status == KILN_OK && has_read(&c.encoded, "a.h") ? 0 : 1);
    }
    assert_int_equal(wait_for(child), 0);
    assert_seen(&c, "a.h");
    compilation_done(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_a_library_is_found_once),
        IN_SCRATCH(test_threads_find_the_same),
        IN_SCRATCH(test_a_library_stays_loaded),
        IN_SCRATCH(test_unknown_calls),
        IN_SCRATCH(test_a_library_that_opens_nothing),
        IN_SCRATCH(test_functions_of_other_libraries),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_pages_keep_their_protection),
        IN_SCRATCH(test_read_only_pages_stay_read_only),
        IN_SCRATCH(test_a_slot_that_was_redirected_before),
        IN_SCRATCH(test_a_slot_that_is_redirected_later),
        IN_SCRATCH(test_a_slot_that_is_restored_is_redirected_again),
        IN_SCRATCH(test_a_slot_that_is_restored_during_a_compilation),
        IN_SCRATCH(test_a_slot_that_another_compilation_redirects_again),
        IN_SCRATCH(test_two_copies_redirect_one_library),
        IN_SCRATCH(test_reads_of_other_threads),
        IN_SCRATCH(test_folds_of_other_threads),
        IN_SCRATCH(test_each_fold_is_reported),
        IN_SCRATCH(test_a_compilation_that_folds_nothing),
        IN_SCRATCH(test_threads_compile_at_once),
        IN_SCRATCH(test_a_thread_that_is_cancelled),
        IN_SCRATCH(test_reads_end_with_the_watch),
        IN_SCRATCH(test_errno_is_kept),
        IN_SCRATCH(test_each_read_is_reported),
        IN_SCRATCH(test_use_of_the_descriptor_is_checked),
        IN_SCRATCH(test_uses_of_a_stream_that_fail_the_result),
        IN_SCRATCH(test_facts_that_contradict_the_copy),
        IN_SCRATCH(test_files_that_are_not_copied),
        IN_SCRATCH(test_other_threads_get_ordinary_streams),
        IN_SCRATCH(test_real_name_of_an_open_file_is_recorded),
        IN_SCRATCH(test_handlers_that_are_restored),
        IN_SCRATCH(test_signal_in_a_report_fails_the_result),
        IN_SCRATCH(test_uncheckable_read_fails_the_result),
        cmocka_unit_test(test_names_for_large_files),
        IN_SCRATCH(test_another_thread_forks),
        IN_SCRATCH(test_a_fork_during_a_compilation),
    };
    enum { PATHS = 5 };
    if (argc != 1 + PATHS) {
        fprintf(stderr,
                "usage: test_nvrtc_watch LIBNVRTC, ONE THAT CALLS UNKNOWN FUNCTIONS, ONE WITH "
                "READ-ONLY SLOTS, A LIBRARY WITH A COPY OF KILN, ONE THAT OPENS NOTHING\n");
        return 2;
    }
    /* The tests run in a new working directory. */
    char *paths[PATHS];
    for (size_t i = 0; i < PATHS; i++) {
        paths[i] = realpath(argv[1 + i], NULL);
    }
    stand_in = paths[0];
    calling_unknown = paths[1];
    read_only = paths[2];
    watching_copy = paths[3];
    descriptors_only = paths[4];
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < PATHS; i++) {
        free(paths[i]);
    }
    return failed;
}
