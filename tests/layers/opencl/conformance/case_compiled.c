/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled programs: their answers to queries, and the effects of calls other than links on them.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char user_source[] =
    "#include \"shared.h\"\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = base() + EXTRA + "
    "get_global_id(0); }\n";
static const char base_source[] = "int base(void) { return 400; }\n";
static const char header_one[] = "int base(void);\n#define EXTRA 1\n";
static const char header_two[] = "int base(void);\n#define EXTRA 2\n";

static cl_int compile_quietly(cl_program program, cl_program header, const char *options)
{
    const char *name = "shared.h";
    return clCompileProgram(program, 0, NULL, options, header != NULL ? 1 : 0,
                            header != NULL ? &header : NULL, header != NULL ? &name : NULL, NULL,
                            NULL);
}

static void compile(cl_program program, cl_program header, const char *options)
{
    say_status(compile_quietly(program, header, options), "compile %s with header %s and %s",
               handle_name(program), handle_name(header), options != NULL ? options : "NULL");
}

/* Compiles a program with a header, and then removes the header. */
static cl_program compiled_of(const scene *in, const char *source, const char *header,
                              const char *options, const char *name)
{
    cl_program program = program_of(in->context, source, name);
    cl_program included = header != NULL ? program_of(in->context, header, "H") : NULL;
    compile(program, included, options);
    if (included != NULL) {
        clReleaseProgram(included);
    }
    return program;
}

/* Makes a program whose inputs a cache cannot know, because it was compiled twice. So the driver
 * has to link it. */
static cl_program base_of_the_driver(const scene *in)
{
    cl_program base = compiled_of(in, base_source, NULL, "-DONCE", "W");
    compile(base, NULL, "-DTWICE");
    return base;
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

/* Links a program with base(), and runs its kernel f. */
static void check_linked(const scene *in, cl_program program, cl_program base, int first)
{
    const cl_program inputs[] = {program, base};
    cl_program linked = link_of(in, NULL, 2, inputs, "L");
    if (linked != NULL) {
        check_program(in, linked, "f", first);
        clReleaseProgram(linked);
    }
}

/* ---- answers ---- */

static void ask_what_is_compiled(const scene *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT), QUERY(CL_PROGRAM_CONTEXT, VALUE_HANDLES),
        QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),     QUERY(CL_PROGRAM_DEVICES, VALUE_HANDLES),
        QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),
    };
    static const query of_build[] = {
        QUERY(CL_PROGRAM_BUILD_STATUS, VALUE_INT),
        QUERY(CL_PROGRAM_BUILD_OPTIONS, VALUE_TEXT),
        QUERY(CL_PROGRAM_BUILD_LOG, VALUE_LOG),
        QUERY(CL_PROGRAM_BINARY_TYPE, VALUE_UINT),
    };
    subject of = {.object = program, .device = in->device};
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    probe_all(ask_build, &of, of_build, COUNT(of_build));
    say("references of the context: %u", context_references(in->context));
}

static void answers(void)
{
    static const char *const options[] = {NULL, "", "  -DA=1  -w ", "-cl-kernel-arg-info"};
    static const char warned[] = "#warning reported\n";
    scene in = scene_open();
    for (size_t i = 0; i < COUNT(options); i++) {
        cl_program program = compiled_of(&in, user_source, header_one, options[i], "U");
        ask_what_is_compiled(&in, program);
        clReleaseProgram(program);
    }
    cl_program program = compiled_of(&in, base_source, NULL, NULL, "V");
    ask_what_is_compiled(&in, program);
    clReleaseProgram(program);
    program = compiled_of(&in, warned, NULL, NULL, "V");
    ask_what_is_compiled(&in, program);
    clReleaseProgram(program);
    scene_close(&in);
}

/* Makes each query on a separate program. */
static void other_questions(void)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
    };
    static const query of_build[] = {
        QUERY(CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE, VALUE_ULONG),
        QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),
    };
    scene in = scene_open();
    cl_program base = compiled_of(&in, base_source, NULL, NULL, "V");
    for (size_t i = 0; i <= COUNT(of_program) + COUNT(of_build); i++) {
        cl_program program = compiled_of(&in, user_source, header_two, "-DOTHER", "U");
        subject of = {.object = program, .device = in.device};
        if (i < COUNT(of_program)) {
            probe(ask_program, &of, &of_program[i]);
        } else if (i < COUNT(of_program) + COUNT(of_build)) {
            probe(ask_build, &of, &of_build[i - COUNT(of_program)]);
        } else if (!runtime_is_pocl()) {
            /* PoCL creates the kernel and crashes. */
            kernel_of(program, "f", "K");
        }
        ask_what_is_compiled(&in, program);
        check_linked(&in, program, base, 402);
        clReleaseProgram(program);
    }
    clReleaseProgram(base);
    scene_close(&in);
}

static void binaries(void)
{
    enum { ROOM = 1 << 16 };
    scene in = scene_open();
    cl_program program = compiled_of(&in, base_source, NULL, "-DBINARIES", "V");
    size_t size = 0;
    unsigned char bytes[ROOM];
    unsigned char *place = bytes;
    const unsigned char *given = bytes;
    cl_int status = 99;
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    check(size > 0 && size <= ROOM, "an object is small");
    say_status(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof place, &place, NULL),
               "binaries");
    cl_program loaded =
        clCreateProgramWithBinary(in.context, 1, &in.device, &size, &given, NULL, &status);
    say_status(status, "load it");
    cl_program user = compiled_of(&in, user_source, header_one, "-DBINARIES", "U");
    check_linked(&in, user, loaded, 401);
    clReleaseProgram(user);
    clReleaseProgram(loaded);
    clReleaseProgram(program);
    scene_close(&in);
}

/* ---- calls after a compile ---- */

static void built(void)
{
    static const char source[] = "#include \"shared.h\"\n"
                                 "#ifndef MORE\n#define MORE 0\n#endif\n"
                                 "__kernel void f(__global int *out)"
                                 "{ out[get_global_id(0)] = EXTRA + MORE + get_global_id(0); }\n";
    scene in = scene_open();
    for (int i = 0; i < 2; i++) {
        cl_program program = compiled_of(&in, source, header_two, "-DMORE=10", "P");
        say_status(clBuildProgram(program, i, i == 0 ? NULL : &in.device, "-DMORE=20", NULL, NULL),
                   "build");
        say_build(program, in.device);
        cl_int status = 99;
        cl_kernel kernel = clCreateKernel(program, "f", &status);
        say_status(status, "kernel");
        if (kernel != NULL) {
            int values[ITEMS];
            status = run_kernel(in.context, in.queue, kernel, values);
            say_status(status, "f gives %d", values[0]);
            clReleaseKernel(kernel);
        }
        compile(program, NULL, "-DEXTRA=1");
        say_build(program, in.device);
        clReleaseProgram(program);
    }
    scene_close(&in);
}

static void compiled_again(void)
{
    scene in = scene_open();
    cl_program base = compiled_of(&in, base_source, NULL, NULL, "V");
    cl_program headers[] = {program_of(in.context, header_one, "H1"),
                            program_of(in.context, header_two, "H2")};
    static const char *const options[] = {"-DAGAIN", "-DANOTHER"};
    for (int i = 0; i < 2; i++) {
        cl_program program = program_of(in.context, user_source, "U");
        compile(program, headers[0], "-DAGAIN");
        compile(program, headers[1], options[i]);
        say_build(program, in.device);
        const cl_program inputs[] = {program, base};
        cl_program linked = link_of(&in, NULL, 2, inputs, "L");
        int values[ITEMS] = {0};
        cl_kernel kernel = kernel_of(linked, "f", "K");
        cl_int status = run_kernel(in.context, in.queue, kernel, values);
        say_status(status, "f gives %d", values[0]);
        clReleaseKernel(kernel);
        clReleaseProgram(linked);
        compile(program, NULL, options[i]);
        say_build(program, in.device);
        clReleaseProgram(program);
    }
    clReleaseProgram(headers[0]);
    clReleaseProgram(headers[1]);
    clReleaseProgram(base);
    scene_close(&in);
}

/* The driver links two programs twice: one whose link was found, and one that it compiled
 * itself. */
static void links_of_the_driver(void)
{
    scene in = scene_open();
    cl_program base = base_of_the_driver(&in);
    cl_program program = compiled_of(&in, user_source, header_one, "-DMIXED", "U");
    say("references: U %u, W %u", program_references(program), program_references(base));
    for (int i = 0; i < 2; i++) {
        check_linked(&in, program, base, 401);
        ask_what_is_compiled(&in, program);
    }
    clReleaseProgram(program);
    clReleaseProgram(base);
    scene_close(&in);
}

static void links_that_fail(void)
{
    scene in = scene_open();
    cl_program base = compiled_of(&in, base_source, NULL, NULL, "V");
    cl_program program = compiled_of(&in, user_source, header_two, "-DFAIL", "U");
    if (!runtime_is_pocl()) {
        /* PoCL links it, and crashes when the kernel is created. */
        cl_program linked = link_of(&in, NULL, 1, &program, "L");
        if (linked != NULL) {
            clReleaseProgram(linked);
        }
    }
    say_build(program, in.device);
    check_linked(&in, program, base, 402);
    clReleaseProgram(program);
    clReleaseProgram(base);
    scene_close(&in);
}

static void libraries(void)
{
    scene in = scene_open();
    cl_program base = compiled_of(&in, base_source, NULL, "-DLIBRARY", "V");
    cl_program program = compiled_of(&in, user_source, header_one, "-DLIBRARY", "U");
    cl_program library = link_of(&in, "-create-library", 1, &base, "LIBRARY");
    if (library != NULL) {
        check_linked(&in, program, library, 401);
        clReleaseProgram(library);
    }
    check_linked(&in, program, base, 401);
    clReleaseProgram(program);
    clReleaseProgram(base);
    scene_close(&in);
}

static void lifetime(void)
{
    scene in = scene_open();
    cl_program header = program_of(in.context, header_one, "H1");
    cl_program program = program_of(in.context, user_source, "U");
    compile(program, header, "-DLIFETIME");
    say("references: U %u, H1 %u", program_references(program), program_references(header));
    say_status(clRetainProgram(program), "retain U");
    say_status(clReleaseProgram(header), "release H1");
    say_status(clReleaseProgram(program), "release U");
    say("references: U %u", program_references(program));
    cl_program base = compiled_of(&in, base_source, NULL, NULL, "V");
    const cl_program inputs[] = {program, base};
    cl_program linked = link_of(&in, NULL, 2, inputs, "L");
    say("references: U %u, V %u", program_references(program), program_references(base));
    say_status(clReleaseProgram(program), "release U for good");
    say_status(clReleaseProgram(base), "release V for good");
    check_program(&in, linked, "f", 401);
    clReleaseProgram(linked);
    scene_close(&in);
}

/* If kernels do not retain their program, a released program can't be used as a header any more. */
static void header_released(void)
{
    static const char header_and_kernel[] =
        "int base(void);\n#define EXTRA 3\n#ifdef KERNEL\n"
        "__kernel void h(__global int *out) { out[get_global_id(0)] = 410 + get_global_id(0); }\n"
        "#endif\n";
    scene in = scene_open();
    if (!runtime_is_intel()) {
        say("skipped: this runtime may read a released header");
        scene_close(&in);
        return;
    }
    cl_program header = program_of(in.context, header_and_kernel, "H");
    build(header, "-DKERNEL");
    cl_kernel kernel = kernel_of(header, "h", "K");
    clReleaseProgram(header);
    cl_program program = program_of(in.context, user_source, "U");
    compile(program, header, NULL);
    check_kernel(&in, kernel, "K", 410);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    scene_close(&in);
}

/* ---- devices ---- */

static void devices(void)
{
    static const char source[] =
        "__kernel void f(__global int *out) { out[get_global_id(0)] = 420 + get_global_id(0); }\n";
    cl_device_id parts[2];
    if (split_device(parts) != 2) {
        return;
    }
    cl_int status = 99;
    cl_context context = clCreateContext(NULL, 2, parts, NULL, NULL, &status);
    say_status(status, "a context of both");
    for (int i = 0; i < 2; i++) {
        cl_program object = program_of(context, source, "U");
        say_status(clCompileProgram(object, 1, &parts[i], "-DPART", 0, NULL, NULL, NULL, NULL),
                   "compile for D%d", i + 1);
        say_build(object, parts[i]);
        cl_program linked =
            clLinkProgram(context, 1, &parts[i], NULL, 1, &object, NULL, NULL, &status);
        say_status(status, "link for D%d", i + 1);
        name_handle(linked, "L");
        say_build(linked, parts[i]);
        clReleaseProgram(linked);
        say_build(object, parts[1 - i]);
        say_build(object, parts[i]);
        clReleaseProgram(object);
    }
    clReleaseContext(context);
    clReleaseDevice(parts[0]);
    clReleaseDevice(parts[1]);
}

static void wrong_arguments(void)
{
    scene in = scene_open();
    cl_program base = compiled_of(&in, base_source, NULL, "-DWRONG", "V");
    say_status(clCompileProgram(base, 1, NULL, NULL, 0, NULL, NULL, NULL, NULL),
               "compile for no list");
    say_status(clCompileProgram(base, 0, NULL, NULL, 0, NULL, NULL, NULL, &in),
               "compile with user data, but no callback");
    say_status(clBuildProgram(base, 1, NULL, NULL, NULL, NULL), "build for no list");
    say_build(base, in.device);
    clReleaseProgram(base);
    scene_close(&in);
}

/* ---- notifications ---- */

typedef struct notice {
    int count;
    int is_same_thread;
    pthread_t caller;
    cl_int status;
    int releases;
    const char *compiles; /* compile again, with these options */
} notice;

static void CL_CALLBACK notified(cl_program program, void *user)
{
    notice *note = user;
    note->count++;
    note->is_same_thread = pthread_equal(note->caller, pthread_self());
    clGetProgramBuildInfo(program, setting.device, CL_PROGRAM_BUILD_STATUS, sizeof note->status,
                          &note->status, NULL);
    if (note->compiles != NULL) {
        clCompileProgram(program, 0, NULL, note->compiles, 0, NULL, NULL, NULL, NULL);
    }
    if (note->releases) {
        clReleaseProgram(program);
    }
}

static cl_program compile_with_notice(const scene *in, notice *note)
{
    cl_program program = program_of(in->context, base_source, "V");
    note->caller = pthread_self();
    note->status = 99;
    say_status(clCompileProgram(program, 0, NULL, "-DNOTIFIED", 0, NULL, NULL, notified, note),
               "compile with a notification");
    say("notified %d times, %sby this thread, status %d", note->count,
        note->is_same_thread ? "" : "not ", note->status);
    return program;
}

static void notifications(void)
{
    scene in = scene_open();
    cl_program user = compiled_of(&in, user_source, header_one, "-DNOTIFIED", "U");
    cl_program base = compile_with_notice(&in, &(notice){0});
    check_linked(&in, user, base, 401);
    clReleaseProgram(base);
    if (runtime_is_intel()) {
        compile_with_notice(&in, &(notice){.releases = 1});
        for (int i = 0; i < 2; i++) {
            base = compile_with_notice(&in, &(notice){.compiles = i == 0 ? "-DNOTIFIED" : "-DM"});
            say_build(base, in.device);
            check_linked(&in, user, base, 401);
            clReleaseProgram(base);
        }
    }
    clReleaseProgram(user);
    scene_close(&in);
}

/* ---- threads ---- */

typedef struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    scene in;
    cl_program base;  /* the same program for all threads */
    int is_at_driver; /* the base's inputs are unknown, so no cache can answer its links */
    int number;
    int status_worst;
    int value;
} worker;

/* Compiles a separate program, and links it with the shared one. */
static void *compile_and_link(void *user)
{
    worker *self = user;
    char source[160];
    int values[ITEMS] = {0};
    cl_int status = 99;
    snprintf(source, sizeof source,
             "int base(void);\n__kernel void f(__global int *out)"
             "{ out[get_global_id(0)] = base() + %d + get_global_id(0); }\n",
             self->number / 2);
    const char *text = source;
    cl_program parts[2] = {clCreateProgramWithSource(self->in.context, 1, &text, NULL, &status),
                           self->base};
    pthread_barrier_wait(self->start);
    self->status_worst = compile_quietly(parts[0], NULL, NULL);
    if (self->is_at_driver) {
        compile_quietly(parts[0], NULL, "-DTWICE");
    }
    cl_program linked =
        clLinkProgram(self->in.context, 0, NULL, NULL, 2, parts, NULL, NULL, &status);
    if (linked != NULL) {
        cl_kernel kernel = clCreateKernel(linked, "f", NULL);
        status = run_kernel(self->in.context, self->in.queue, kernel, values);
        clReleaseKernel(kernel);
        clReleaseProgram(linked);
    }
    clReleaseProgram(parts[0]);
    self->value = values[0];
    self->status_worst = self->status_worst != CL_SUCCESS ? self->status_worst : status;
    return NULL;
}

/* Compiles the same program in each thread. A driver refuses a compile of a program while another
 * compile of it is running, and may refuse later ones. */
static void *compile_one(void *user)
{
    worker *self = user;
    pthread_barrier_wait(self->start);
    self->status_worst = compile_quietly(self->base, NULL, "-DTHREADS");
    return NULL;
}

static void run_workers(const scene *in, cl_program base, int is_at_driver,
                        worker workers[THREADS_MAX], void *(*work)(void *))
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)setting.threads);
    for (int i = 0; i < setting.threads; i++) {
        workers[i] = (worker){
            .start = &start, .in = *in, .base = base, .is_at_driver = is_at_driver, .number = i};
        workers[i].in.queue = queue_open(in->context, in->device);
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < setting.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        clReleaseCommandQueue(workers[i].in.queue);
    }
    pthread_barrier_destroy(&start);
}

static void threads_with(const scene *in, cl_program base, int is_at_driver)
{
    worker workers[THREADS_MAX];
    run_workers(in, base, is_at_driver, workers, compile_and_link);
    for (int i = 0; i < setting.threads; i++) {
        check(workers[i].status_worst == CL_SUCCESS && workers[i].value == 400 + i / 2,
              "thread %d: %s, %d", i, status_name(workers[i].status_worst), workers[i].value);
    }
    say("references: %u", program_references(base));
}

static void threads(void)
{
    scene in = scene_open();
    if (runtime_is_pocl()) {
        say("skipped: this runtime's linker is for one thread");
    } else {
        cl_program base = compiled_of(&in, base_source, NULL, "-DTHREADS", "V");
        threads_with(&in, base, 0);
        clReleaseProgram(base);
    }
    scene_close(&in);
}

static void threads_at_the_driver(void)
{
    scene in = scene_open();
    if (runtime_is_pocl()) {
        say("skipped: this runtime's linker is for one thread");
        scene_close(&in);
        return;
    }
    for (int i = 0; i < 2; i++) {
        worker workers[THREADS_MAX];
        char options[64];
        snprintf(options, sizeof options, "-DROUND=%d", i);
        cl_program base = compiled_of(&in, base_source, NULL, options, "V");
        threads_with(&in, base, 1);
        cl_program one = program_of(in.context, base_source, "X");
        run_workers(&in, one, 0, workers, compile_one);
        int successes = 0;
        for (int k = 0; k < setting.threads; k++) {
            successes += workers[k].status_worst == CL_SUCCESS;
        }
        check(successes > 0, "one thread compiles");
        threads_with(&in, one, i);
        clReleaseProgram(one);
        clReleaseProgram(base);
    }
    scene_close(&in);
}

const conformance_case compiled_cases[] = {
    {"compiled.answers", answers, 0},
    {"compiled.other-queries", other_questions, 1},
    {"compiled.binaries", binaries, 0},
    {"compiled.built", built, 0},
    {"compiled.twice", compiled_again, 0},
    {"compiled.links-of-the-driver", links_of_the_driver, 0},
    {"compiled.links-that-fail", links_that_fail, 0},
    {"compiled.libraries", libraries, 0},
    {"compiled.lifetime", lifetime, 1},
    {"compiled.header-released", header_released, 0},
    {"compiled.devices", devices, 1},
    {"compiled.wrong-arguments", wrong_arguments, 0},
    {"compiled.notifications", notifications, 0},
    {"compiled.threads", threads, 1},
    {"compiled.threads-at-the-driver", threads_at_the_driver, 0},
    {NULL, NULL, 0},
};
