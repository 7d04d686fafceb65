/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcuda for tests without a GPU: streams, events, stream-ordered memory, and the kernels of the
 * tested programs, which are found by name.
 *
 * It behaves as badly as a device is allowed to. Computations and copies are done as late as
 * possible: when the host waits for them. Memory is freed as early as possible, overwritten, and
 * given to the next caller. New memory is not zeroed. A call outside its context ends the process,
 * and so does a kernel whose argument is memory of a different context, or no memory at all.
 *
 * STAND_IN_DEVICES: the number of devices (2).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define EXPORTED __attribute__((visibility("default")))
#define FUNCTION(name, parameters) EXPORTED int name parameters;
CUDA_FUNCTIONS(FUNCTION)
/* Functions that only Kiln's own ops call. */
EXPORTED int cuCtxGetDevice(int *device);
EXPORTED int cuModuleLoadData(void **module, const void *image);
EXPORTED int cuModuleUnload(void *module);
EXPORTED int cuModuleGetFunction(void **function, void *module, const char *name);

enum { UNWRITTEN = 0x5C, FREED = 0xDD, PATIENCE = 100000, ARGUMENTS = 8, DEPTH = 16 };
enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards everything below except the stacks */

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "stand-in for libcuda: %s\n", what);
        abort();
    }
}

/* ---- contexts: a stack in each thread ---- */

struct cuda_context_object {
    int device;
    int streams;
};

struct cuda_pool_object {
    unsigned long long used;
};

static struct cuda_pool_object pools[16];

static _Thread_local struct {
    cuda_context stack[DEPTH];
    int depth;
} current;

static cuda_context now_current(void)
{
    require(current.depth > 0, "no context is current");
    return current.stack[current.depth - 1];
}

/* ---- memory ---- */

typedef struct block {
    cuda_context owner;
    char *bytes;
    size_t size;
    int is_free;
    struct block *next;
} block;

static block *blocks;

/* Returns the block in use that begins at an address. */
static block *block_at(cuda_address address)
{
    block *found = blocks;
    while (found && ((cuda_address)(size_t)found->bytes != address || found->is_free)) {
        found = found->next;
    }
    require(found != NULL, "no memory at that address");
    return found;
}

static block *take_block(size_t size)
{
    block *found = blocks;
    while (found && (!found->is_free || found->size != size)) {
        found = found->next;
    }
    if (!found) {
        found = calloc(1, sizeof *found);
        found->bytes = malloc(size);
        found->size = size;
        found->next = blocks;
        blocks = found;
    }
    found->is_free = 0;
    memset(found->bytes, UNWRITTEN, size);
    return found;
}

/* ---- streams ---- */

typedef struct work {
    /* Executes the work. Returns 0 if that is not possible yet. */
    int (*run)(struct work *self);
    int is_eager; /* done as early as possible */
    cuda_context context;
    cuda_stream stream; /* the stream whose event this work waits for */
    unsigned long long number;
    char *to;
    void *from;
    size_t size;
    unsigned value;
    unsigned long long arguments[ARGUMENTS];
    int phase;
    struct work *next;
} work;

/* A destroyed stream is kept, because events and the work of other streams may refer to it. */
struct cuda_stream_object {
    cuda_context context;
    work *first, **last;
    unsigned long long enqueued, done;
    cuda_stream next;
};

struct cuda_event_object {
    cuda_context context;
    cuda_stream stream; /* NULL: not recorded */
    unsigned long long number;
};

static cuda_stream streams;

static void advance(cuda_stream stream)
{
    work *ending = stream->first;
    stream->first = ending->next;
    if (!stream->first) {
        stream->last = &stream->first;
    }
    stream->done++;
    free(ending->from);
    free(ending);
}

/* Runs a stream's work up to a number, and the work on which that work depends. Returns 1 if it was
 * done.
 */
static int drive(cuda_stream stream, unsigned long long number)
{
    while (stream->done < number) {
        work *next = stream->first;
        if (next->stream && !drive(next->stream, next->number)) {
            return 0;
        }
        if (next->run && !next->run(next)) {
            return 0;
        }
        advance(stream);
    }
    return 1;
}

/* Does all work that must be done as early as possible, such as freeing memory. */
static void be_eager(void)
{
    for (cuda_stream stream = streams; stream; stream = stream->next) {
        while (stream->first && stream->first->is_eager &&
               (!stream->first->stream || stream->first->stream->done >= stream->first->number)) {
            if (stream->first->run) {
                stream->first->run(stream->first);
            }
            advance(stream);
        }
    }
}

static work *enqueue(cuda_stream stream, int (*run)(work *self), int is_eager)
{
    require(stream->context == now_current(), "a stream outside its context");
    work *made = calloc(1, sizeof *made);
    made->run = run;
    made->is_eager = is_eager;
    made->context = stream->context;
    *stream->last = made;
    stream->last = &made->next;
    stream->enqueued++;
    return made;
}

static int finish(void)
{
    be_eager();
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static int is_done(cuda_stream stream, unsigned long long number)
{
    pthread_mutex_lock(&lock);
    const int done = drive(stream, number);
    finish();
    return done;
}

static int wait_until_done(cuda_stream stream, unsigned long long number)
{
    for (int i = 0; !is_done(stream, number); i++) {
        require(i < PATIENCE, "a kernel that doesn't end");
        usleep(100);
    }
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

/* Returns the memory at the address that is a kernel's argument. */
static void *given(const work *self, int argument)
{
    const block *found = block_at(self->arguments[argument]);
    require(found->owner == self->context, "another context's memory");
    return found->bytes;
}

static unsigned number_given(const work *self, int argument)
{
    return (unsigned)self->arguments[argument];
}

static int run_reorder(work *self)
{
    const float *plain = given(self, 0);
    float *ordered = given(self, 1);
    const unsigned rows = number_given(self, 2), columns = number_given(self, 3);
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned column = 0; column < columns; column++) {
            ordered[(row / 8 * columns + column) * 8 + row % 8] = plain[row * columns + column];
        }
    }
    return 1;
}

static int run_multiply(work *self)
{
    const float *ordered = given(self, 0), *vector = given(self, 1);
    float *result = given(self, 2);
    const unsigned rows = number_given(self, 3), columns = number_given(self, 4);
    for (unsigned row = 0; row < rows; row++) {
        result[row] = 0;
        for (unsigned column = 0; column < columns; column++) {
            result[row] += ordered[(row / 8 * columns + column) * 8 + row % 8] * vector[column];
        }
    }
    return 1;
}

/* The kernel of that name in gpu/eviction.c. */
static int run_read_twice(work *self)
{
    const float *values = given(self, 0);
    volatile int *flags = (volatile int *)(size_t)self->arguments[2];
    double *sums = (double *)(size_t)self->arguments[3], sum = 0;
    if (self->phase == 1 && !flags[1]) {
        return 0;
    }
    for (unsigned i = 0; i < number_given(self, 1); i++) {
        sum += (double)values[i];
    }
    sums[self->phase] = sum;
    flags[0] = 1;
    return ++self->phase == 2;
}

static int run_nothing(work *self)
{
    (void)self;
    return 1;
}

typedef struct kernel {
    const char *name;
    int (*run)(work *self);
    int arguments;
} kernel;

static const kernel kernels[] = {
    {"reorder", run_reorder, 4},
    {"multiply", run_multiply, 5},
    {"read_twice", run_read_twice, 4},
    {"nothing", run_nothing, 1},
};

/* The sizes of each kernel's arguments. */
static const size_t sizes[][ARGUMENTS] = {{8, 8, 4, 4}, {8, 8, 8, 4, 4}, {8, 4, 8, 8}, {8}};

int cuModuleLoadData(void **module, const void *image)
{
    require(image != NULL && now_current() != NULL, "no image");
    *module = pools;
    return CUDA_SUCCESS;
}

int cuModuleUnload(void *module)
{
    return module == pools ? CUDA_SUCCESS : CUDA_NOT_FOUND;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *function = (void *)(size_t)(i + 1); /* NOLINT */
            return CUDA_SUCCESS;
        }
    }
    return CUDA_NOT_FOUND;
}

int cuLaunchKernel(void *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                   unsigned threads_x, unsigned threads_y, unsigned threads_z,
                   unsigned shared_bytes, cuda_stream stream, void **arguments, void **more)
{
    const size_t number = (size_t)function - 1;
    require(blocks_x * blocks_y * blocks_z * threads_x * threads_y * threads_z > 0 &&
                shared_bytes == 0 && !more,
            "an odd launch");
    pthread_mutex_lock(&lock);
    work *made = enqueue(stream, kernels[number].run, 0);
    for (int i = 0; i < kernels[number].arguments; i++) {
        memcpy(&made->arguments[i], arguments[i], sizes[number][i]);
    }
    return finish();
}

/* ---- devices and contexts ---- */

int cuInit(unsigned flags)
{
    return (int)flags;
}

int cuDeviceGetCount(int *count)
{
    const char *said = getenv("STAND_IN_DEVICES");
    *count = said ? atoi(said) : 2;
    return CUDA_SUCCESS;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return CUDA_SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == CAPABILITY_MAJOR ? 9 : attribute == CAPABILITY_MINOR ? 0 : 1;
    return CUDA_SUCCESS;
}

int cuDeviceGetDefaultMemPool(cuda_pool *pool, int device)
{
    *pool = &pools[device];
    return CUDA_SUCCESS;
}

int cuMemPoolGetAttribute(cuda_pool pool, int attribute, void *value)
{
    require(attribute == CUDA_POOL_USED, "an unknown attribute of pools");
    pthread_mutex_lock(&lock);
    memcpy(value, &pool->used, sizeof pool->used);
    return finish();
}

int cuMemPoolSetAttribute(cuda_pool pool, int attribute, void *value)
{
    (void)pool;
    (void)value;
    require(attribute == CUDA_POOL_KEEPS, "an unknown attribute of pools");
    return CUDA_SUCCESS;
}

int cuCtxCreate_v2(cuda_context *context, unsigned flags, int device)
{
    (void)flags;
    cuda_context made = calloc(1, sizeof *made);
    made->device = device;
    *context = made;
    return cuCtxPushCurrent_v2(made);
}

int cuCtxDestroy_v2(cuda_context context)
{
    pthread_mutex_lock(&lock);
    require(context->streams == 0, "a context with streams was destroyed");
    for (const block *each = blocks; each; each = each->next) {
        require(each->is_free || each->owner != context, "a context with memory was destroyed");
    }
    context->device = -1; /* the context is not freed, so that its address is not reused */
    return finish();
}

int cuCtxPushCurrent_v2(cuda_context context)
{
    require(current.depth < DEPTH && context->device >= 0, "a context can't be made current");
    current.stack[current.depth++] = context;
    return CUDA_SUCCESS;
}

int cuCtxPopCurrent_v2(cuda_context *context)
{
    *context = now_current();
    current.depth--;
    return CUDA_SUCCESS;
}

int cuCtxGetDevice(int *device)
{
    *device = now_current()->device;
    return CUDA_SUCCESS;
}

/* ---- streams and events ---- */

int cuStreamCreate(cuda_stream *stream, unsigned flags)
{
    require(flags == CUDA_STREAM_NON_BLOCKING, "a blocking stream");
    cuda_stream made = calloc(1, sizeof *made);
    made->context = now_current();
    made->last = &made->first;
    pthread_mutex_lock(&lock);
    made->context->streams++;
    made->next = streams;
    streams = made;
    *stream = made;
    return finish();
}

int cuStreamDestroy_v2(cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    stream->context->streams--;
    return finish();
}

int cuStreamQuery(cuda_stream stream)
{
    return is_done(stream, stream->enqueued) ? CUDA_SUCCESS : CUDA_NOT_READY;
}

int cuStreamSynchronize(cuda_stream stream)
{
    return wait_until_done(stream, stream->enqueued);
}

int cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags)
{
    require(flags == 0, "unknown flags of a wait");
    pthread_mutex_lock(&lock);
    work *made = enqueue(stream, NULL, 1);
    made->stream = event->stream;
    made->number = event->number;
    return finish();
}

int cuEventCreate(cuda_event *event, unsigned flags)
{
    require(flags == CUDA_EVENT_WITHOUT_TIMING, "an event that measures time");
    *event = calloc(1, sizeof **event);
    (*event)->context = now_current();
    return CUDA_SUCCESS;
}

int cuEventDestroy_v2(cuda_event event)
{
    free(event);
    return CUDA_SUCCESS;
}

int cuEventRecord(cuda_event event, cuda_stream stream)
{
    require(event->context == stream->context, "an event of another context");
    pthread_mutex_lock(&lock);
    event->stream = stream;
    event->number = stream->enqueued;
    return finish();
}

/* Reports the present state and runs nothing, because work takes time. */
int cuEventQuery(cuda_event event)
{
    pthread_mutex_lock(&lock);
    const int done = !event->stream || event->stream->done >= event->number;
    finish();
    return done ? CUDA_SUCCESS : CUDA_NOT_READY;
}

int cuEventSynchronize(cuda_event event)
{
    return event->stream ? wait_until_done(event->stream, event->number) : CUDA_SUCCESS;
}

/* ---- stream-ordered memory ---- */

static int run_free(work *self)
{
    block *freed = block_at(self->arguments[0]);
    memset(freed->bytes, FREED, freed->size);
    freed->is_free = 1;
    pools[freed->owner->device].used -= freed->size;
    return 1;
}

static int run_copy(work *self)
{
    memcpy(self->to, self->from ? self->from : given(self, 0), self->size);
    return 1;
}

static int run_fill(work *self)
{
    for (size_t i = 0; i < self->size; i++) {
        memcpy(self->to + i * sizeof self->value, &self->value, sizeof self->value);
    }
    return 1;
}

int cuMemAllocAsync(cuda_address *address, size_t size, cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    require(stream->context == now_current(), "a stream outside its context");
    block *made = take_block(size);
    made->owner = stream->context;
    pools[made->owner->device].used += size;
    *address = (cuda_address)(size_t)made->bytes;
    return finish();
}

int cuMemFreeAsync(cuda_address address, cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    enqueue(stream, run_free, 1)->arguments[0] = address;
    return finish();
}

/* Reads the source at once, as the driver does if its memory is not pinned. */
int cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t size, cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    work *made = enqueue(stream, run_copy, 0);
    require(block_at(to)->size >= size, "a copy beyond the end of a block");
    made->to = block_at(to)->bytes;
    made->from = malloc(size);
    made->size = size;
    memcpy(made->from, from, size);
    return finish();
}

int cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t size, cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    work *made = enqueue(stream, run_copy, 0);
    made->to = to;
    made->arguments[0] = from;
    made->size = size;
    return finish();
}

int cuMemsetD32Async(cuda_address to, unsigned value, size_t count, cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    work *made = enqueue(stream, run_fill, 0);
    made->to = block_at(to)->bytes;
    made->size = count;
    made->value = value;
    return finish();
}

int cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    require(flags == (CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), "memory that is not mapped");
    *memory = malloc(size);
    return CUDA_SUCCESS;
}

int cuMemHostGetDevicePointer_v2(cuda_address *address, void *memory, unsigned flags)
{
    *address = (cuda_address)(size_t)memory;
    return (int)flags;
}

int cuMemFreeHost(void *memory)
{
    free(memory);
    return CUDA_SUCCESS;
}
