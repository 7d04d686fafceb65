/* SPDX-License-Identifier: Apache-2.0
 *
 * clGetProgramInfo: the queries of a program.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char good[] =
    "__kernel void zulu(__global int *out) { out[get_global_id(0)] = 1 + get_global_id(0); }\n"
    "__kernel void alpha(__global int *out) { out[get_global_id(0)] = 2 + get_global_id(0); }\n"
    "__kernel void mike(__global int *out) { out[get_global_id(0)] = 3 + get_global_id(0); }\n";

static const query always[] = {
    QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT), QUERY(CL_PROGRAM_CONTEXT, VALUE_HANDLES),
    QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),     QUERY(CL_PROGRAM_DEVICES, VALUE_HANDLES),
    QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),          QUERY(CL_PROGRAM_IL, VALUE_TEXT),
};

static const query when_built[] = {
    QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
    QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
    QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
    QUERY(CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT, VALUE_UINT),
    QUERY(CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT, VALUE_UINT),
};

static void unbuilt(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    subject of = {.object = program};
    probe_all(ask_program, &of, always, COUNT(always));
    probe_all(ask_program, &of, when_built, COUNT(when_built));
    probe_build(program, in.device);
    kernel_of(program, "alpha", "K1");
    clReleaseProgram(program);
    scene_close(&in);
}

static void built(void)
{
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, good, i == 0 ? "P1" : "P2");
        subject of = {.object = program};
        build(program, "-DQUERIES");
        probe_all(ask_program, &of, always, COUNT(always));
        probe_all(ask_program, &of, when_built, COUNT(when_built));
        check_program(&in, program, "alpha", 2);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

/* Creates a program from several strings, with lengths and without. */
static void source_in_pieces(void)
{
    const char *pieces[] = {"__kernel void f(__global int *out)XXXX", "\n{ out[get_global_id(0)]",
                            " = 9 + ", "get_global_id(0);", " }"};
    const size_t lengths[] = {34, 0, 7, 17, 0};
    static const query source[] = {QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT)};
    scene in = scene_open();
    cl_int status;
    cl_program program =
        clCreateProgramWithSource(in.context, COUNT(pieces), pieces, lengths, &status);
    say_status(status, "create P1 of five strings");
    name_handle(program, "P1");
    subject of = {.object = program};
    probe_all(ask_program, &of, source, COUNT(source));
    build(program, NULL);
    probe_all(ask_program, &of, source, COUNT(source));
    check_program(&in, program, "f", 9);
    clReleaseProgram(program);
    scene_close(&in);
}

/* Returns the binary of the only device; the caller frees it. */
static unsigned char *binary_of(cl_program program, size_t *ret_size)
{
    size_t size = 0;
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    unsigned char *binary = calloc(1, size + 1);
    unsigned char *list[] = {binary};
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof list, list, NULL),
               "binaries of %s", handle_name(program));
    *ret_size = size;
    return binary;
}

static void load_and_check(const scene *in, const unsigned char *binary, size_t size)
{
    cl_int status;
    cl_int binary_status = 99;
    cl_program loaded = clCreateProgramWithBinary(in->context, 1, &in->device, &size, &binary,
                                                  &binary_status, &status);
    say_status(status, "load it");
    say_status(binary_status, "binary status");
    name_handle(loaded, "L");
    build(loaded, "-DBINARIES");
    check_program(in, loaded, "zulu", 1);
    check_program(in, loaded, "mike", 3);
    clReleaseProgram(loaded);
}

static void binaries(void)
{
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        size_t size;
        size_t size_again;
        cl_program program = program_of(in.context, good, i == 0 ? "P1" : "P2");
        build(program, "-DBINARIES");
        unsigned char *binary = binary_of(program, &size);
        unsigned char *again = binary_of(program, &size_again);
        check(size > 0, "there is a binary");
        check(size == size_again && memcmp(binary, again, size) == 0, "it is the same again");
        check_program(&in, program, "zulu", 1);
        say_build(program, in.device);
        load_and_check(&in, binary, size);
        free(binary);
        free(again);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void binaries_protocol(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    build(program, "-DBINARIES");
    unsigned char *none[] = {NULL, NULL};
    size_t size = 99;
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, 0, NULL, &size), "size only");
    say("size %zu", size);
    if (runtime_is_pocl()) {
        say("skipped: lists with no room, which crash this runtime");
        clReleaseProgram(program);
        scene_close(&in);
        return;
    }
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof none[0], none, &size),
               "a list with no room");
    say("size %zu", size);
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof none[0] - 1, none, &size),
               "a short list");
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof none, none, &size),
               "a long list");
    say("size %zu", size);
    clReleaseProgram(program);
    scene_close(&in);
}

static void unknown_queries(void)
{
    static const query of_program[] = {QUERY(CL_KERNEL_ATTRIBUTES, VALUE_UINT)};
    scene in = scene_open();
    cl_program program = program_of(in.context, good, "P1");
    subject of = {.object = program, .device = in.device};
    build(program, "-DQUERIES");
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    probe_all(ask_build, &of, of_program, COUNT(of_program));
    of.device = NULL;
    static const query status_query[] = {QUERY(CL_PROGRAM_BUILD_STATUS, VALUE_INT)};
    probe_all(ask_build, &of, status_query, COUNT(status_query));
    clReleaseProgram(program);
    scene_close(&in);
}

/* ---- the constant that PyOpenCL adds: see device/opencl/defeating_constant.h ---- */

#define CONSTANT "\n\n__constant int pyopencl_defeat_cache_"

enum { NUMBER_ROOM = 33 };

/* Returns the source @text with a constant whose name is new in each call. The caller frees it.
 * @ret_number receives the end of the name. */
static char *with_new_constant(const char *text, char ret_number[NUMBER_ROOM])
{
    unsigned char bytes[(NUMBER_ROOM - 1) / 2];
    if (getentropy(bytes, sizeof bytes) != 0) {
        abort();
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(ret_number + 2 * i, NUMBER_ROOM - 2 * i, "%02x", bytes[i]);
    }
    const size_t room = strlen(text) + sizeof CONSTANT + NUMBER_ROOM + sizeof " = 0;";
    char *source = malloc(room);
    snprintf(source, room, "%s" CONSTANT "%s = 0;", text, ret_number);
    return source;
}

static void check_source(cl_program program, const char *source)
{
    size_t size = 0;
    clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size);
    char *text = calloc(1, size + 1);
    clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, text, NULL);
    check(size == strlen(source) + 1 && strcmp(text, source) == 0, "its source is its own");
    free(text);
}

static void build_with_constants(int loads_binaries)
{
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        char number[NUMBER_ROOM];
        char *source = with_new_constant(good, number);
        cl_program program = program_of(in.context, source, i == 0 ? "P1" : "P2");
        subject of = {.object = program};
        build(program, "-DBINARIES");
        check_source(program, source);
        probe_all(ask_program, &of, when_built, COUNT(when_built));
        say_build(program, in.device);
        check_program(&in, program, "alpha", 2);
        if (loads_binaries) {
            size_t size;
            unsigned char *binary = binary_of(program, &size);
            load_and_check(&in, binary, size);
            free(binary);
        }
        clReleaseProgram(program);
        free(source);
    }
    scene_close(&in);
}

static void defeating_constant(void)
{
    build_with_constants(0);
}

static void binaries_with_constant(void)
{
    build_with_constants(1);
}

/* The second program of each pair names the constant of the first, so only one of them builds. */
static void named_constant(void)
{
    /* Between these strings is the number. */
    static const char *const uses[][3] = {
        {"extern __constant int pyopencl_defeat_cache_",
         ";\n__kernel void f(__global int *out)\n"
         "{ out[get_global_id(0)] = get_global_id(0) + pyopencl_defeat_cache_",
         "; }"},
        {"#define JOIN(a, b) JOINED(a, b)\n#define JOINED(a, b) a##b\n"
         "#define NAME JOIN(pyopencl_defeat_, cache_",
         ")\nextern __constant int NAME;\n"
         "__kernel void f(__global int *out) { out[get_global_id(0)] = get_global_id(0) + NAME; } "
         "//",
         ""},
        {"extern __constant int pyopencl_defeat\\\n_cache_",
         ";\n__kernel void f(__global int *out)\n"
         "{ out[get_global_id(0)] = get_global_id(0) + pyopencl_defeat_\\\ncache_",
         "; }"},
    };
    scene in = scene_open();
    for (size_t i = 0; i < COUNT(uses); i++) {
        char number[NUMBER_ROOM], other[NUMBER_ROOM], text[512];
        free(with_new_constant("", number));
        snprintf(text, sizeof text, "%s%s%s%s%s", uses[i][0], number, uses[i][1], number,
                 uses[i][2]);
        char *first = NULL, *second = with_new_constant(text, other);
        if (asprintf(&first, "%s" CONSTANT "%s = 0;", text, number) < 0) {
            abort();
        }
        cl_program program = program_of(in.context, first, "P1");
        build(program, NULL);
        check_program(&in, program, "f", 0);
        clReleaseProgram(program);
        program = program_of(in.context, second, "P2");
        build(program, NULL);
        clReleaseProgram(program);
        free(first);
        free(second);
    }
    scene_close(&in);
}

/* Asks for the constant by its name. */
static void pointer_to_constant(void)
{
    typedef cl_int (*get_variable_fn)(cl_device_id, cl_program, const char *, size_t *, void **);
    scene in = scene_open();
    get_variable_fn function = (get_variable_fn)clGetExtensionFunctionAddressForPlatform(
        setting.platform, "clGetDeviceGlobalVariablePointerINTEL");
    say("the function is %s", function ? "there" : "missing");
    for (int i = 0; function && i < 2; i++) {
        char number[NUMBER_ROOM], name[64];
        char *source = with_new_constant(good, number);
        cl_program program = program_of(in.context, source, i == 0 ? "P1" : "P2");
        build(program, "-DPOINTERS");
        snprintf(name, sizeof name, "pyopencl_defeat_cache_%s", number);
        size_t size = 0;
        void *pointer = NULL;
        say_status(function(in.device, program, name, &size, &pointer), "ask for its constant");
        say("size %zu", size);
        check_program(&in, program, "alpha", 2);
        clReleaseProgram(program);
        free(source);
    }
    scene_close(&in);
}

const conformance_case query_cases[] = {
    {"queries.unbuilt", unbuilt, 0},
    {"queries.built", built, 1},
    {"queries.source-in-pieces", source_in_pieces, 1},
    {"queries.binaries", binaries, 0},
    {"queries.binaries-protocol", binaries_protocol, 1},
    {"queries.unknown", unknown_queries, 1},
    {"queries.defeating-constant", defeating_constant, 1},
    {"queries.binaries-with-constant", binaries_with_constant, 0},
    {"queries.named-constant", named_constant, 0},
    {"queries.pointer-to-constant", pointer_to_constant, 0},
    {NULL, NULL, 0},
};
