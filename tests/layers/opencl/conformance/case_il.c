/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs from an intermediate language, specialization constants, and functions obtained through
 * clGetExtensionFunctionAddressForPlatform.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/spirv_module.h"

typedef cl_program(CL_API_CALL *create_with_il)(cl_context, const void *, size_t, cl_int *);
typedef cl_int(CL_API_CALL *set_constant)(cl_program, cl_uint, size_t, const void *);
typedef cl_int(CL_API_CALL *sub_group_info)(cl_kernel, cl_device_id, cl_kernel_sub_group_info,
                                            size_t, const void *, size_t, void *, size_t *);
typedef cl_int(CL_API_CALL *global_variable_pointer)(cl_device_id, cl_program, const char *,
                                                     size_t *, void **);
typedef cl_int(CL_API_CALL *function_pointer)(cl_device_id, cl_program, const char *, cl_ulong *);
typedef cl_int(CL_API_CALL *read_global_variable)(cl_command_queue, cl_program, const char *,
                                                  cl_bool, size_t, size_t, void *, cl_uint,
                                                  const cl_event *, cl_event *);
typedef cl_int(CL_API_CALL *write_global_variable)(cl_command_queue, cl_program, const char *,
                                                   cl_bool, size_t, size_t, const void *, cl_uint,
                                                   const cl_event *, cl_event *);

/* Converts through void *, since C has no conversion of object pointers to function pointers. */
#define EXTENSION(type, name)                                                                      \
    (((union {                                                                                     \
         void *address;                                                                            \
         type function;                                                                            \
     }){.address = clGetExtensionFunctionAddressForPlatform(setting.platform, name)})              \
         .function)

static int il_is_supported(void)
{
    char version[128] = "";
    cl_int status =
        clGetDeviceInfo(setting.device, CL_DEVICE_IL_VERSION, sizeof version, version, NULL);
    int supported = status == CL_SUCCESS && strstr(version, "SPIR-V") != NULL;
    say("SPIR-V is %ssupported", supported ? "" : "not ");
    return supported;
}

static cl_program il_program(const scene *in, const char *name)
{
    cl_int status;
    cl_program program =
        clCreateProgramWithIL(in->context, spirv_module, sizeof spirv_module, &status);
    say_status(status, "create %s with IL", name);
    if (program != NULL) {
        name_handle(program, "%s", name);
    }
    return program;
}

static void say_il(const scene *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),
        QUERY(CL_PROGRAM_IL, VALUE_TEXT),
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
    };
    subject of = {.object = program};
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    probe_build(program, in->device);
}

static void il(void)
{
    if (!il_is_supported()) {
        return;
    }
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = il_program(&in, i == 0 ? "P1" : "P2");
        build(program, i == 0 ? NULL : "");
        say_il(&in, program);
        check_program(&in, program, "f", SPIRV_DEFAULT_BASE);
        cl_kernel kernel = kernel_of(program, "f", "K1");
        clReleaseProgram(program);
        check_kernel(&in, kernel, "K1", SPIRV_DEFAULT_BASE);
        clReleaseKernel(kernel);
    }
    scene_close(&in);
}

static void il_misuse(void)
{
    static const char noise[] = "this is not a module";
    if (!il_is_supported()) {
        return;
    }
    scene in = scene_open();
    cl_int status;
    cl_program program = clCreateProgramWithIL(in.context, noise, sizeof noise, &status);
    say_status(status, "create with noise%s", program == NULL ? ", no program" : "");
    if (program != NULL) {
        name_handle(program, "P1");
        build(program, NULL);
        clReleaseProgram(program);
    }
    program = clCreateProgramWithIL(in.context, NULL, 0, &status);
    say_status(status, "create with nothing%s", program == NULL ? ", no program" : "");
    program = clCreateProgramWithIL(NULL, spirv_module, sizeof spirv_module, &status);
    say_status(status, "create without a context%s", program == NULL ? ", no program" : "");
    scene_close(&in);
}

static void set_and_say(cl_program program, cl_uint id, size_t size, const void *value)
{
    say_status(clSetProgramSpecializationConstant(program, id, size, value),
               "set constant %u of %s, %zu bytes", id, handle_name(program), size);
}

/* The result depends on the constant that was set before the build. */
static void constants(void)
{
    static const int bases[] = {500, 77, 600, 500};
    if (!il_is_supported()) {
        return;
    }
    scene in = scene_open();
    for (size_t i = 0; i < COUNT(bases); i++) {
        char name[8];
        snprintf(name, sizeof name, "P%zu", i + 1);
        cl_program program = il_program(&in, name);
        set_and_say(program, SPIRV_SPEC_ID, sizeof bases[i], &bases[i]);
        build(program, NULL);
        check_program(&in, program, "f", bases[i]);
        clReleaseProgram(program);
    }
    cl_program unset = il_program(&in, "P9");
    build(unset, NULL);
    check_program(&in, unset, "f", SPIRV_DEFAULT_BASE);
    clReleaseProgram(unset);
    scene_close(&in);
}

/* Sets the constant again after a build. Its effect on a rebuild depends on the runtime. */
static void constant_after_build(void)
{
    int first = 700;
    int second = 800;
    int values[ITEMS] = {0};
    if (!il_is_supported()) {
        return;
    }
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = il_program(&in, "P1");
        if (i == 0) {
            set_and_say(program, SPIRV_SPEC_ID, sizeof first, &first);
        }
        build(program, NULL);
        set_and_say(program, SPIRV_SPEC_ID, sizeof second, &second);
        build(program, i == 0 ? NULL : "-cl-mad-enable");
        cl_kernel kernel = kernel_of(program, "f", "K1");
        say_status(run_kernel(in.context, in.queue, kernel, values), "run");
        say("gives %d", values[0]);
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

/* Links a compiled program, and returns the result of f. */
static int linked_value(const scene *in, cl_program program)
{
    cl_int status = 99;
    int values[ITEMS] = {0};
    cl_program linked = clLinkProgram(in->context, 0, NULL, NULL, 1, &program, NULL, NULL, &status);
    say_status(status, "link %s", handle_name(program));
    if (linked != NULL) {
        name_handle(linked, "L");
        cl_kernel kernel = kernel_of(linked, "f", "K1");
        status = run_kernel(in->context, in->queue, kernel, values);
        say_status(status, "gives %d", values[0]);
        clReleaseKernel(kernel);
        clReleaseProgram(linked);
    }
    return values[0];
}

static void compile(cl_program program)
{
    say_status(clCompileProgram(program, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL), "compile %s",
               handle_name(program));
}

static void compiled_constants(void)
{
    static const int bases[] = {510, 77, 610, 510};
    if (!il_is_supported() || !runtime_is_intel()) {
        return;
    }
    scene in = scene_open();
    for (size_t i = 0; i < COUNT(bases); i++) {
        cl_program program = il_program(&in, "P1");
        set_and_say(program, SPIRV_SPEC_ID, sizeof bases[i], &bases[i]);
        compile(program);
        say_build(program, in.device);
        check(linked_value(&in, program) == bases[i], "the constant counts");
        clReleaseProgram(program);
    }
    scene_close(&in);
}

/* Sets the constant after a compile, by name and by address, and links both without and with a
 * second compile. */
static void constant_after_compile(void)
{
    const int first = 710, second = 810;
    if (!il_is_supported() || !runtime_is_intel()) {
        return;
    }
    scene in = scene_open();
    set_constant by_extension = EXTENSION(set_constant, "clSetProgramSpecializationConstant");
    for (int i = 0; i < 4; i++) {
        cl_program program = il_program(&in, "P1");
        set_and_say(program, SPIRV_SPEC_ID, sizeof first, &first);
        compile(program);
        if (i % 2 == 1 && by_extension != NULL) {
            say_status(by_extension(program, SPIRV_SPEC_ID, sizeof second, &second),
                       "set by address");
        } else {
            set_and_say(program, SPIRV_SPEC_ID, sizeof second, &second);
        }
        if (i / 2 == 1) {
            compile(program);
        }
        linked_value(&in, program);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void constant_misuse(void)
{
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = get_global_id(0); }\n";
    int value = 1;
    if (!il_is_supported()) {
        return;
    }
    scene in = scene_open();
    cl_program program = il_program(&in, "P1");
    set_and_say(program, SPIRV_SPEC_ID + 1, sizeof value, &value);
    set_and_say(program, SPIRV_SPEC_ID, 1, &value);
    set_and_say(program, SPIRV_SPEC_ID, sizeof value, NULL);
    build(program, NULL);
    clReleaseProgram(program);
    if (!runtime_is_intel()) {
        /* Intel's runtime treats any program as one made with IL, and crashes. */
        cl_program from_source = program_of(in.context, source, "P2");
        set_and_say(from_source, SPIRV_SPEC_ID, sizeof value, &value);
        build(from_source, NULL);
        check_program(&in, from_source, "f", 0);
        clReleaseProgram(from_source);
    }
    scene_close(&in);
}

/* The functions of an extension work on the same programs and kernels as the loader's own. */
static void by_address(void)
{
    scene in = scene_open();
    create_with_il create = EXTENSION(create_with_il, "clCreateProgramWithILKHR");
    set_constant set = EXTENSION(set_constant, "clSetProgramSpecializationConstant");
    say("clCreateProgramWithILKHR %s, clSetProgramSpecializationConstant %s",
        create != NULL ? "found" : "not found", set != NULL ? "found" : "not found");
    if (!il_is_supported() || create == NULL) {
        scene_close(&in);
        return;
    }
    for (int i = 0; i < 2; i++) {
        cl_int status;
        int base = 900;
        cl_program program = create(in.context, spirv_module, sizeof spirv_module, &status);
        say_status(status, "create P1 by address");
        name_handle(program, "P1");
        if (set != NULL && i == 1) {
            say_status(set(program, SPIRV_SPEC_ID, sizeof base, &base), "set by address");
        }
        build(program, "-DBY_ADDRESS");
        say_il(&in, program);
        check_program(&in, program, "f", set != NULL && i == 1 ? base : SPIRV_DEFAULT_BASE);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

/* Passes a program from source to functions that know nothing about a layer. */
static void constant_by_address_on_source(void)
{
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 11 + get_global_id(0); }\n";
    scene in = scene_open();
    int value = 1;
    set_constant set = EXTENSION(set_constant, "clSetProgramSpecializationConstant");
    if (set == NULL || runtime_is_intel()) {
        say("skipped: no such function, or it crashes on a source program");
        scene_close(&in);
        return;
    }
    cl_program program = program_of(in.context, source, "P1");
    say_status(set(program, SPIRV_SPEC_ID, sizeof value, &value), "set on a source program");
    build(program, NULL);
    check_program(&in, program, "f", 11);
    say_status(set(program, SPIRV_SPEC_ID, sizeof value, &value), "set on a built source program");
    check_program(&in, program, "f", 11);
    clReleaseProgram(program);
    scene_close(&in);
}

static void sub_groups_by_address(void)
{
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 12 + get_global_id(0); }\n";
    scene in = scene_open();
    sub_group_info ask = EXTENSION(sub_group_info, "clGetKernelSubGroupInfoKHR");
    say("clGetKernelSubGroupInfoKHR %s", ask != NULL ? "found" : "not found");
    cl_program program = program_of(in.context, source, "P1");
    build(program, NULL);
    cl_kernel kernel = kernel_of(program, "f", "K1");
    if (ask != NULL && !runtime_is_pocl()) {
        /* PoCL has no such function, but the loader returns its own, which calls no driver. */
        size_t sizes[] = {16, 1, 1};
        size_t answer = 0;
        cl_int status = ask(kernel, in.device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE,
                            sizeof sizes, sizes, sizeof answer, &answer, NULL);
        say_status(status, "size %zu", answer);
        status = ask(kernel, in.device, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, sizeof sizes, sizes,
                     sizeof answer, &answer, NULL);
        say_status(status, "count %zu", answer);
    }
    check_kernel(&in, kernel, "K1", 12);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    scene_close(&in);
}

static const char with_a_global[] =
    "global int shared_number = 21;\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = shared_number + "
    "get_global_id(0); }\n";

static void access_global(const scene *in, cl_program program)
{
    read_global_variable get = EXTENSION(read_global_variable, "clEnqueueReadGlobalVariableINTEL");
    write_global_variable put =
        EXTENSION(write_global_variable, "clEnqueueWriteGlobalVariableINTEL");
    int value = 0;
    if (get != NULL) {
        cl_int status = get(in->queue, program, "shared_number", CL_TRUE, sizeof value, 0, &value,
                            0, NULL, NULL);
        say_status(status, "read gives %d", value);
    }
    if (put != NULL) {
        value = 44;
        say_status(put(in->queue, program, "shared_number", CL_TRUE, sizeof value, 0, &value, 0,
                       NULL, NULL),
                   "write 44");
    }
}

/* Calls the runtime's own functions for a program's variables and functions. */
static void variables_by_address(void)
{
    scene in = scene_open();
    global_variable_pointer find =
        EXTENSION(global_variable_pointer, "clGetDeviceGlobalVariablePointerINTEL");
    function_pointer find_function = EXTENSION(function_pointer, "clGetDeviceFunctionPointerINTEL");
    say("clGetDeviceGlobalVariablePointerINTEL %s, clGetDeviceFunctionPointerINTEL %s",
        find != NULL ? "found" : "not found", find_function != NULL ? "found" : "not found");
    if (find == NULL) {
        scene_close(&in);
        return;
    }
    for (int i = 0; i < 2; i++) {
        size_t size = 0;
        void *pointer = NULL;
        cl_ulong address = 0;
        int values[ITEMS] = {0};
        cl_program program = program_of(in.context, with_a_global, i == 0 ? "P1" : "P2");
        if (build(program, "-cl-std=CL3.0") == CL_SUCCESS) {
            cl_int status = find(in.device, program, "shared_number", &size, &pointer);
            say_status(status, "pointer %s, size %zu", pointer != NULL ? "found" : "NULL", size);
            status = find(in.device, program, "no_such_number", &size, &pointer);
            say_status(status, "pointer of no such variable");
            if (find_function != NULL) {
                status = find_function(in.device, program, "f", &address);
                say_status(status, "function %s", address != 0 ? "found" : "0");
            }
            access_global(&in, program);
            cl_kernel kernel = kernel_of(program, "f", "K1");
            status = run_kernel(in.context, in.queue, kernel, values);
            say_status(status, "run gives %d", values[0]);
            status = run_kernel(in.context, in.queue, kernel, values);
            say_status(status, "run again gives %d", values[0]);
            access_global(&in, program);
            status = run_kernel(in.context, in.queue, kernel, values);
            say_status(status, "and again gives %d", values[0]);
            clReleaseKernel(kernel);
        }
        clReleaseProgram(program);
    }
    scene_close(&in);
}

const conformance_case il_cases[] = {
    {"il.build", il, 1},
    {"il.misuse", il_misuse, 0},
    {"il.constants", constants, 1},
    {"il.constant-after-build", constant_after_build, 0},
    {"il.compiled-constants", compiled_constants, 1},
    {"il.constant-after-compile", constant_after_compile, 0},
    {"il.constant-misuse", constant_misuse, 0},
    {"il.by-address", by_address, 1},
    {"il.constant-by-address", constant_by_address_on_source, 0},
    {"il.sub-groups-by-address", sub_groups_by_address, 0},
    {"il.variables-by-address", variables_by_address, 0},
    {NULL, NULL, 0},
};
