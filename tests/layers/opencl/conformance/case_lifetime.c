/* SPDX-License-Identifier: Apache-2.0
 *
 * The lifetimes of program-scope variables, of contexts and their destructor callbacks, and of work
 * that runs after its objects were released.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char counting[] =
    "global int counter = 5;\n"
    "__kernel void count(__global int *out)\n"
    "{ if (get_global_id(0) == 0) { counter += 1; out[0] = counter; } }\n";

static const char simple[] =
    "__kernel void f(__global int *out) { out[get_global_id(0)] = 7 + get_global_id(0); }\n";

static void say_count(const scene *in, cl_program program)
{
    cl_int status;
    int values[ITEMS] = {0};
    cl_kernel kernel = clCreateKernel(program, "count", &status);
    if (status == CL_SUCCESS) {
        status = run_kernel(in->context, in->queue, kernel, values);
        clReleaseKernel(kernel);
    }
    say_status(status, "counter of %s is %d", handle_name(program), values[0]);
}

/* Two equal programs have separate variables. */
static void globals_of_two(void)
{
    static const char *const options[] = {"-cl-std=CL3.0", "-cl-std=CL2.0"};
    scene in = scene_open();
    for (size_t i = 0; i < COUNT(options); i++) {
        cl_program first = program_of(in.context, counting, "P1");
        cl_program second = program_of(in.context, counting, "P2");
        if (build(first, options[i]) == CL_SUCCESS && build(second, options[i]) == CL_SUCCESS) {
            probe_build(first, in.device);
            say_count(&in, first);
            say_count(&in, second);
            say_count(&in, first);
            say_count(&in, second);
            cl_program third = program_of(in.context, counting, "P3");
            build(third, options[i]);
            say_count(&in, third);
            clReleaseProgram(third);
        }
        clReleaseProgram(first);
        clReleaseProgram(second);
    }
    scene_close(&in);
}

/* What callbacks have recorded. It must not be on a stack, because a runtime that leaks an object
 * may call back late. */
typedef struct destruction {
    pthread_mutex_t lock; /* guards all members below */
    char order[64];
    int count;
} destruction;

typedef struct destructor {
    destruction *shared;
    char letter;
} destructor;

enum { DESTRUCTIONS = 8 };

static destruction destructions[DESTRUCTIONS];
static destructor destructors[DESTRUCTIONS][2];
static size_t destructions_used;

/* Returns an unused record, with the user data of two callbacks, called A and B. */
static destruction *new_destruction(destructor **ret_pair)
{
    destruction *made = &destructions[destructions_used];
    *ret_pair = destructors[destructions_used];
    destructions_used++;
    pthread_mutex_init(&made->lock, NULL);
    for (int i = 0; i < 2; i++) {
        (*ret_pair)[i] = (destructor){made, (char)('A' + i)};
    }
    return made;
}

static void note_destruction(destructor *self)
{
    pthread_mutex_lock(&self->shared->lock);
    if (self->shared->count < (int)sizeof self->shared->order - 1) {
        self->shared->order[self->shared->count++] = self->letter;
    }
    pthread_mutex_unlock(&self->shared->lock);
}

static void CL_CALLBACK context_gone(cl_context context, void *user)
{
    (void)context;
    note_destruction(user);
}

static void CL_CALLBACK program_gone(cl_program program, void *user)
{
    (void)program;
    note_destruction(user);
}

static int destruction_count(destruction *seen)
{
    pthread_mutex_lock(&seen->lock);
    int count = seen->count;
    pthread_mutex_unlock(&seen->lock);
    return count;
}

/* Waits for callbacks: a runtime's own threads may hold the context a little longer than the work
 * takes. */
static void await_destruction(destruction *seen, int count)
{
    for (int i = 0; i < 100 && destruction_count(seen) < count; i++) {
        usleep(10000);
    }
}

static void say_destruction(destruction *seen, const char *when)
{
    pthread_mutex_lock(&seen->lock);
    say("%s: %d callbacks, in order '%s'", when, seen->count, seen->order);
    pthread_mutex_unlock(&seen->lock);
}

/* Releases programs, kernels and a context in the order of the letters: p and q are programs, k and
 * l are their kernels, c is the context. */
static void release_in_order(const char *order)
{
    destructor *pair;
    destruction *seen = new_destruction(&pair);
    scene in = scene_open();
    say("order %s", order);
    cl_int status = clSetContextDestructorCallback(in.context, context_gone, &pair[0]);
    say_status(status, "first destructor callback");
    say_status(clSetContextDestructorCallback(in.context, context_gone, &pair[1]), "second");
    cl_program programs[2] = {program_of(in.context, simple, "P1"),
                              program_of(in.context, simple, "P2")};
    build(programs[0], NULL);
    build(programs[1], NULL);
    cl_kernel kernels[2] = {kernel_of(programs[0], "f", "K1"), kernel_of(programs[1], "f", "K2")};
    check_kernel(&in, kernels[0], "K1", 7);
    clReleaseCommandQueue(in.queue);
    for (const char *one = order; *one != '\0'; one++) {
        char when[] = "after ?";
        when[sizeof when - 2] = *one;
        switch (*one) {
        case 'p':
        case 'q':
            clReleaseProgram(programs[*one - 'p']);
            break;
        case 'k':
        case 'l':
            clReleaseKernel(kernels[*one - 'k']);
            break;
        default:
            clReleaseContext(in.context);
        }
        if (one[1] == '\0') {
            await_destruction(seen, 2);
        }
        say_destruction(seen, when);
    }
}

static void context_destructor(void)
{
    static const char *const orders[] = {"klpqc", "cklpq", "pqklc", "pcqkl", "kpclq"};
    for (size_t i = 0; i < COUNT(orders); i++) {
        release_in_order(orders[i]);
    }
}

static void program_release_callback(void)
{
    destructor *pair;
    destruction *seen = new_destruction(&pair);
    scene in = scene_open();
    cl_program program = program_of(in.context, simple, "P1");
    say_status(clSetProgramReleaseCallback(program, program_gone, &pair[0]),
               "callback before build");
    build(program, NULL);
    say_status(clSetProgramReleaseCallback(program, program_gone, &pair[1]),
               "callback after build");
    say_status(clSetProgramReleaseCallback(program, NULL, NULL), "no callback");
    check_program(&in, program, "f", 7);
    say_destruction(seen, "before release");
    clReleaseProgram(program);
    say_destruction(seen, "after release");
    scene_close(&in);
}

static void kernels_after_program(void)
{
    scene in = scene_open();
    cl_kernel kernels[4];
    for (int i = 0; i < 4; i++) {
        cl_program program = program_of(in.context, simple, "P1");
        build(program, i % 2 == 0 ? NULL : "-DODD");
        char name[8];
        snprintf(name, sizeof name, "K%d", i + 1);
        kernels[i] = kernel_of(program, "f", name);
        clReleaseProgram(program);
    }
    for (int i = 0; i < 4; i++) {
        check_kernel(&in, kernels[i], handle_name(kernels[i]), 7);
        clReleaseKernel(kernels[i]);
    }
    say("context: %u", context_references(in.context));
    scene_close(&in);
}

/* Uses a program after the application has released its last reference. On some runtimes the handle
 * is invalid then. On others it is valid as long as its kernels are; there, a retain that succeeds
 * is followed by a release. */
static void program_of_kernels_alone(void)
{
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, simple, "P1");
        cl_program owner = NULL;
        cl_int status;
        const cl_int constant = 1;
        build(program, "-DALONE");
        cl_kernel kernel = kernel_of(program, "f", "K1");
        say_status(clReleaseProgram(program), "release");
        status = clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof owner, &owner, NULL);
        say_status(status, "the kernel's program is %s", handle_name(owner));
        status = clRetainProgram(program);
        say_status(status, "retain");
        if (status == CL_SUCCESS) {
            say_status(clReleaseProgram(program), "release again");
        }
        build(program, "-DALONE");
        build(program, "-DOTHER");
        say_status(clBuildProgram(program, 1, &in.device, NULL, NULL, NULL), "build for a device");
        say_status(clCompileProgram(program, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL), "compile");
        cl_program linked =
            clLinkProgram(in.context, 0, NULL, NULL, 1, &program, NULL, NULL, &status);
        say_status(status, "link"); /* some runtimes return a handle together with the error */
        if (status == CL_SUCCESS) {
            clReleaseProgram(linked);
        }
        status = clSetProgramSpecializationConstant(program, 0, sizeof constant, &constant);
        say_status(status, "set a specialization constant");
        check_kernel(&in, kernel, "K1", 7);
        clReleaseKernel(kernel);
    }
    say("context: %u", context_references(in.context));
    scene_close(&in);
}

static const char slow[] =
    "__kernel void spin(__global int *out)\n"
    "{ uint x = get_global_id(0) + 1; for (int i = 0; i < 20000000; i++) x = x * 1664525u +\n"
    "  1013904223u; out[get_global_id(0)] = x == 0u ? -1 : 100 + get_global_id(0); }\n";

static void CL_CALLBACK work_done(cl_event event, cl_int state, void *user)
{
    (void)event;
    __atomic_store_n((int *)user, state == CL_COMPLETE ? 1 : -1, __ATOMIC_RELEASE);
}

/* Releases everything while the work runs. The result must still be written, to memory of the test,
 * which can be read afterwards. */
static void released_in_flight(void)
{
    static int values[ITEMS];
    static int done;
    size_t items = ITEMS;
    scene in = scene_open();
    cl_program program = program_of(in.context, slow, "P1");
    build(program, NULL);
    cl_kernel kernel = kernel_of(program, "spin", "K1");
    cl_mem buffer = clCreateBuffer(in.context, CL_MEM_READ_WRITE, sizeof values, NULL, NULL);
    cl_event event = NULL;
    done = 0;
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    say_status(clEnqueueNDRangeKernel(in.queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
               "launch");
    say_status(
        clEnqueueReadBuffer(in.queue, buffer, CL_FALSE, 0, sizeof values, values, 0, NULL, &event),
        "read without waiting");
    say_status(clSetEventCallback(event, CL_COMPLETE, work_done, &done), "event callback");
    clFlush(in.queue);
    say_status(clReleaseKernel(kernel), "release the kernel");
    say_status(clReleaseProgram(program), "release the program");
    clReleaseMemObject(buffer);
    say_status(clReleaseCommandQueue(in.queue), "release the queue");
    say_status(clReleaseContext(in.context), "release the context");
    say_status(clWaitForEvents(1, &event), "wait");
    for (int i = 0; i < 1000 && __atomic_load_n(&done, __ATOMIC_ACQUIRE) == 0; i++) {
        usleep(10000);
    }
    say_status(clReleaseEvent(event), "release the event");
    check(done == 1, "the work is done");
    check(values[0] == 100 && values[ITEMS - 1] == 100 + ITEMS - 1, "its values");
}

const conformance_case lifetime_cases[] = {
    {"lifetime.globals-of-two", globals_of_two, 0},
    {"lifetime.context-destructor", context_destructor, 1},
    {"lifetime.program-release-callback", program_release_callback, 1},
    {"lifetime.kernels-after-program", kernels_after_program, 1},
    {"lifetime.program-held-by-kernels-only", program_of_kernels_alone, 0},
    {"lifetime.released-in-flight", released_in_flight, 1},
    {NULL, NULL, 0},
};
