/* SPDX-License-Identifier: Apache-2.0
 *
 * clBuildProgram: status, options, log, failures, callbacks.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char good[] =
    "#ifndef BASE\n"
    "#define BASE 5\n"
    "#endif\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + get_global_id(0); }\n";

static const char with_warning[] =
    "#warning mind the gap\n"
    "__kernel void f(__global int *out) { int unused; out[get_global_id(0)] = 3 + "
    "get_global_id(0); }\n";

static const char bad[] = "__kernel void f(__global int *out) { out[0] = no_such_name; }\n";

static void status_before_and_after(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    say("before");
    probe_build(program, in.device);
    build(program, NULL);
    say("after");
    probe_build(program, in.device);
    check_program(&in, program, "f", 5);
    clReleaseProgram(program);
    scene_close(&in);
}

static void options(void)
{
    static const struct {
        const char *options;
        int first;
    } tries[] = {
        {NULL, 5},
        {"", 5},
        {" ", 5},
        {"-DBASE=6", 6},
        {"-D BASE=7", 7},
        {"  -DBASE=8   -DUNUSED  ", 8},
        {"-DBASE=9 -cl-mad-enable -cl-fast-relaxed-math -w", 9},
        {"-cl-std=CL1.2 -DBASE=10", 10},
        {"-DOTHER=\"a b\" -DBASE=11", 11},
        {"-cl-opt-disable -DBASE=12", 12},
        {"-cl-denorms-are-zero -DBASE=13", 13},
        {"-DBASE=14 -DBASE=15 -UOTHER", 15},
    };
    scene in = scene_open();
    for (size_t i = 0; i < COUNT(tries); i++) {
        char name[8];
        snprintf(name, sizeof name, "P%zu", i + 1);
        cl_program program = program_of(in.context, good, name);
        if (build(program, tries[i].options) == CL_SUCCESS) {
            probe_build(program, in.device);
            check_program(&in, program, "f", tries[i].first);
        }
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void log_with_warning(void)
{
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, with_warning, i == 0 ? "P1" : "P2");
        build(program, "-DWARNED");
        probe_build(program, in.device);
        check_program(&in, program, "f", 3);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void failure(void)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_SIZES),
    };
    scene in = scene_open();
    cl_program program = program_of(in.context, bad, "P1");
    subject of = {.object = program};
    build(program, "-DONE");
    probe_build(program, in.device);
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    kernel_of(program, "f", "K1");
    cl_kernel kernels[2];
    cl_uint count = 77;
    say_status(clCreateKernelsInProgram(program, 2, kernels, &count), "all kernels");
    say("count %u, references %u", count, program_references(program));
    build(program, "-DONE");
    say_build(program, in.device);
    clReleaseProgram(program);
    scene_close(&in);
}

/* An option decides whether the source compiles. The effect of a rebuild after a failure depends on
 * the runtime, and must be the same under a layer. */
static void good_after_failure(void)
{
    static const char either[] =
        "#ifdef BAD\n#error as asked\n#endif\n"
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 4 + get_global_id(0); }\n";
    scene in = scene_open();
    cl_program program = program_of(in.context, either, "P1");
    build(program, "-DBAD");
    say_build(program, in.device);
    if (build(program, "-DFINE") == CL_SUCCESS) {
        check_program(&in, program, "f", 4);
    }
    say_build(program, in.device);
    clReleaseProgram(program);
    cl_program other = program_of(in.context, either, "P2");
    build(other, "-DFINE");
    check_program(&in, other, "f", 4);
    build(other, "-DBAD");
    say_build(other, in.device);
    kernel_of(other, "f", "K1");
    clReleaseProgram(other);
    scene_close(&in);
}

static void unknown_options(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    build(program, "-no-such-option");
    say_build(program, in.device);
    clReleaseProgram(program);
    cl_program other = program_of(in.context, good, "P2");
    build(other, "-cl-std=CL9.9");
    say_build(other, in.device);
    clReleaseProgram(other);
    scene_close(&in);
}

/* The arguments and the thread of a notification. */
typedef struct notice {
    cl_program expected;
    cl_device_id device;
    pthread_t caller;
    int returned; /* set once the call has returned */
    int count;
    int same_program;
    int same_thread;
    int before_return;
    cl_int build_status;
} notice;

static void CL_CALLBACK notified(cl_program program, void *user)
{
    notice *note = user;
    note->same_program = program == note->expected;
    note->same_thread = pthread_equal(pthread_self(), note->caller);
    note->before_return = !__atomic_load_n(&note->returned, __ATOMIC_ACQUIRE);
    note->build_status = 99;
    if (program != NULL) {
        clGetProgramBuildInfo(program, note->device, CL_PROGRAM_BUILD_STATUS,
                              sizeof note->build_status, &note->build_status, NULL);
    }
    __atomic_fetch_add(&note->count, 1, __ATOMIC_RELEASE);
}

/* Writes how a notification was made. A call may return before its notification, so this function
 * waits at most 10 s for the end of a build in the background, and then briefly for a second
 * notification. */
static void say_notice(notice *note, cl_int status, const char *what)
{
    __atomic_store_n(&note->returned, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 1000 && status == CL_SUCCESS; i++) {
        if (__atomic_load_n(&note->count, __ATOMIC_ACQUIRE) > 0) {
            break;
        }
        usleep(10000);
    }
    usleep(20000);
    say_status(status, "%s", what);
    say("notified %d times; program %s, thread %s, %s return, build status %d", note->count,
        note->same_program ? "right" : "another", note->same_thread ? "the caller's" : "another",
        note->before_return ? "before" : "after", note->build_status);
}

static notice note_for(const scene *in, cl_program program)
{
    return (notice){.expected = program, .device = in->device, .caller = pthread_self()};
}

static void callback(void)
{
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, good, i == 0 ? "P1" : "P2");
        notice note = note_for(&in, program);
        cl_int status = clBuildProgram(program, 1, &in.device, "-DBASE=30", notified, &note);
        say_notice(&note, status, "build with a notification");
        say_build(program, in.device);
        check_program(&in, program, "f", 30);
        say("references: %u", program_references(program));
        clReleaseProgram(program);
    }
    scene_close(&in);
}

/* Uses the program inside the callback of its build. The program is complete then. */
static void CL_CALLBACK uses_program(cl_program program, void *user)
{
    cl_uint count = 99;
    cl_int status;
    cl_kernel *ret_kernel = user;
    say_status(clRetainProgram(program), "retained while notified");
    say("references: %u", program_references(program));
    *ret_kernel = clCreateKernel(program, "f", &status);
    say_status(status, "kernel made while notified");
    status = clCreateKernelsInProgram(program, 0, NULL, &count);
    say_status(status, "kernels: %u", count);
}

static void callback_that_uses_the_program(void)
{
    scene in = scene_open();
    cl_kernel kernel = NULL;
    cl_program program = program_of(in.context, good, "P1");
    say_status(clBuildProgram(program, 0, NULL, "-DBASE=34", uses_program, &kernel), "build");
    say("references: %u", program_references(program));
    clReleaseProgram(program);
    if (kernel != NULL) {
        check_kernel(&in, kernel, "the kernel", 34);
        clReleaseKernel(kernel);
    }
    clReleaseProgram(program);
    scene_close(&in);
}

static void callback_of_rebuild(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    build(program, "-DBASE=31");
    notice note = note_for(&in, program);
    cl_int status = clBuildProgram(program, 1, &in.device, "-DBASE=31", notified, &note);
    say_notice(&note, status, "build again with the same options");
    check_program(&in, program, "f", 31);
    note = note_for(&in, program);
    status = clBuildProgram(program, 0, NULL, "-DBASE=32", notified, &note);
    say_notice(&note, status, "build again with other options");
    check_program(&in, program, "f", 32);
    cl_kernel kernel = kernel_of(program, "f", "K1");
    note = note_for(&in, program);
    status = clBuildProgram(program, 0, NULL, "-DBASE=33", notified, &note);
    say_notice(&note, status, "build again while a kernel lives");
    check_kernel(&in, kernel, "K1", 32);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    scene_close(&in);
}

static void callback_of_failure(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, bad, "P1");
    notice note = note_for(&in, program);
    cl_int status = clBuildProgram(program, 0, NULL, NULL, notified, &note);
    say_notice(&note, status, "build of a bad source");
    say_build(program, in.device);
    clReleaseProgram(program);
    scene_close(&in);
}

static void callback_of_misuse(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    notice note = note_for(&in, program);
    cl_int status = clBuildProgram(program, 0, &in.device, NULL, notified, &note);
    say_notice(&note, status, "no devices, but a list");
    note = note_for(&in, program);
    status = clBuildProgram(program, 1, NULL, NULL, notified, &note);
    say_notice(&note, status, "a device, but no list");
    note = note_for(&in, NULL);
    status = clBuildProgram(NULL, 0, NULL, NULL, notified, &note);
    say_notice(&note, status, "no program");
    clReleaseProgram(program);
    scene_close(&in);
}

const conformance_case build_cases[] = {
    {"build.status", status_before_and_after, 1},
    {"build.options", options, 0},
    {"build.log", log_with_warning, 1},
    {"build.failure", failure, 0},
    {"build.good-after-failure", good_after_failure, 0},
    {"build.unknown-options", unknown_options, 0},
    {"build.callback", callback, 1},
    {"build.callback-uses-program", callback_that_uses_the_program, 1},
    {"build.callback-of-rebuild", callback_of_rebuild, 0},
    {"build.callback-of-failure", callback_of_failure, 0},
    {"build.callback-of-misuse", callback_of_misuse, 0},
    {NULL, NULL, 0},
};
