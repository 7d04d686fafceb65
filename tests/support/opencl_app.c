/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_app SOURCE-FILE MODE: an OpenCL program. It builds the file for the first device, runs
 * its kernel f on 16 items, prints the first result, and then behaves as MODE says:
 *
 *     return   returns from main
 *     ask      asks for the program's binaries and returns
 *     rounded  as ask, while the thread rounds toward zero
 *     rebuild  builds the program again with -DFOO=9, asks for its binaries and returns
 *     quick    ends without exit handlers when its standard input ends
 *     kill     kills itself when its standard input ends
 *     close    closes all descriptors from 3 on and returns
 *     wait     waits for any child and counts SIGCHLD, until its standard input ends
 *     block    as wait, with SIGCHLD blocked
 *     ignore   as wait, with SIGCHLD ignored
 *     reaper   as wait, and adopts orphans
 *     fork     returns from main in a child too
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <errno.h>
#include <fenv.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEMS 16

static volatile sig_atomic_t child_signals;

static void count_signal(int number)
{
    (void)number;
    child_signals++;
}

static void must(int succeeded, const char *what)
{
    if (!succeeded) {
        fprintf(stderr, "capture_app: %s\n", what);
        exit(2);
    }
}

static char *read_file(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    must(file != NULL, path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int asks_for_binaries(const char *mode)
{
    return strcmp(mode, "ask") == 0 || strcmp(mode, "rounded") == 0 || strcmp(mode, "rebuild") == 0;
}

static void ask_for_binaries(cl_program program)
{
    size_t size = 0;
    must(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) == CL_SUCCESS,
         "no size");
    unsigned char *binary = malloc(size);
    must(binary && size > 0 &&
             clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) ==
                 CL_SUCCESS,
         "no binary");
    free(binary);
}

static cl_int run_kernel(const char *source, const char *mode)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int result[ITEMS] = {0};
    const size_t items = ITEMS;
    must(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS, "no platform");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS, "no device");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    must(clBuildProgram(program, 1, &device, NULL, NULL, NULL) == CL_SUCCESS, "no build");
    cl_kernel kernel = clCreateKernel(program, "f", NULL);
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof result, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL) == CL_SUCCESS,
         "no launch");
    must(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL) ==
             CL_SUCCESS,
         "no result");
    clReleaseMemObject(memory);
    clReleaseKernel(kernel);
    if (strcmp(mode, "rebuild") == 0) {
        must(clBuildProgram(program, 1, &device, "-DFOO=9", NULL, NULL) == CL_SUCCESS, "no build");
    }
    if (asks_for_binaries(mode)) {
        fesetround(strcmp(mode, "rounded") == 0 ? FE_TOWARDZERO : FE_TONEAREST);
        ask_for_binaries(program);
        fesetround(FE_TONEAREST);
    }
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return result[0];
}

static int is_child_signal_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGCHLD);
}

static void wait_for_children(void)
{
    int children = 0;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&input, 1, 50) <= 0) {
        const pid_t child = waitpid(-1, NULL, WNOHANG);
        children += child >= 0 || errno != ECHILD;
    }
    printf("children %d, signals %d, pending %d\n", children, (int)child_signals,
           is_child_signal_pending());
}

static void set_habits(const char *mode)
{
    struct sigaction action = {.sa_handler = count_signal};
    if (strcmp(mode, "ignore") == 0) {
        action.sa_handler = SIG_IGN;
    }
    sigaction(SIGCHLD, &action, NULL);
    if (strcmp(mode, "block") == 0) {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGCHLD);
        sigprocmask(SIG_BLOCK, &signals, NULL);
    }
    if (strcmp(mode, "reaper") == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

static int live_on(const char *mode)
{
    if (strcmp(mode, "quick") == 0 || strcmp(mode, "kill") == 0) {
        while (getchar() != EOF) {
        }
        strcmp(mode, "kill") == 0 ? raise(SIGKILL) : _exit(0);
    } else if (strcmp(mode, "close") == 0) {
        for (int file = 3; file < 1024; file++) {
            close(file);
        }
    } else if (strcmp(mode, "fork") == 0) {
        if (fork() > 0) {
            wait(NULL);
        }
    } else if (strcmp(mode, "return") != 0 && !asks_for_binaries(mode)) {
        wait_for_children();
    }
    return 0;
}

int main(int argc, char **argv)
{
    must(argc == 3, "usage: capture_app SOURCE-FILE MODE");
    printf("%d\n", run_kernel(read_file(argv[1]), argv[2]));
    fflush(stdout);
    set_habits(argv[2]); /* only now, because the runtime starts child processes when it compiles */
    return live_on(argv[2]);
}
