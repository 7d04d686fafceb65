/* SPDX-License-Identifier: Apache-2.0
 *
 * The modes of the program other than its cases: building one source file, returning while work is
 * running, and writing to the descriptors 1 and 2 whatever they are.
 */
#include "conformance.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_file(const char *path)
{
    enum { SIZE_MAX_BYTES = 1 << 20 };
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, SIZE_MAX_BYTES);
    size_t size = text != NULL ? fread(text, 1, SIZE_MAX_BYTES - 1, file) : 0;
    fclose(file);
    if (size == 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void run_command(const char *command)
{
    if (command != NULL && system(command) != 0) {
        fprintf(stderr, "opencl_conformance: '%s' failed\n", command);
    }
}

static cl_program header_of(const scene *in, const char *path)
{
    char *text = path != NULL ? read_file(path) : NULL;
    cl_program header = text != NULL ? program_of(in->context, text, "H") : NULL;
    free(text);
    return header;
}

/* The name under which a header is embedded. */
static const char *header_name_of(const source_run *wanted)
{
    const char *slash = wanted->header != NULL ? strrchr(wanted->header, '/') : NULL;
    return wanted->header_name != NULL ? wanted->header_name
           : slash != NULL             ? slash + 1
                                       : wanted->header;
}

static void move_to(const char *folder)
{
    if (folder != NULL && chdir(folder) != 0) {
        fprintf(stderr, "opencl_conformance: there is no folder '%s'\n", folder);
    }
}

static void begin_rounding(const source_run *wanted)
{
    fesetround(wanted->rounds_to_zero ? FE_TOWARDZERO : FE_TONEAREST);
}

static void end_rounding(void)
{
    fesetround(FE_TONEAREST);
}

/* Makes P2 by linking P1. Returns NULL if that failed. */
static cl_program compile_and_link(const scene *in, cl_program program, const source_run *wanted)
{
    cl_int status = 99;
    cl_program header = header_of(in, wanted->header);
    const char *name = header_name_of(wanted);
    begin_rounding(wanted);
    status = clCompileProgram(program, 0, NULL, wanted->options, header != NULL ? 1 : 0,
                              header != NULL ? &header : NULL, header != NULL ? &name : NULL, NULL,
                              NULL);
    end_rounding();
    say_status(status, "compile");
    say_build(program, in->device);
    if (header != NULL) {
        clReleaseProgram(header);
    }
    run_command(wanted->between);
    move_to(wanted->move_to);
    cl_program linked =
        clLinkProgram(in->context, 0, NULL, wanted->link_options, 1, &program, NULL, NULL, &status);
    say_status(status, "link");
    if (linked != NULL) {
        name_handle(linked, "P2");
    }
    return linked;
}

static cl_int run_f(const scene *in, cl_program program)
{
    int values[ITEMS] = {0};
    cl_kernel kernel = kernel_of(program, "f", "K1");
    cl_int status = run_kernel(in->context, in->queue, kernel, values);
    say_status(status, "f gives %d", values[0]);
    clReleaseKernel(kernel);
    return status;
}

typedef cl_build_status(CL_API_CALL *program_status_fn)(cl_program, cl_device_id);

/* Obtains a function by name after the build, and writes what it reports about the program. */
static void see_program(const scene *in, cl_program program, const char *how)
{
    static const char name[] = "clGetProgramStatusTEST";
    if (how == NULL) {
        return;
    }
    void *function = strcmp(how, "any") == 0
                         ? clGetExtensionFunctionAddress(name)
                         : clGetExtensionFunctionAddressForPlatform(setting.platform, name);
    check(function != NULL, "%s is there", name);
    if (function != NULL) {
        say("P1 is seen to be built: %d", ((program_status_fn)function)(program, in->device));
    }
}

static void build_first(const scene *in, const char *path)
{
    char *source = path != NULL ? read_file(path) : NULL;
    if (source != NULL) {
        cl_program program = program_of(in->context, source, "P0");
        build(program, NULL);
        say_build(program, in->device);
        clReleaseProgram(program);
    }
    free(source);
}

int run_source_file(const source_run *wanted)
{
    char *source = read_file(wanted->path);
    if (source == NULL) {
        fprintf(stderr, "opencl_conformance: %s: nothing to read\n", wanted->path);
        return 2;
    }
    scene in = scene_open();
    cl_int status = CL_INVALID_PROGRAM;
    build_first(&in, wanted->first);
    run_command(wanted->before);
    cl_program program = program_of(in.context, source, "P1");
    if (wanted->is_linked) {
        cl_program linked = compile_and_link(&in, program, wanted);
        if (linked != NULL) {
            status = run_f(&in, linked);
            clReleaseProgram(linked);
        }
    } else {
        begin_rounding(wanted);
        status = build(program, wanted->options);
        end_rounding();
        say_build(program, in.device);
        see_program(&in, program, wanted->see);
        status = status == CL_SUCCESS ? run_f(&in, program) : status;
    }
    clReleaseProgram(program);
    scene_close(&in);
    free(source);
    return status != CL_SUCCESS;
}

int leave_running(const char *salt)
{
    enum { PROGRAMS = 4 };
    static int values[PROGRAMS][ITEMS];
    const size_t items = ITEMS;
    scene in = scene_open();
    for (int i = 0; i < PROGRAMS; i++) {
        char source[512];
        cl_int status;
        snprintf(source, sizeof source,
                 "__kernel void spin(__global int *out) { uint x = get_global_id(0) + %d;\n"
                 "for (int i = 0; i < 50000000; i++) x = x * 1664525u + 1013904223u;\n"
                 "out[get_global_id(0)] = x == 0u ? -1 : 1; } /* %s */\n",
                 i, salt);
        const char *text = source;
        cl_program program = clCreateProgramWithSource(in.context, 1, &text, NULL, &status);
        status = clBuildProgram(program, 0, NULL, NULL, NULL, NULL);
        if (status != CL_SUCCESS) {
            return 1;
        }
        cl_kernel kernel = clCreateKernel(program, "spin", &status);
        cl_mem buffer = clCreateBuffer(in.context, CL_MEM_READ_WRITE, sizeof values[i], NULL, NULL);
        clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
        clEnqueueNDRangeKernel(in.queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
        clEnqueueReadBuffer(in.queue, buffer, CL_FALSE, 0, sizeof values[i], values[i], 0, NULL,
                            NULL);
        clFlush(in.queue);
    }
    say("left running");
    return 0;
}

static void *keep_writing(void *user)
{
    static const char line[] = "whatever the descriptor is\n";
    (void)user;
    for (;;) {
        for (int descriptor = 1; descriptor <= 2; descriptor++) {
            ssize_t written = write(descriptor, line, sizeof line - 1);
            (void)written;
        }
        usleep(50);
    }
    return NULL;
}

void write_blindly(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, keep_writing, NULL);
    pthread_detach(thread);
}
