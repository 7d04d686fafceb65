/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds from many threads at the same time: of equal programs and of different ones, in one
 * context and in a context for each thread. Each thread's lines are written once all threads are
 * done, in the order of the threads.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROGRAMS = 3 };

typedef struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    scene in;
    int number;
    char *lines;
} worker;

/* Returns the constant in a program: program 0 is the same in all threads, program 1 in two threads
 * each, and program 2 in one. */
static int base_of(const worker *self, int program)
{
    switch (program) {
    case 0:
        return 10;
    case 1:
        return 100 + self->number / 2;
    default:
        return 200 + self->number;
    }
}

static void work_once(const worker *self, int number)
{
    char source[160];
    int base = base_of(self, number);
    int values[ITEMS] = {0};
    cl_int log_status;
    char log[256] = "";
    snprintf(source, sizeof source,
             "__kernel void f(__global int *out) { out[get_global_id(0)] = %d + "
             "get_global_id(0); }",
             base);
    const char *text = source;
    cl_int status;
    cl_program program = clCreateProgramWithSource(self->in.context, 1, &text, NULL, &status);
    say_status(status, "create");
    say_status(clBuildProgram(program, 0, NULL, "-DTHREADS", NULL, NULL), "build");
    log_status = clGetProgramBuildInfo(program, self->in.device, CL_PROGRAM_BUILD_OPTIONS,
                                       sizeof log, log, NULL);
    say_status(log_status, "options '%s'", log);
    cl_kernel kernel = clCreateKernel(program, "f", &status);
    say_status(status, "kernel");
    cl_program owner = NULL;
    clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof owner, &owner, NULL);
    check(owner == program, "its program");
    status = run_kernel(self->in.context, self->in.queue, kernel, values);
    check(status == CL_SUCCESS && values[2] == base + 2, "gives %d, %s", values[2],
          status_name(status));
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

static void *work(void *user)
{
    worker *self = user;
    transcript_redirect();
    pthread_barrier_wait(self->start);
    for (int i = 0; i < PROGRAMS; i++) {
        work_once(self, i);
    }
    self->lines = transcript_take();
    return NULL;
}

static void run_workers(worker workers[THREADS_MAX])
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)setting.threads);
    for (int i = 0; i < setting.threads; i++) {
        workers[i].number = i;
        workers[i].start = &start;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < setting.threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    for (int i = 0; i < setting.threads; i++) {
        printf("  thread %d\n%s", i, workers[i].lines);
        free(workers[i].lines);
    }
    pthread_barrier_destroy(&start);
}

static void one_context(void)
{
    worker workers[THREADS_MAX];
    scene in = scene_open();
    for (int i = 0; i < setting.threads; i++) {
        workers[i].in = in;
        workers[i].in.queue = queue_open(in.context, in.device);
    }
    run_workers(workers);
    for (int i = 0; i < setting.threads; i++) {
        clReleaseCommandQueue(workers[i].in.queue);
    }
    scene_close(&in);
}

static void contexts_of_their_own(void)
{
    worker workers[THREADS_MAX];
    for (int i = 0; i < setting.threads; i++) {
        workers[i].in = scene_open();
    }
    run_workers(workers);
    for (int i = 0; i < setting.threads; i++) {
        scene_close(&workers[i].in);
    }
}

/* A thread that queries a program's reference count until it is stopped. */
typedef struct counter {
    pthread_t thread;
    cl_program program;
    int stopped;         /* accessed atomically */
    unsigned impossible; /* counts that are impossible for a program that the test holds */
} counter;

static void *count_references(void *user)
{
    enum { MANY = 1000 };
    counter *self = user;
    while (!__atomic_load_n(&self->stopped, __ATOMIC_RELAXED)) {
        cl_uint references = program_references(self->program);
        self->impossible += references < 1 || references > MANY;
    }
    return NULL;
}

/* Creates and releases kernels while a different thread queries the reference count. */
static void reference_counts(void)
{
    enum { KERNELS = 20000 };
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 300 + get_global_id(0); }\n";
    scene in = scene_open();
    cl_program program = program_of(in.context, source, "P1");
    build(program, NULL);
    counter asking = {.program = program};
    pthread_create(&asking.thread, NULL, count_references, &asking);
    for (int i = 0; i < KERNELS; i++) {
        cl_kernel kernel = clCreateKernel(program, "f", NULL);
        if (kernel == NULL || clReleaseKernel(kernel) != CL_SUCCESS) {
            check(0, "a kernel is made and released");
            break;
        }
    }
    __atomic_store_n(&asking.stopped, 1, __ATOMIC_RELAXED);
    pthread_join(asking.thread, NULL);
    check(asking.impossible == 0, "each count is possible");
    say("references: %u", program_references(program));
    check_program(&in, program, "f", 300);
    clReleaseProgram(program);
    scene_close(&in);
}

const conformance_case thread_cases[] = {
    {"threads.one-context", one_context, 1},
    {"threads.contexts", contexts_of_their_own, 1},
    {"threads.reference-counts", reference_counts, 1},
    {NULL, NULL, 0},
};
