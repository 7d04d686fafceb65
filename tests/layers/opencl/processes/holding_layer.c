/* SPDX-License-Identifier: Apache-2.0
 *
 * libholding_layer.so: a layer for the OpenCL ICD loader, below Kiln's, that lets tests stop builds
 * half-way. It works with files in the folder that HOLDING_LAYER_FOLDER names. A program made from
 * source has the name that its first comment starts with, as in "// horse".
 *
 *     log             a line for each step: "begin horse PID", "end horse PID STATUS", and "binary
 *                     PID" if a program is about to be made from a binary
 *     hold-horse      builds of horse stop after they have begun, until this file is removed
 *     hold-binaries   calls that make programs from binaries stop in the same way
 *     refuse-binaries programs from binaries are refused
 */
#include "support/opencl_layer.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 32, PATH_SIZE = 4096, LOOK_EVERY_US = 2000 };

const char layer_name[] = "holding";

static void path_of(const char *kind, const char *name, char ret_path[PATH_SIZE])
{
    const char *folder = getenv("HOLDING_LAYER_FOLDER");
    snprintf(ret_path, PATH_SIZE, "%s/%s%s", folder != NULL ? folder : ".", kind, name);
}

static int is_there(const char *kind, const char *name)
{
    char path[PATH_SIZE];
    path_of(kind, name, path);
    return access(path, F_OK) == 0;
}

static void hold_while_there(const char *name)
{
    while (is_there("hold-", name)) {
        usleep(LOOK_EVERY_US);
    }
}

/* Appends a line with one write, so that lines of several processes do not mix. */
static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    char path[PATH_SIZE], line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    path_of("log", "", path);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file >= 0) {
        ssize_t written = write(file, line, (size_t)length);
        (void)written;
        close(file);
    }
}

/* Returns 0 if the program is not made from source, or its source does not start with a comment. */
static int get_name(cl_program program, char ret_name[NAME_SIZE])
{
    static const char comment[] = "// ";
    char source[65536] = "";
    size_t length = 0;
    if (layer_below.clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof source - 1, source, NULL) !=
            CL_SUCCESS ||
        strncmp(source, comment, sizeof comment - 1) != 0) {
        return 0;
    }
    const char *name = source + sizeof comment - 1;
    while (length < NAME_SIZE - 1 && isalnum((unsigned char)name[length])) {
        ret_name[length] = name[length];
        length++;
    }
    ret_name[length] = '\0';
    return 1;
}

static cl_int CL_API_CALL held_build(cl_program program, cl_uint device_count,
                                     const cl_device_id *devices, const char *options,
                                     void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    char name[NAME_SIZE];
    const int is_named = get_name(program, name);
    if (is_named) {
        note("begin %s %ld\n", name, (long)getpid());
        hold_while_there(name);
    }
    cl_int status =
        layer_below.clBuildProgram(program, device_count, devices, options, notify, user);
    if (is_named) {
        note("end %s %ld %d\n", name, (long)getpid(), status);
    }
    return status;
}

static cl_program CL_API_CALL held_binary(cl_context context, cl_uint device_count,
                                          const cl_device_id *devices, const size_t *sizes,
                                          const unsigned char **binaries, cl_int *ret_states,
                                          cl_int *ret_status)
{
    note("binary %ld\n", (long)getpid());
    hold_while_there("binaries");
    if (!is_there("refuse-", "binaries")) {
        return layer_below.clCreateProgramWithBinary(context, device_count, devices, sizes,
                                                     binaries, ret_states, ret_status);
    }
    for (cl_uint i = 0; ret_states != NULL && i < device_count; i++) {
        ret_states[i] = CL_INVALID_BINARY;
    }
    if (ret_status != NULL) {
        *ret_status = CL_INVALID_BINARY;
    }
    return NULL;
}

void layer_interpose(cl_icd_dispatch *own)
{
    INTERPOSE(own, clBuildProgram, held_build);
    INTERPOSE(own, clCreateProgramWithBinary, held_binary);
}
