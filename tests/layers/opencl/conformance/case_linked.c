/* SPDX-License-Identifier: Apache-2.0
 *
 * Linked programs: what they and their kernels answer to queries, and further calls on them.
 */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

static const char rich_source[] =
    "#include \"shared.h\"\n"
    "__kernel __attribute__((work_group_size_hint(8, 1, 1))) void rich("
    "__global int *restrict out, const float scale, __local int *scratch, __constant int *table)"
    "{ out[get_global_id(0)] = base() + (int)scale + table[0]; }\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = base() + get_global_id(0); }\n";
static const char base_source[] = "#include \"shared.h\"\nint base(void) { return BASE; }\n";
static const char header_one[] = "int base(void);\n#define BASE 300\n";
static const char header_two[] = "int base(void);\n#define BASE 310\n";

static void compile(const scene *in, cl_program program, const char *header, const char *options)
{
    const char *name = "shared.h";
    cl_program included = program_of(in->context, header, "H");
    say_status(clCompileProgram(program, 0, NULL, options, 1, &included, &name, NULL, NULL),
               "compile %s with %s", handle_name(program), options != NULL ? options : "NULL");
    clReleaseProgram(included);
}

static cl_program link_of(const scene *in, const char *options, cl_uint count,
                          const cl_program *inputs, const char *name)
{
    cl_int status = 99;
    cl_program linked =
        clLinkProgram(in->context, 0, NULL, options, count, inputs, NULL, NULL, &status);
    say_status(status, "link %s with %s%s", name, options != NULL ? options : "NULL",
               linked == NULL ? ", no program" : "");
    if (linked != NULL) {
        name_handle(linked, "%s", name);
    }
    return linked;
}

/* Compiles both parts with the same options and links them to L. Returns NULL if that failed. */
static cl_program link_rich(const scene *in, const char *header, const char *compile_options,
                            const char *link_options)
{
    cl_program parts[] = {program_of(in->context, rich_source, "U"),
                          program_of(in->context, base_source, "V")};
    compile(in, parts[0], header, compile_options);
    compile(in, parts[1], header, compile_options);
    cl_program linked = link_of(in, link_options, 2, parts, "L");
    say("references: U %u, V %u", program_references(parts[0]), program_references(parts[1]));
    clReleaseProgram(parts[0]);
    clReleaseProgram(parts[1]);
    return linked;
}

/* ---- answers ---- */

static void ask_program_itself(const scene *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT),
        QUERY(CL_PROGRAM_CONTEXT, VALUE_HANDLES),
        QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),
        QUERY(CL_PROGRAM_DEVICES, VALUE_HANDLES),
        QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),
        QUERY(CL_PROGRAM_IL, VALUE_TEXT),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
    };
    subject of = {.object = program};
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    probe_build(program, in->device);
    say("references of the context: %u", context_references(in->context));
}

static void ask_kernel_of(const scene *in, cl_program program)
{
    static const query of_kernel[] = {
        QUERY(CL_KERNEL_FUNCTION_NAME, VALUE_TEXT),   QUERY(CL_KERNEL_NUM_ARGS, VALUE_UINT),
        QUERY(CL_KERNEL_REFERENCE_COUNT, VALUE_UINT), QUERY(CL_KERNEL_CONTEXT, VALUE_HANDLES),
        QUERY(CL_KERNEL_PROGRAM, VALUE_HANDLES),      QUERY(CL_KERNEL_ATTRIBUTES, VALUE_TEXT),
    };
    static const query of_argument[] = {
        QUERY(CL_KERNEL_ARG_ADDRESS_QUALIFIER, VALUE_UINT),
        QUERY(CL_KERNEL_ARG_ACCESS_QUALIFIER, VALUE_UINT),
        QUERY(CL_KERNEL_ARG_TYPE_NAME, VALUE_TEXT),
        QUERY(CL_KERNEL_ARG_TYPE_QUALIFIER, VALUE_ULONG),
        QUERY(CL_KERNEL_ARG_NAME, VALUE_TEXT),
    };
    cl_kernel kernel = kernel_of(program, "rich", "K");
    if (kernel == NULL) {
        return;
    }
    subject of = {.object = kernel, .device = in->device};
    probe_all(ask_kernel, &of, of_kernel, COUNT(of_kernel));
    for (of.index = 0; of.index <= 4; of.index++) {
        say("argument %u", of.index);
        probe_all(ask_argument, &of, of_argument, COUNT(of_argument));
    }
    clReleaseKernel(kernel);
}

static void answers_with(const char *compile_options, const char *link_options)
{
    scene in = scene_open();
    cl_program linked = link_rich(&in, header_one, compile_options, link_options);
    if (linked != NULL) {
        ask_program_itself(&in, linked);
        ask_kernel_of(&in, linked);
        check_program(&in, linked, "f", 300);
        clReleaseProgram(linked);
    }
    scene_close(&in);
}

static void answers(void)
{
    answers_with(NULL, NULL);
    answers_with("-cl-kernel-arg-info", "");
    answers_with("-cl-fast-relaxed-math", "-cl-fast-relaxed-math");
}

/* ---- lifetime ---- */

static void lifetime(void)
{
    scene in = scene_open();
    cl_program linked = link_rich(&in, header_one, "-DLIFETIME", NULL);
    cl_kernel kernels[2] = {NULL, NULL};
    cl_uint count = 0;
    say_status(clCreateKernelsInProgram(linked, 2, kernels, &count), "all kernels: %u", count);
    cl_kernel kernel = kernel_of(linked, "f", "K1");
    say("references of L with three kernels: %u", program_references(linked));
    say_status(clRetainProgram(linked), "retain");
    say("references of L: %u", program_references(linked));
    say_status(clReleaseProgram(linked), "release");
    clReleaseKernel(kernels[0]);
    clReleaseKernel(kernels[1]);
    say("references of L with one kernel: %u", program_references(linked));
    say_status(clReleaseProgram(linked), "release for good");
    check_kernel(&in, kernel, "K1", 300);
    say_status(clReleaseKernel(kernel), "release K1");
    scene_close(&in);
}

/* ---- inputs ---- */

static void headers(void)
{
    scene in = scene_open();
    const char *const contents[] = {header_one, header_two, header_one};
    for (int i = 0; i < 3; i++) {
        cl_program linked = link_rich(&in, contents[i], "-DHEADERS", NULL);
        check_program(&in, linked, "f", i == 1 ? 310 : 300);
        clReleaseProgram(linked);
    }
    scene_close(&in);
}

/* Links the same objects in two orders, in the same context. */
static void orders(void)
{
    scene in = scene_open();
    cl_program user = program_of(in.context, rich_source, "U");
    cl_program base = program_of(in.context, base_source, "V");
    compile(&in, user, header_two, "-DORDERS");
    compile(&in, base, header_two, "-DORDERS");
    const cl_program inputs[] = {user, base, user};
    for (int i = 0; i < 2; i++) {
        cl_program linked = link_of(&in, NULL, 2, inputs + i, i == 0 ? "L1" : "L2");
        say_build(linked, in.device);
        check_program(&in, linked, "f", 310);
        clReleaseProgram(linked);
    }
    clReleaseProgram(user);
    clReleaseProgram(base);
    scene_close(&in);
}

/* Links objects that the application loaded, whose inputs are unknown. */
static void loaded_objects(void)
{
    scene in = scene_open();
    const char *const sources[] = {rich_source, base_source};
    cl_program loaded[2];
    for (int i = 0; i < 2; i++) {
        cl_int status = 99;
        size_t size = 0;
        unsigned char bytes[1 << 16];
        unsigned char *place = bytes;
        const unsigned char *given = bytes;
        cl_program object = program_of(in.context, sources[i], "U");
        compile(&in, object, header_one, "-DLOADED");
        clGetProgramInfo(object, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
        check(size <= sizeof bytes, "an object is small");
        clGetProgramInfo(object, CL_PROGRAM_BINARIES, sizeof place, &place, NULL);
        clReleaseProgram(object);
        loaded[i] =
            clCreateProgramWithBinary(in.context, 1, &in.device, &size, &given, NULL, &status);
        say_status(status, "load an object");
    }
    cl_program linked = link_of(&in, NULL, 2, loaded, "L");
    if (linked != NULL) {
        check_program(&in, linked, "f", 300);
        clReleaseProgram(linked);
    }
    clReleaseProgram(loaded[0]);
    clReleaseProgram(loaded[1]);
    scene_close(&in);
}

/* ---- devices ---- */

/* Links for two devices, in both orders, and for one of them. */
static void devices(void)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_DEVICES, VALUE_HANDLES),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
    };
    cl_device_id parts[3];
    if (split_device(parts) != 2) {
        return;
    }
    parts[2] = parts[0];
    cl_int status = 99;
    cl_context context = clCreateContext(NULL, 2, parts, NULL, NULL, &status);
    say_status(status, "a context of both");
    cl_program object = program_of(
        context,
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 320 + get_global_id(0); }",
        "U");
    say_status(clCompileProgram(object, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL), "compile");
    for (int i = 0; i < 3; i++) {
        cl_program linked = clLinkProgram(context, i == 2 ? 1 : 2, parts + (i == 2 ? 1 : i), NULL,
                                          1, &object, NULL, NULL, &status);
        say_status(status, "link %d", i);
        name_handle(linked, "L%d", i);
        subject of = {.object = linked};
        probe_all(ask_program, &of, of_program, COUNT(of_program));
        for (int part = 0; part < 2; part++) {
            say("for D%d", part + 1);
            say_build(linked, parts[part]);
        }
        clReleaseProgram(linked);
    }
    clReleaseProgram(object);
    clReleaseContext(context);
    clReleaseDevice(parts[0]);
    clReleaseDevice(parts[1]);
}

/* ---- calls after a link ---- */

static void used_again(void)
{
    scene in = scene_open();
    cl_program linked = link_rich(&in, header_one, "-DAGAIN", NULL);
    cl_kernel kernel = kernel_of(linked, "f", "K1");
    say_status(clBuildProgram(linked, 0, NULL, NULL, NULL, NULL), "build L with a kernel");
    say_status(clCompileProgram(linked, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL),
               "compile L with a kernel");
    say_build(linked, in.device);
    check_kernel(&in, kernel, "K1", 300);
    clReleaseKernel(kernel);
    if (runtime_is_intel()) {
        /* Some of these crash PoCL. */
        cl_program again = link_of(&in, NULL, 1, &linked, "L2");
        if (again != NULL) {
            clReleaseProgram(again);
        }
        check_program(&in, linked, "f", 300);
        say_status(clCompileProgram(linked, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL), "compile L");
        ask_kernel_of(&in, linked);
        say_status(clBuildProgram(linked, 0, NULL, "-cl-mad-enable", NULL, NULL), "build L");
        say_status(clCreateKernel(linked, "f", NULL) == NULL ? CL_INVALID_PROGRAM : CL_SUCCESS,
                   "kernel of L");
    }
    clReleaseProgram(linked);
    scene_close(&in);
}

const conformance_case linked_cases[] = {
    {"linked.answers", answers, 1},       {"linked.lifetime", lifetime, 1},
    {"linked.headers", headers, 1},       {"linked.orders", orders, 1},
    {"linked.devices", devices, 1},       {"linked.loaded-objects", loaded_objects, 0},
    {"linked.used-again", used_again, 0}, {NULL, NULL, 0},
};
