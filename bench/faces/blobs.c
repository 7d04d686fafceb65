/* SPDX-License-Identifier: Apache-2.0
 *
 * faces_blobs ROUNDS: measures making a program from its cache blob, and compares it with OpenCL
 * loading the same binary.
 */
#include <stdio.h>
#include <stdlib.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <kiln/opencl.h>
#include <kiln/program.h>

#include "face.h"

enum { STRETCH = 2, SOURCE_MAX = 1 << 20 };

typedef struct scene {
    cl_device_id id;
    cl_context cl;
    kiln_opencl_device *device;
    kiln_program_context *context;
    kiln_program_desc *desc;
    uint8_t *blob;
    size_t blob_size;
    unsigned char *binary;
    size_t binary_size;
} scene;

static const char options[] = "-cl-std=CL1.2 -D STREAM=1";

/* ---- set-up ---- */

static size_t read_source(char *text)
{
    FILE *file = fopen(KERNEL_FOLDER "/chacha.cl", "rb");
    require(file, "opening the source");
    const size_t size = fread(text, 1, SOURCE_MAX, file);
    fclose(file);
    return size;
}

/* The cache in memory is off, so each request makes its program anew. */
static void open_context(scene *s)
{
    cl_platform_id platform;
    require(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS &&
                clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &s->id, NULL) == CL_SUCCESS,
            "finding a device");
    s->cl = clCreateContext(NULL, 1, &s->id, NULL, NULL, NULL);
    require(s->cl && kiln_opencl_device_new(s->cl, s->id, NULL, &s->device, NULL) == KILN_OK,
            "opening a device");
    void *devices[] = {s->device};
    const kiln_program_context_params params = {.struct_size = sizeof params,
                                                .ops = kiln_opencl_ops(s->device),
                                                .devices = devices,
                                                .device_count = 1,
                                                .flags = KILN_CACHE_DISABLED};
    require(kiln_program_context_new(&params, &s->context) == KILN_OK, "a context");
}

static void take_binary(scene *s, cl_program program)
{
    require(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof s->binary_size,
                             &s->binary_size, NULL) == CL_SUCCESS,
            "the binary's size");
    s->binary = malloc(s->binary_size);
    require(s->binary && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof s->binary,
                                          &s->binary, NULL) == CL_SUCCESS,
            "the binary");
}

static void take_blob(scene *s, const kiln_program *program)
{
    require(kiln_program_get_cache_blob(program, &s->blob_size, NULL) == KILN_OK, "a blob's size");
    s->blob = malloc(s->blob_size);
    require(s->blob && kiln_program_get_cache_blob(program, &s->blob_size, s->blob) == KILN_OK,
            "a blob");
}

static void scene_begin(scene *s)
{
    open_context(s);
    char *text = malloc(SOURCE_MAX);
    require(text, "memory");
    const kiln_program_desc_params params = {.struct_size = sizeof params,
                                             .form = KILN_SOURCE_TEXT,
                                             .code = {text, read_source(text)},
                                             .options.compile = options};
    kiln_program *program = NULL;
    require(kiln_program_desc_new(s->context, &params, &s->desc, NULL) == KILN_OK &&
                kiln_program_get(s->desc, &program, NULL, NULL) == KILN_OK,
            "building");
    take_blob(s, program);
    take_binary(s, kiln_program_handle(program));
    kiln_program_release(&program);
    free(text);
}

static void scene_end(scene *s)
{
    free(s->blob);
    free(s->binary);
    kiln_program_desc_release(&s->desc);
    kiln_program_context_free(&s->context);
    kiln_opencl_device_free(&s->device);
    clReleaseContext(s->cl);
}

/* ---- requests ---- */

static uint64_t run_blob(void *user, size_t count)
{
    const scene *s = user;
    for (size_t i = 0; i < count; i++) {
        kiln_program *program = NULL;
        require(kiln_program_create_from_cache_blob(s->desc, s->blob_size, s->blob, &program, NULL,
                                                    NULL) == KILN_OK,
                "a program of its blob");
        kiln_program_release(&program);
    }
    return count;
}

static uint64_t run_load(void *user, size_t count)
{
    const scene *s = user;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *binary = s->binary;
        cl_program program =
            clCreateProgramWithBinary(s->cl, 1, &s->id, &s->binary_size, &binary, NULL, NULL);
        require(program && clBuildProgram(program, 1, &s->id, options, NULL, NULL) == CL_SUCCESS,
                "loading the binary");
        clReleaseProgram(program);
    }
    return count;
}

int main(int argc, char **argv)
{
    static scene s;
    scene_begin(&s);
    const face faces[] = {
        {"blob", run_blob, &s, STRETCH},
        {"load", run_load, &s, STRETCH},
    };
    measure_faces(faces, sizeof faces / sizeof faces[0], argc > 1 ? atoi(argv[1]) : 5);
    scene_end(&s);
    return 0;
}
