/* SPDX-License-Identifier: Apache-2.0
 *
 * clCompileProgram and clLinkProgram.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char user_source[] =
    "#include \"shared.h\"\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = base() + EXTRA + "
    "get_global_id(0); }\n";
static const char library_source[] = "#include \"shared.h\"\nint base(void) { return 200; }\n";
static const char header_one[] = "int base(void);\n#define EXTRA 1\n";
static const char header_two[] = "int base(void);\n#define EXTRA 2\n";

static cl_int compile(cl_program program, cl_program header, const char *options)
{
    const char *name = "shared.h";
    cl_int status = clCompileProgram(program, 0, NULL, options, header != NULL ? 1 : 0,
                                     header != NULL ? &header : NULL, header != NULL ? &name : NULL,
                                     NULL, NULL);
    say_status(status, "compile %s with header %s and %s", handle_name(program),
               handle_name(header), options != NULL ? options : "NULL");
    return status;
}

static cl_program link_of(const scene *in, const char *options, cl_uint count,
                          const cl_program *inputs, const char *name)
{
    cl_int status = 99;
    cl_program linked =
        clLinkProgram(in->context, 0, NULL, options, count, inputs, NULL, NULL, &status);
    say_status(status, "link %s with '%s'%s", name, options != NULL ? options : "NULL",
               linked == NULL ? ", no program" : "");
    if (linked != NULL) {
        name_handle(linked, "%s", name);
    }
    return linked;
}

static void say_linked(const scene *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
        QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
    };
    subject of = {.object = program};
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    probe_build(program, in->device);
}

static void compile_and_link(void)
{
    scene in = scene_open();
    cl_program user = program_of(in.context, user_source, "U");
    cl_program library = program_of(in.context, library_source, "V");
    cl_program headers[2] = {program_of(in.context, header_one, "H1"),
                             program_of(in.context, header_two, "H2")};
    for (int i = 0; i < 2; i++) {
        compile(user, headers[i], i == 0 ? NULL : "-DUNUSED");
        probe_build(user, in.device);
        compile(library, headers[i], "");
        say("references: U %u, V %u, header %u", program_references(user),
            program_references(library), program_references(headers[i]));
        cl_program inputs[] = {user, library};
        cl_program linked = link_of(&in, i == 0 ? NULL : "-cl-fast-relaxed-math", 2, inputs, "L");
        if (linked != NULL) {
            say_linked(&in, linked);
            check_program(&in, linked, "f", 200 + i + 1);
            clReleaseProgram(linked);
        }
    }
    clReleaseProgram(headers[0]);
    clReleaseProgram(headers[1]);
    clReleaseProgram(user);
    clReleaseProgram(library);
    scene_close(&in);
}

static void with_a_library(void)
{
    scene in = scene_open();
    cl_program user = program_of(in.context, user_source, "U");
    cl_program provider = program_of(in.context, library_source, "V");
    cl_program header = program_of(in.context, header_one, "H1");
    compile(user, header, "-DUNUSED");
    compile(provider, header, "-DUNUSED");
    cl_program library = link_of(&in, "-create-library", 1, &provider, "LIBRARY");
    if (library != NULL) {
        cl_program inputs[] = {user, library};
        say_linked(&in, library);
        cl_program linked = link_of(&in, "", 2, inputs, "L");
        if (linked != NULL) {
            say_linked(&in, linked);
            check_program(&in, linked, "f", 201);
            clReleaseProgram(linked);
        }
        clReleaseProgram(library);
    }
    clReleaseProgram(header);
    clReleaseProgram(user);
    clReleaseProgram(provider);
    scene_close(&in);
}

static void compile_one_program(void)
{
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 210 + get_global_id(0); }\n";
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program object = program_of(in.context, source, i == 0 ? "U1" : "U2");
        compile(object, NULL, "-DALONE");
        cl_program linked = link_of(&in, NULL, 1, &object, i == 0 ? "L1" : "L2");
        clReleaseProgram(object);
        if (linked != NULL) {
            say_linked(&in, linked);
            check_program(&in, linked, "f", 210);
            clReleaseProgram(linked);
        }
    }
    scene_close(&in);
}

static void compile_failures(void)
{
    static const char broken[] = "#include \"shared.h\"\nint base(void) { return no_such_name; }\n";
    scene in = scene_open();
    cl_program program = program_of(in.context, broken, "U");
    cl_program header = program_of(in.context, header_one, "H1");
    const char *name = "shared.h";
    compile(program, header, NULL);
    say_build(program, in.device);
    compile(program, NULL, NULL);
    if (!runtime_is_pocl()) {
        /* PoCL reads the missing header. */
        say_status(clCompileProgram(program, 0, NULL, NULL, 1, NULL, &name, NULL, NULL),
                   "a header name without a header");
    }
    say_status(clCompileProgram(program, 0, NULL, NULL, 0, &header, NULL, NULL, NULL),
               "a header that is not counted");
    say_status(clCompileProgram(NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL), "no program");
    clReleaseProgram(header);
    clReleaseProgram(program);
    scene_close(&in);
}

static void link_failures(void)
{
    scene in = scene_open();
    cl_program user = program_of(in.context, user_source, "U");
    cl_program header = program_of(in.context, header_one, "H1");
    cl_program never_compiled = program_of(in.context, library_source, "V");
    compile(user, header, NULL);
    cl_program linked = link_of(&in, NULL, 0, NULL, "L1");
    check(linked == NULL, "nothing links to nothing");
    cl_program inputs[] = {user, never_compiled};
    linked = link_of(&in, NULL, 2, inputs, "L2");
    if (linked != NULL) {
        say_build(linked, in.device);
        clReleaseProgram(linked);
    }
    if (!runtime_is_pocl()) {
        /* PoCL links it, and crashes when the kernel is created. */
        linked = link_of(&in, NULL, 1, &user, "L3");
        if (linked != NULL) {
            say_build(linked, in.device);
            clReleaseProgram(linked);
        }
    }
    clReleaseProgram(never_compiled);
    clReleaseProgram(header);
    clReleaseProgram(user);
    scene_close(&in);
}

typedef struct deferred_callback {
    cl_program program;
    int count;
} deferred_callback;

static void CL_CALLBACK linked_notified(cl_program program, void *user)
{
    deferred_callback *note = user;
    note->program = program;
    note->count++;
}

static void link_callback(void)
{
    scene in = scene_open();
    deferred_callback compiled = {NULL, 0};
    deferred_callback note = {NULL, 0};
    cl_int status = 99;
    cl_program header = program_of(in.context, header_one, "H1");
    cl_program user = program_of(in.context, user_source, "U");
    cl_program library = program_of(in.context, library_source, "V");
    const char *name = "shared.h";
    say_status(clCompileProgram(user, 0, NULL, NULL, 1, &header, &name, linked_notified, &compiled),
               "compile with a notification");
    say("notified %d times, with %s", compiled.count, handle_name(compiled.program));
    compile(library, header, NULL);
    cl_program inputs[] = {user, library};
    cl_program linked =
        clLinkProgram(in.context, 0, NULL, NULL, 2, inputs, linked_notified, &note, &status);
    say_status(status, "link with a notification");
    name_handle(linked, "L");
    say("notified %d times, with %s", note.count, handle_name(note.program));
    check_program(&in, linked, "f", 201);
    clReleaseProgram(linked);
    clReleaseProgram(library);
    clReleaseProgram(user);
    clReleaseProgram(header);
    scene_close(&in);
}

/* A program that was built from source can be linked again, if the runtime allows it. */
static void link_of_a_built_program(void)
{
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 220 + get_global_id(0); }\n";
    scene in = scene_open();
    cl_program program = program_of(in.context, source, "P1");
    build(program, "-DLINKED");
    cl_program linked = link_of(&in, NULL, 1, &program, "L");
    if (linked != NULL) {
        cl_kernel kernel = kernel_of(linked, "f", "K1");
        if (kernel != NULL) {
            check_kernel(&in, kernel, "K1", 220);
            clReleaseKernel(kernel);
        }
        say_build(linked, in.device);
        clReleaseProgram(linked);
    }
    check_program(&in, program, "f", 220);
    clReleaseProgram(program);
    scene_close(&in);
}

/* A program that is given as a header is used only for its source, even if it was built. */
static void built_header(void)
{
    static const char header_and_kernel[] =
        "int base(void);\n#define EXTRA 3\n"
        "#ifndef ONLY_HEADER\n"
        "__kernel void h(__global int *out) { out[get_global_id(0)] = 230 + get_global_id(0); }\n"
        "#endif\n";
    scene in = scene_open();
    cl_program header = program_of(in.context, header_and_kernel, "H1");
    cl_program user = program_of(in.context, user_source, "U");
    cl_program library = program_of(in.context, library_source, "V");
    build(header, "-DBUILT");
    check_program(&in, header, "h", 230);
    compile(user, header, "-DONLY_HEADER");
    compile(library, header, "-DONLY_HEADER");
    cl_program inputs[] = {user, library};
    cl_program linked = link_of(&in, NULL, 2, inputs, "L");
    if (linked != NULL) {
        check_program(&in, linked, "f", 203);
        clReleaseProgram(linked);
    }
    check_program(&in, header, "h", 230);
    clReleaseProgram(library);
    clReleaseProgram(user);
    clReleaseProgram(header);
    scene_close(&in);
}

/* On some runtimes, a build uses the embedded header of an earlier compile. The result belongs only
 * to that program, because the same source has no such header without the compile. */
static void build_after_compile(void)
{
    static const char source[] =
        "#include \"shared.h\"\n"
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 240 + EXTRA + "
        "get_global_id(0); }\n";
    scene in = scene_open();
    cl_program headers[2] = {program_of(in.context, header_one, "H1"),
                             program_of(in.context, header_two, "H2")};
    for (int i = 0; i < 6; i++) {
        cl_program program = program_of(in.context, source, "P");
        if (i % 3 < 2) {
            compile(program, headers[i % 3], NULL);
        }
        cl_int status = build(program, NULL);
        say_build(program, in.device);
        if (status == CL_SUCCESS) {
            check(i % 3 < 2, "only a program with a header is built");
            check_program(&in, program, "f", 240 + i % 3 + 1);
        }
        clReleaseProgram(program);
    }
    clReleaseProgram(headers[0]);
    clReleaseProgram(headers[1]);
    scene_close(&in);
}

const conformance_case link_cases[] = {
    {"link.compile-and-link", compile_and_link, 0},
    {"link.with-a-library", with_a_library, 0},
    {"link.one-program", compile_one_program, 1},
    {"link.compile-failures", compile_failures, 0},
    {"link.link-failures", link_failures, 0},
    {"link.callback", link_callback, 1},
    {"link.of-a-built-program", link_of_a_built_program, 0},
    {"link.built-header", built_header, 0},
    {"link.build-after-compile", build_after_compile, 0},
    {NULL, NULL, 0},
};
