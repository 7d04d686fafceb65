/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the cases of the conformance program share. Each case drives one part of
 * OpenCL and writes the results: a transcript without addresses, times or generated names, so that
 * two runs can be compared line by line. The cases name the handles that appear in it.
 */
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <stddef.h>

/* The number of work-items of every kernel. */
enum { ITEMS = 8 };

typedef struct conformance_case {
    const char *name;
    void (*run)(void);

    /* 1 if every build of the case succeeds, and its inputs are known: a cache that has seen the
     * case before may then answer all of it without a build. */
    int cacheable;
} conformance_case;

/* The lists of cases. Each ends with a case without a name. */
extern const conformance_case handle_cases[];
extern const conformance_case build_cases[];
extern const conformance_case callback_cases[];
extern const conformance_case query_cases[];
extern const conformance_case kernel_cases[];
extern const conformance_case device_cases[];
extern const conformance_case rebuild_cases[];
extern const conformance_case lifetime_cases[];
extern const conformance_case link_cases[];
extern const conformance_case linked_cases[];
extern const conformance_case compiled_cases[];
extern const conformance_case binary_cases[];
extern const conformance_case il_cases[];
extern const conformance_case include_cases[];
extern const conformance_case misuse_cases[];
extern const conformance_case thread_cases[];

/* The options of the command line. */
typedef struct conformance_setting {
    cl_platform_id platform;
    cl_device_id device;
    char platform_name[128];
    unsigned cycles;
    int threads; /* the number of threads in cases that start some; at most THREADS_MAX */
} conformance_setting;

enum { THREADS_MAX = 8 };

extern conformance_setting setting;

/* A source in a file that is built, or compiled and linked. */
typedef struct source_run {
    const char *path;
    const char *options;
    int rounds_to_zero;       /* the thread rounds to zero while it builds or compiles */
    const char *first;        /* a file that is built first; NULL: none */
    const char *before;       /* a shell command, run before the compile; NULL: none */
    const char *see;          /* "platform" or "any": how its observer is obtained; NULL: none */
    int is_linked;            /* the fields below are for linking only */
    const char *link_options; /* NULL: none */
    const char *header;       /* a file to embed; NULL: none */
    const char *header_name;  /* NULL: the file's name, without folders */
    const char *between;      /* a shell command, run before the link; NULL: none */
    const char *move_to;      /* the working directory from then on; NULL: unchanged */
} source_run;

/* Builds the source, runs the kernel f, and writes status, first item and log. Returns the exit
 * status. */
int run_source_file(const source_run *wanted);

/* Builds programs, starts long-running work on each, and returns while it runs, with nothing
 * released. @salt makes the programs unique. Returns the exit status. */
int leave_running(const char *salt);

/* Starts a thread that writes to the descriptors 1 and 2 until the process ends. */
void write_blindly(void);

/* Return 1 if the chosen platform is that runtime. Cases skip calls that crash it. */
int runtime_is_pocl(void);
int runtime_is_intel(void);

/* Writes one line to stdout or, after transcript_redirect, to the calling thread's memory. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_status(cl_int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes a line as say does, and makes the whole run fail if @right is 0. */
void check(int right, const char *format, ...) __attribute__((format(printf, 2, 3)));
int checks_failed(void);

/* Redirects the calling thread's lines to memory. transcript_take ends that and returns the text,
 * which the caller frees. */
void transcript_redirect(void);
int transcript_is_redirected(void);
char *transcript_take(void);

const char *status_name(cl_int status);

/* Writes @text with line ends and quotes escaped, and names of temporary files hidden. */
char *printable(const char *text, size_t size);

/* Sets the name of @handle. A later name replaces an earlier one, since addresses are reused. Main
 * thread only. */
void name_handle(const void *handle, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *handle_name(const void *handle);

/* A context of one device, and a queue. */
typedef struct scene {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} scene;

/* Ends the process with an error if the context or the queue cannot be made. */
scene scene_open(void);
scene scene_open_on(cl_device_id device);
void scene_close(scene *opened);

cl_command_queue queue_open(cl_context context, cl_device_id device);

/* Splits the device into sub-devices of one compute unit each, at most two, called D1 and D2.
 * Returns how many. */
cl_uint split_device(cl_device_id ret_devices[2]);

/* Makes a program called @name from one string. */
cl_program program_of(cl_context context, const char *source, const char *name);

/* Builds for all devices and writes the status. */
cl_int build(cl_program program, const char *options);

/* Makes a kernel called @name and writes the status. Returns NULL if that failed. */
cl_kernel kernel_of(cl_program program, const char *function, const char *name);

/* Runs a kernel whose only argument is a buffer of ITEMS ints, zero at first. Returns CL_SUCCESS;
 * otherwise writes what failed. */
cl_int run_kernel(cl_context context, cl_command_queue queue, cl_kernel kernel,
                  int ret_values[ITEMS]);

/* Runs a kernel as run_kernel does, and checks that item i is @first + i. */
void check_kernel(const scene *in, cl_kernel kernel, const char *label, int first);

/* Makes a kernel of @program, checks it in the same way, and releases it. */
void check_program(const scene *in, cl_program program, const char *function, int first);

cl_uint program_references(cl_program program);
cl_uint kernel_references(cl_kernel kernel);
cl_uint context_references(cl_context context);

/* An information query of any kind of object. */
typedef struct subject {
    void *object;
    cl_device_id device;
    cl_uint index;
    size_t input_size;
    const void *input;
} subject;

typedef cl_int (*ask_function)(const subject *of, cl_uint param, size_t size, void *value,
                               size_t *ret_size);

cl_int ask_program(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size);
cl_int ask_build(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size);
cl_int ask_kernel(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size);
cl_int ask_argument(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size);
cl_int ask_work_group(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size);
cl_int ask_sub_group(const subject *of, cl_uint param, size_t size, void *value, size_t *ret_size);

typedef enum value_kind {
    VALUE_TEXT,
    VALUE_LOG, /* text whose length is not written, because it may contain names of temporary files
                */
    VALUE_UINT,
    VALUE_INT,
    VALUE_ULONG,
    VALUE_SIZES,
    VALUE_NONZERO_SIZES, /* sizes that may vary between runs, except whether they are zero */
    VALUE_HANDLES
} value_kind;

typedef struct query {
    const char *name;
    cl_uint param;
    value_kind kind;
} query;

#define QUERY(param, kind)                                                                         \
    {                                                                                              \
#param, param, kind                                                                        \
    }

/* Queries without a buffer, with one that fits, with one too short and with one too large, and
 * writes the answers. */
void probe(ask_function ask, const subject *of, const query *question);
void probe_all(ask_function ask, const subject *of, const query *questions, size_t count);

/* Makes the queries of a program whose answers depend on a build, for one device. */
void probe_build(cl_program program, cl_device_id device);

/* Writes status, options and log in one line. */
void say_build(cl_program program, cl_device_id device);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
