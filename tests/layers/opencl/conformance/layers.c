/* SPDX-License-Identifier: Apache-2.0
 *
 * libcounting_layer.so: a layer for the OpenCL ICD loader that passes everything on, and counts the
 * most expensive calls. Tests and benches put it above and below a different layer. When the
 * process exits, the layer appends one line to the file that COUNTING_LAYER_FILE names. The line
 * begins with the name of the layer's own file:
 *
 *     libcounting_layer.so builds=2 compiles=0 links=0 sources=2 ils=0 binaries=0 …
 *
 * Before it passes clBuildProgram on, it runs the command that COUNTING_LAYER_COMMAND names, if
 * any.
 *
 * A file is loaded as one layer. To load it twice in a process, copy the file.
 */
#include "support/opencl_layer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* X(field): the counters. Relaxed atomics: nothing is read through them. */
#define COUNTS(X)                                                                                  \
    X(builds)                                                                                      \
    X(compiles)                                                                                    \
    X(rounded)                                                                                     \
    X(links)                                                                                       \
    X(sources)                                                                                     \
    X(ils)                                                                                         \
    X(binaries)                                                                                    \
    X(captures)                                                                                    \
    X(kernels)

typedef struct counts {
#define COUNTS_FIELD(field) unsigned field;
    COUNTS(COUNTS_FIELD)
#undef COUNTS_FIELD
} counts;

const char layer_name[] = "counting";

static counts seen;

#define SEEN(field) __atomic_fetch_add(&seen.field, 1, __ATOMIC_RELAXED)

/* Counts a build or compile by a thread that does not round to nearest. */
static void count_rounding(void)
{
    if (fegetround() != FE_TONEAREST) {
        SEEN(rounded);
    }
}

static cl_int CL_API_CALL count_build(cl_program program, cl_uint device_count,
                                      const cl_device_id *devices, const char *options,
                                      void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const char *command = getenv("COUNTING_LAYER_COMMAND");
    SEEN(builds);
    count_rounding();
    if (command != NULL && system(command) != 0) {
        abort();
    }
    return layer_below.clBuildProgram(program, device_count, devices, options, notify, user);
}

static cl_int CL_API_CALL count_compile(cl_program program, cl_uint device_count,
                                        const cl_device_id *devices, const char *options,
                                        cl_uint header_count, const cl_program *headers,
                                        const char **header_names,
                                        void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    SEEN(compiles);
    count_rounding();
    return layer_below.clCompileProgram(program, device_count, devices, options, header_count,
                                        headers, header_names, notify, user);
}

static cl_program CL_API_CALL count_link(cl_context context, cl_uint device_count,
                                         const cl_device_id *devices, const char *options,
                                         cl_uint input_count, const cl_program *inputs,
                                         void(CL_CALLBACK *notify)(cl_program, void *), void *user,
                                         cl_int *ret_status)
{
    SEEN(links);
    return layer_below.clLinkProgram(context, device_count, devices, options, input_count, inputs,
                                     notify, user, ret_status);
}

static cl_program CL_API_CALL count_source(cl_context context, cl_uint count, const char **strings,
                                           const size_t *lengths, cl_int *ret_status)
{
    SEEN(sources);
    return layer_below.clCreateProgramWithSource(context, count, strings, lengths, ret_status);
}

static cl_program CL_API_CALL count_il(cl_context context, const void *il, size_t size,
                                       cl_int *ret_status)
{
    SEEN(ils);
    return layer_below.clCreateProgramWithIL(context, il, size, ret_status);
}

static cl_program CL_API_CALL count_binary(cl_context context, cl_uint device_count,
                                           const cl_device_id *devices, const size_t *sizes,
                                           const unsigned char **binaries, cl_int *ret_states,
                                           cl_int *ret_status)
{
    SEEN(binaries);
    return layer_below.clCreateProgramWithBinary(context, device_count, devices, sizes, binaries,
                                                 ret_states, ret_status);
}

static cl_int CL_API_CALL count_information(cl_program program, cl_program_info param, size_t size,
                                            void *value, size_t *ret_size)
{
    if (param == CL_PROGRAM_BINARIES && value != NULL) {
        SEEN(captures);
    }
    return layer_below.clGetProgramInfo(program, param, size, value, ret_size);
}

static cl_kernel CL_API_CALL count_kernel(cl_program program, const char *name, cl_int *ret_status)
{
    SEEN(kernels);
    return layer_below.clCreateKernel(program, name, ret_status);
}

static const char *own_name(void)
{
    Dl_info info;
    if (dladdr(&seen, &info) == 0 || info.dli_fname == NULL) {
        return "?";
    }
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

/* Must not call OpenCL, since the loader may have unloaded the runtimes already. */
static void __attribute__((destructor)) report(void)
{
    const char *path = getenv("COUNTING_LAYER_FILE");
    char *line;
    if (path == NULL || !layer_is_started) {
        return;
    }
#define COUNTS_FORMAT(field) " " #field "=%u"
#define COUNTS_VALUE(field) , seen.field
    int length = asprintf(&line, "%s" COUNTS(COUNTS_FORMAT) "\n", own_name() COUNTS(COUNTS_VALUE));
#undef COUNTS_FORMAT
#undef COUNTS_VALUE
    if (length < 0) {
        return;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file >= 0) {
        ssize_t written = write(file, line, (size_t)length);
        (void)written;
        close(file);
    }
    free(line);
}

void layer_interpose(cl_icd_dispatch *own)
{
    INTERPOSE(own, clBuildProgram, count_build);
    INTERPOSE(own, clCompileProgram, count_compile);
    INTERPOSE(own, clLinkProgram, count_link);
    INTERPOSE(own, clCreateProgramWithSource, count_source);
    INTERPOSE(own, clCreateProgramWithIL, count_il);
    INTERPOSE(own, clCreateProgramWithBinary, count_binary);
    INTERPOSE(own, clGetProgramInfo, count_information);
    INTERPOSE(own, clCreateKernel, count_kernel);
}
