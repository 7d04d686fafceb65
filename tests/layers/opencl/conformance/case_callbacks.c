/* SPDX-License-Identifier: Apache-2.0
 *
 * A callback of a build that builds again, in this thread or a different one, and waits for other
 * builds. The cache must still store only the result of the first build.
 */
#include "conformance.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 20 };

static const char based[] =
    "__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + get_global_id(0); }\n";

/* A build that a callback starts, in its thread or in a different one. */
typedef struct second_build {
    cl_program program; /* the program to build */
    const char *options;
    cl_int status;
    sem_t wanted;
} second_build;

static void build_second(second_build *second)
{
    second->status = clBuildProgram(second->program, 0, NULL, second->options, NULL, NULL);
}

static void *build_when_wanted(void *user)
{
    second_build *second = user;
    while (sem_wait(&second->wanted) != 0) {
    }
    build_second(second);
    return NULL;
}

/* Checks that a new program is built with its own options. */
static void check_new_program(const scene *in, const char *options, int first)
{
    cl_program program = program_of(in->context, based, "N");
    build(program, options);
    say_build(program, in->device);
    check_program(in, program, "f", first);
    clReleaseProgram(program);
}

static void CL_CALLBACK builds_itself(cl_program program, void *user)
{
    second_build *second = user;
    (void)program;
    build_second(second);
}

/* Returns only once the other thread has built. */
static void CL_CALLBACK waits_for_thread(cl_program program, void *user)
{
    pthread_t thread;
    second_build *second = user;
    (void)program;
    pthread_create(&thread, NULL, build_when_wanted, second);
    sem_post(&second->wanted);
    pthread_join(thread, NULL);
}

/* Builds with one set of options; the callback builds the same program with a different set. */
static void rebuild_while_notified(void(CL_CALLBACK *notified)(cl_program, void *))
{
    if (!runtime_is_intel()) {
        say("skipped: this runtime may not allow it");
        return;
    }
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, based, i == 0 ? "P1" : "P2");
        second_build second = {.program = program, .options = "-DBASE=51", .status = 99};
        sem_init(&second.wanted, 0, 0);
        cl_int status = clBuildProgram(program, 1, &in.device, "-DBASE=50", notified, &second);
        say_status(status, "build");
        say_status(second.status, "build again while notified");
        say_build(program, in.device);
        check_program(&in, program, "f", 51);
        check_new_program(&in, "-DBASE=50", 50);
        check_new_program(&in, "-DBASE=51", 51);
        sem_destroy(&second.wanted);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void rebuild_in_callback(void)
{
    rebuild_while_notified(builds_itself);
}

static void rebuild_by_awaited_thread(void)
{
    rebuild_while_notified(waits_for_thread);
}

static void CL_CALLBACK signals(cl_program program, void *user)
{
    second_build *second = user;
    (void)program;
    sem_post(&second->wanted);
}

/* The thread's build may overlap the end of the first one or not, so its status varies. */
static void rebuild_by_signalled_thread(void)
{
    if (!runtime_is_intel()) {
        say("skipped: this runtime may not allow it");
        return;
    }
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        cl_program program = program_of(in.context, based, i == 0 ? "P1" : "P2");
        second_build second = {.program = program, .options = "-DBASE=53"};
        sem_init(&second.wanted, 0, 0);
        pthread_create(&thread, NULL, build_when_wanted, &second);
        say_status(clBuildProgram(program, 1, &in.device, "-DBASE=52", signals, &second), "build");
        pthread_join(thread, NULL);
        check_new_program(&in, "-DBASE=52", 52);
        check_new_program(&in, "-DBASE=53", 53);
        sem_destroy(&second.wanted);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void wait_for_other_program(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, based, "P1");
    cl_program other = program_of(in.context, based, "P2");
    second_build second = {.program = other, .options = "-DBASE=54", .status = 99};
    sem_init(&second.wanted, 0, 0);
    alarm(PATIENCE_SECONDS);
    cl_int status = clBuildProgram(program, 0, NULL, second.options, waits_for_thread, &second);
    alarm(0);
    say_status(status, "build");
    say_status(second.status, "build of the same by a thread that the notification waits for");
    say_build(program, in.device);
    say_build(other, in.device);
    check_program(&in, program, "f", 54);
    check_program(&in, other, "f", 54);
    sem_destroy(&second.wanted);
    clReleaseProgram(other);
    clReleaseProgram(program);
    scene_close(&in);
}

const conformance_case callback_cases[] = {
    {"callbacks.rebuild", rebuild_in_callback, 0},
    {"callbacks.rebuild-by-awaited-thread", rebuild_by_awaited_thread, 0},
    {"callbacks.rebuild-by-signalled-thread", rebuild_by_signalled_thread, 0},
    {"callbacks.wait-for-other-program", wait_for_other_program, 1},
    {NULL, NULL, 0},
};
