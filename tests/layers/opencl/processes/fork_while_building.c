/* SPDX-License-Identifier: Apache-2.0
 *
 * fork_while_building SOURCE FILE: builds a source in one thread and, when it reads a line from
 * standard input, forks in a different thread. The child creates, queries and releases a program,
 * and runs as long as the file exists. Parent and child print their progress, and end by exit.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cl_device_id device;
static cl_context context;

static void require(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "fork_while_building: %s: %d\n", what, status);
        exit(1);
    }
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static cl_program make_program(const char *source)
{
    cl_int status;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    require(status, "clCreateProgramWithSource");
    return program;
}

static void *build(void *source)
{
    cl_program program = make_program(source);
    require(clBuildProgram(program, 0, NULL, NULL, NULL, NULL), "clBuildProgram");
    require(clReleaseProgram(program), "clReleaseProgram");
    return NULL;
}

static int live_as_child(const char *source, const char *path)
{
    cl_program program = make_program(source);
    char asked[65536];
    require(clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof asked, asked, NULL),
            "clGetProgramInfo");
    require(clReleaseProgram(program), "clReleaseProgram");
    say(strcmp(asked, source) == 0 ? "child went on" : "child got a different source");
    while (access(path, F_OK) == 0) {
        usleep(2000);
    }
    say("child ends");
    return 0;
}

int main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_int status;
    pthread_t builder;
    if (argc != 3) {
        return 2;
    }
    require(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    require(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    require(status, "clCreateContext");
    if (pthread_create(&builder, NULL, build, argv[1]) != 0) {
        return 2;
    }
    while (getchar() != '\n') {
    }
    const pid_t child = fork();
    if (child == 0) {
        return live_as_child(argv[1], argv[2]);
    }
    pthread_join(builder, NULL);
    say(child > 0 ? "parent ends" : "no child");
    return 0;
}
