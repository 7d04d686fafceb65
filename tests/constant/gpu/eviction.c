/* SPDX-License-Identifier: Apache-2.0
 *
 * Evicts a constant, in every way that a constant can be evicted, while a kernel reads it.
 * Meanwhile other threads allocate memory of its size and write to it. The kernel must still read
 * the constant.
 *
 * usage: eviction [LIBNVRTC [control]]
 *   control  frees the memory without waiting for the kernel: the fault that the test must detect.
 *            Exits with 3 if the fault was not detected
 */
#include <string.h>
#include <unistd.h>

#include "reader.h"
#include "scene.h"

enum { COUNT = ROWS * COLUMNS, SIZE = COUNT * sizeof(float), TEMPTED = 4, UNSPOILT = 3 };

/* Removes all constants, and sets the capacity to 1 MiB. */
static void set_small_budget(void)
{
    const kiln_constant_budget budget = {.struct_size = sizeof budget,
                                         .kind = KILN_ENGINE_GPU,
                                         .capacity_mib = 1,
                                         .policy = KILN_POLICY_LRU};
    REQUIRE_KILN(kiln_constant_set_budget(&budget));
}

/* Waits long enough for everything that may run concurrently with the kernel. */
enum { MEANWHILE_US = 20000 };

static int failures;

typedef struct scene {
    backend owner;
    reader slow;
    weights matrices[2];
    double sum; /* the sum of the first matrix */
    user_stream tempted;
} scene;

typedef struct way_out {
    const char *name;
    void (*evict)(const scene *s, const partition *read, execution *newcomer);
    int is_pinned_then; /* the pin is released after the eviction, instead of before */
} way_out;

static void make_room(const scene *s, const partition *read, execution *newcomer)
{
    (void)s;
    (void)read;
    execution_obtain(newcomer);
}

static void flush(const scene *s, const partition *read, execution *newcomer)
{
    (void)s;
    (void)read;
    (void)newcomer;
    set_small_budget();
}

static void end_owner(const scene *s, const partition *read, execution *newcomer)
{
    (void)s;
    (void)newcomer;
    kiln_constant_remove_owner(read->number);
}

static void end_context(const scene *s, const partition *read, execution *newcomer)
{
    (void)read;
    (void)newcomer;
    kiln_constant_remove_context(s->owner.context_number);
}

static const way_out ways[] = {
    {"by another constant, under lru", make_room, 0},
    {"by a set", flush, 0},
    {"with its owner", end_owner, 0},
    {"with its context", end_context, 0},
    {"by a set, and its last pin is released after that", flush, 1},
};

static void scene_begin(scene *s, const char *nvrtc)
{
    backend_open(&s->owner, backend_driver(), 0, nvrtc);
    reader_open(&s->slow, &s->owner);
    user_stream_begin(s->owner.context, &s->tempted);
    make_weights(&s->matrices[0], 1);
    make_weights(&s->matrices[1], 2);
    for (size_t i = 0; i < COUNT; i++) {
        s->sum += (double)s->matrices[0].values[i];
    }
    set_small_budget();
}

static void scene_end(scene *s)
{
    user_stream_end(s->owner.context, &s->tempted);
    reader_close(&s->slow);
    backend_close(&s->owner);
    free(s->matrices[0].values);
    free(s->matrices[1].values);
}

static void synchronize(const scene *s, cuda_stream stream)
{
    context_enter(s->owner.context);
    REQUIRE_CUDA(s->owner.cuda->cuStreamSynchronize(stream));
    context_leave(s->owner.context);
}

static unsigned long long used(const scene *s)
{
    unsigned long long bytes = 0;
    REQUIRE_CUDA(
        s->owner.cuda->cuMemPoolGetAttribute(s->owner.context->pool, CUDA_POOL_USED, &bytes));
    return bytes;
}

/* Allocates memory of the constant's size and writes to it. Returns whether one block has the
 * address of the constant. */
static int tempt(const scene *s, cuda_address constant)
{
    const cuda_driver *cuda = s->owner.cuda;
    const cuda_stream stream = s->tempted.handle;
    cuda_address taken[TEMPTED];
    int is_same = 0;
    context_enter(s->owner.context);
    for (int i = 0; i < TEMPTED; i++) {
        REQUIRE_CUDA(cuda->cuMemAllocAsync(&taken[i], SIZE, stream));
        REQUIRE_CUDA(cuda->cuMemsetD32Async(taken[i], 0x40A00000, COUNT, stream));
        is_same |= taken[i] == constant;
    }
    for (int i = 0; i < TEMPTED; i++) {
        REQUIRE_CUDA(cuda->cuMemFreeAsync(taken[i], stream));
    }
    context_leave(s->owner.context);
    return is_same;
}

static int is_running(const scene *s, cuda_stream stream)
{
    context_enter(s->owner.context);
    const int result = s->owner.cuda->cuStreamQuery(stream);
    context_leave(s->owner.context);
    return result == CUDA_NOT_READY;
}

/* Launches all kernels once, because the first launch of a kernel may wait for others.
 */
static void warm_up(scene *s, const partition *first, const partition *second)
{
    const partition *all[] = {first, second};
    for (int i = 0; i < 2; i++) {
        execution e;
        execution_begin(&e, all[i]);
        expect(&failures, is_right(&e), "warmed up");
        reader_launch(&s->slow, execution_obtain(&e), COUNT, e.stream.handle, 0);
        synchronize(s, e.stream.handle);
        execution_end(&e);
    }
    tempt(s, 0);
    synchronize(s, s->tempted.handle);
    set_small_budget();
    synchronize(s, s->owner.context->freeing);
}

/* Launches a kernel that reads the constant, and evicts the constant before the kernel continues.
 */
static void read_and_evict(scene *s, const way_out *way, execution *e, execution *newcomer,
                           unsigned long long before)
{
    const cuda_stream stream = e->stream.handle;
    const cuda_address blocks = execution_obtain(e);
    const unsigned long long with_it = used(s);
    reader_launch(&s->slow, blocks, COUNT, stream, 1);
    reader_await_start(&s->slow, stream);
    if (!way->is_pinned_then) {
        execution_let_go(e);
    }
    way->evict(s, e->what, newcomer);
    if (way->is_pinned_then) {
        expect(&failures, !kiln_watch_is_live(e->watch), "the constant was removed from the cache");
        execution_let_go(e);
    }
    expect(&failures, is_running(s, stream), "no thread waited for the kernel");
    const int is_same = tempt(s, blocks);
    usleep(MEANWHILE_US);
    printf("        %llu KiB in use before, %llu with it, %llu now; others %s%s\n", before >> 10,
           with_it >> 10, used(s) >> 10, is_same ? "got its address, " : "wrote elsewhere, ",
           is_running(s, s->tempted.handle) ? "and wait" : "and are done");
    reader_go_on(&s->slow);
    synchronize(s, stream);
}

static void evict_while_read(scene *s, const way_out *way)
{
    partition read, other;
    execution e, newcomer;
    printf("evicted %s:\n", way->name);
    partition_compile(&read, &s->owner, &s->matrices[0]);
    partition_compile(&other, &s->owner, &s->matrices[1]);
    warm_up(s, &read, &other);
    const unsigned long long before = used(s);
    execution_begin(&e, &read);
    execution_begin(&newcomer, &other);
    read_and_evict(s, way, &e, &newcomer, before);
    expect(&failures, s->slow.board->sums[0] == s->sum, "the kernel read it before the eviction");
    expect(&failures, s->slow.board->sums[1] == s->sum,
           "the kernel read it completely and correctly");
    expect(&failures, is_right(&newcomer), "another is right");
    execution_end(&newcomer);
    execution_end(&e);
    partition_release(&read);
    partition_release(&other);
    synchronize(s, s->tempted.handle);
    synchronize(s, s->owner.context->freeing);
    expect(&failures, used(s) == before, "all memory was freed");
}

/* Reads memory that is freed before the kernel continues, and that other threads write to. */
static void read_what_is_freed(scene *s, cuda_stream stream, int is_to_pause)
{
    const cuda_driver *cuda = s->owner.cuda;
    cuda_address memory;
    context_enter(s->owner.context);
    REQUIRE_CUDA(cuda->cuMemAllocAsync(&memory, SIZE, s->tempted.handle));
    REQUIRE_CUDA(
        cuda->cuMemcpyHtoDAsync_v2(memory, s->matrices[0].values, SIZE, s->tempted.handle));
    REQUIRE_CUDA(cuda->cuStreamSynchronize(s->tempted.handle));
    reader_launch(&s->slow, memory, COUNT, stream, is_to_pause);
    reader_await_start(&s->slow, stream);
    REQUIRE_CUDA(cuda->cuMemFreeAsync(memory, s->tempted.handle));
    tempt(s, memory);
    usleep(MEANWHILE_US);
    reader_go_on(&s->slow);
    REQUIRE_CUDA(cuda->cuStreamSynchronize(stream));
    context_leave(s->owner.context);
}

/* Returns whether a kernel reads wrong bytes if the memory is freed without waiting for the
 * kernel. */
static int is_spoilt(scene *s)
{
    unsigned long long all = ~0ull; /* the pool returns nothing to the system */
    user_stream stream;
    REQUIRE_CUDA(
        s->owner.cuda->cuMemPoolSetAttribute(s->owner.context->pool, CUDA_POOL_KEEPS, &all));
    user_stream_begin(s->owner.context, &stream);
    read_what_is_freed(s, stream.handle, 0); /* warms up */
    read_what_is_freed(s, stream.handle, 1);
    user_stream_end(s->owner.context, &stream);
    return s->slow.board->sums[0] == s->sum && s->slow.board->sums[1] != s->sum;
}

int main(int argc, char **argv)
{
    scene s = {.sum = 0};
    scene_begin(&s, argc > 1 ? argv[1] : NULL);
    if (argc > 2 && strcmp(argv[2], "control") == 0) {
        const int spoilt = is_spoilt(&s);
        puts(spoilt ? "control: memory that is freed without waiting is overwritten while the "
                      "kernel reads it"
                    : "control: memory that was freed without waiting happened to be unchanged, "
                      "which proves nothing");
        scene_end(&s);
        return spoilt ? 0 : UNSPOILT;
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        evict_while_read(&s, &ways[i]);
    }
    scene_end(&s);
    return failures != 0;
}
