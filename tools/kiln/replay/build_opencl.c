/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../opencl/opencl_library.h"
#include "../text/memory.h"

#define DEVICES_MAX 64

typedef struct opencl_build {
    opencl_functions opencl;
    cl_context (*clCreateContext)(const cl_context_properties *, cl_uint, const cl_device_id *,
                                  void(CL_CALLBACK *)(const char *, const void *, size_t, void *),
                                  void *, cl_int *);
    cl_program (*clCreateProgramWithSource)(cl_context, cl_uint, const char **, const size_t *,
                                            cl_int *);
    cl_program (*clCreateProgramWithIL)(cl_context, const void *, size_t, cl_int *);
    cl_int (*clSetProgramSpecializationConstant)(cl_program, cl_uint, size_t, const void *);
    cl_int (*clBuildProgram)(cl_program, cl_uint, const cl_device_id *, const char *,
                             void(CL_CALLBACK *)(cl_program, void *), void *);
    cl_int (*clCompileProgram)(cl_program, cl_uint, const cl_device_id *, const char *, cl_uint,
                               const cl_program *, const char **,
                               void(CL_CALLBACK *)(cl_program, void *), void *);
    cl_program (*clLinkProgram)(cl_context, cl_uint, const cl_device_id *, const char *, cl_uint,
                                const cl_program *, void(CL_CALLBACK *)(cl_program, void *), void *,
                                cl_int *);
    cl_int (*clGetProgramBuildInfo)(cl_program, cl_device_id, cl_program_build_info, size_t, void *,
                                    size_t *);
    cl_device_id device;
    cl_context context;
} opencl_build;

/* ---- the device ---- */

/* If a program is linked to libm, some drivers fold constants with its functions, otherwise with
 * those of a library of their own, which the key then names. */
static void open_math_library(const kiln_key *key)
{
    kiln_key_part part;
    if (recipe_find(key, "driver.math", 0, &part) == 0) {
        dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
    }
}

static bool load(opencl_build *build)
{
    owned char *why = NULL;
    if (!opencl_load(OPENCL_LIBRARY, &build->opencl, &why)) {
        build_impossible("%s", why);
        return false;
    }
    void *library = build->opencl.library;
    *(void **)&build->clCreateProgramWithIL = dlsym(library, "clCreateProgramWithIL");
    *(void **)&build->clSetProgramSpecializationConstant =
        dlsym(library, "clSetProgramSpecializationConstant");
#define FIND(name) (*(void **)&build->name = dlsym(library, #name)) != NULL
    const bool is_complete = FIND(clCreateContext) && FIND(clCreateProgramWithSource) &&
                             FIND(clBuildProgram) && FIND(clCompileProgram) &&
                             FIND(clLinkProgram) && FIND(clGetProgramBuildInfo);
#undef FIND
    if (!is_complete) {
        build_impossible("the OpenCL loader is too old");
    }
    return is_complete;
}

/* Finds the platform's device of that name. If the platform has only one device, takes it whatever
 * its name is, because new drivers give devices new names. */
static bool find_device(opencl_build *build, cl_platform_id platform, const char *wanted)
{
    cl_device_id devices[DEVICES_MAX];
    cl_uint count = 0;
    if (build->opencl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count) !=
        CL_SUCCESS) {
        return false;
    }
    for (cl_uint i = 0; i < count && i < DEVICES_MAX; i++) {
        char name[OPENCL_TEXT_SIZE] = "";
        build->opencl.clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
        if (count == 1 || strcmp(name, wanted) == 0) {
            build->device = devices[i];
            return true;
        }
    }
    return false;
}

static bool find_platform(opencl_build *build, const char *platform_name, const char *device_name)
{
    cl_platform_id platforms[OPENCL_PLATFORMS_MAX];
    const cl_uint count = opencl_platforms(&build->opencl, platforms);
    for (cl_uint i = 0; i < count; i++) {
        char name[OPENCL_TEXT_SIZE];
        if (opencl_platform_text(&build->opencl, platforms[i], CL_PLATFORM_NAME, name) &&
            strcmp(name, platform_name) == 0 && find_device(build, platforms[i], device_name)) {
            return true;
        }
    }
    build_impossible("no device %s of the platform %s is here", device_name, platform_name);
    return false;
}

static bool prepare(opencl_build *build, const kiln_key *key)
{
    owned char *platform_name = recipe_text(key, "platform.name");
    owned char *device_name = recipe_text(key, "device.name");
    open_math_library(key);
    if (!load(build) ||
        !find_platform(build, platform_name, device_name == NULL ? "" : device_name)) {
        return false;
    }
    cl_int error = CL_SUCCESS;
    build->context = build->clCreateContext(NULL, 1, &build->device, NULL, NULL, &error);
    if (error != CL_SUCCESS) {
        build_impossible("the driver creates no context: error %d", error);
    }
    return error == CL_SUCCESS;
}

/* ---- programs ---- */

/* @end  the text that follows; NULL: none */
static cl_program program_of_text(const opencl_build *build, const kiln_key_part *text,
                                  const kiln_key_part *end, cl_int *ret_error)
{
    /* OpenCL takes a length of 0 to mean text that ends with a zero byte. */
    const char *code[] = {text->size > 0 ? text->bytes : "", end ? end->bytes : NULL};
    const size_t sizes[] = {(size_t)text->size, end ? (size_t)end->size : 0};
    return build->clCreateProgramWithSource(build->context, end ? 2 : 1, code, sizes, ret_error);
}

static cl_program create_program(const opencl_build *build, const kiln_key *key, cl_int *ret_error)
{
    kiln_key_part code, end;
    if (recipe_find(key, "source", 0, &code) != 0) {
        const bool has_end = recipe_find(key, "source.end", 0, &end) != 0 && end.size > 0;
        return program_of_text(build, &code, has_end ? &end : NULL, ret_error);
    }
    if (recipe_find(key, "il", 0, &code) == 0 || build->clCreateProgramWithIL == NULL) {
        *ret_error = CL_INVALID_OPERATION;
        return NULL;
    }
    return build->clCreateProgramWithIL(build->context, code.bytes, (size_t)code.size, ret_error);
}

/* Each part with the number of a constant is followed by the part with its value. */
static cl_int set_constants(const opencl_build *build, const kiln_key *key, cl_program program)
{
    kiln_key_part id, value;
    cl_int error = CL_SUCCESS;
    for (size_t i = 0; error == CL_SUCCESS && (i = recipe_find(key, "constant", i, &id)) != 0;) {
        uint64_t number = 0;
        if (id.size != sizeof number || build->clSetProgramSpecializationConstant == NULL ||
            recipe_find(key, "constant.value", i, &value) != i + 1) {
            return CL_INVALID_OPERATION;
        }
        memcpy(&number, id.bytes, sizeof number);
        error = build->clSetProgramSpecializationConstant(program, (cl_uint)number,
                                                          (size_t)value.size, value.bytes);
    }
    return error;
}

static cl_program program_of(const opencl_build *build, const kiln_key *key, cl_int *ret_error)
{
    cl_program program = create_program(build, key, ret_error);
    if (*ret_error == CL_SUCCESS) {
        *ret_error = set_constants(build, key, program);
    }
    return program;
}

/* ---- steps ---- */

static build_end report(const opencl_build *build, cl_program program, cl_int error)
{
    if (error == CL_SUCCESS) {
        return BUILD_DONE;
    }
    size_t size = 0;
    printf("the driver answered %d\n", error);
    if (program != NULL &&
        build->clGetProgramBuildInfo(program, build->device, CL_PROGRAM_BUILD_LOG, 0, NULL,
                                     &size) == CL_SUCCESS) {
        owned char *log = must(calloc(1, size + 1));
        build->clGetProgramBuildInfo(program, build->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
        fputs(log, stdout);
    }
    return BUILD_FAILED;
}

static build_end build_program(const opencl_build *build, const kiln_key *key)
{
    owned char *options = recipe_text(key, "options");
    cl_int error = CL_SUCCESS;
    cl_program program = program_of(build, key, &error);
    if (error == CL_SUCCESS) {
        error = build->clBuildProgram(program, 1, &build->device, options, NULL, NULL);
    }
    return report(build, program, error);
}

/* The headers that a program passed to clCompileProgram. */
typedef struct passed_headers {
    cl_uint count;
    cl_program *programs;
    const char **names; /* owned */
} passed_headers;

static void passed_headers_free(passed_headers *headers)
{
    for (cl_uint i = 0; i < headers->count; i++) {
        free((void *)(uintptr_t)headers->names[i]);
    }
    free(headers->names);
    free(headers->programs);
}

/* Each part with the name of a header is followed by the part with its content. */
static cl_int read_headers(const opencl_build *build, const kiln_key *key, passed_headers *headers)
{
    const size_t room = kiln_key_part_count(key) + 1;
    headers->programs = must(calloc(room, sizeof *headers->programs));
    headers->names = must(calloc(room, sizeof *headers->names));
    kiln_key_part name, content;
    cl_int error = CL_SUCCESS;
    for (size_t i = 0; error == CL_SUCCESS && (i = recipe_find(key, "header", i, &name)) != 0;) {
        if (recipe_find(key, "header.content", i, &content) != i + 1) {
            return CL_INVALID_OPERATION;
        }
        headers->names[headers->count] = text_of("%.*s", (int)name.size, (const char *)name.bytes);
        headers->programs[headers->count++] = program_of_text(build, &content, NULL, &error);
    }
    return error;
}

static cl_program compile(const opencl_build *build, const kiln_key *key, cl_int *ret_error)
{
    passed_headers headers = {0};
    owned char *options = recipe_text(key, "options");
    cl_program program = program_of(build, key, ret_error);
    if (*ret_error == CL_SUCCESS) {
        *ret_error = read_headers(build, key, &headers);
    }
    if (*ret_error == CL_SUCCESS) {
        *ret_error = build->clCompileProgram(program, 1, &build->device, options, headers.count,
                                             headers.count == 0 ? NULL : headers.programs,
                                             headers.count == 0 ? NULL : headers.names, NULL, NULL);
    }
    passed_headers_free(&headers);
    return program;
}

static build_end link_programs(const opencl_build *build, const kiln_key *key)
{
    kiln_key_part input;
    cl_int error = CL_SUCCESS;
    cl_uint count = 0;
    owned char *options = recipe_text(key, "options");
    owned cl_program *programs = must(calloc(kiln_key_part_count(key) + 1, sizeof *programs));
    for (size_t i = 0; error == CL_SUCCESS && (i = recipe_find(key, "input", i, &input)) != 0;) {
        kiln_key *compiled = NULL;
        must_succeed(kiln_key_decode(input.bytes, (size_t)input.size, &compiled));
        programs[count] = compile(build, compiled, &error);
        kiln_key_release(&compiled);
        count++;
    }
    if (error != CL_SUCCESS) {
        return report(build, programs[count - 1], error);
    }
    cl_program linked = build->clLinkProgram(build->context, 1, &build->device, options, count,
                                             programs, NULL, NULL, &error);
    return report(build, linked, error);
}

build_end build_opencl(const recipe *of)
{
    opencl_build build = {0};
    if (!prepare(&build, of->key)) {
        return BUILD_IMPOSSIBLE;
    }
    return of->kind == RECIPE_OPENCL_LINK ? link_programs(&build, of->key)
                                          : build_program(&build, of->key);
}
