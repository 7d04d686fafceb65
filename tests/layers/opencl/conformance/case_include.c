/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that include files: from the working directory, from a folder that -I names, and through
 * a macro that -D defines. Each case works in a separate folder, which becomes the working
 * directory.
 */
#include "conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A scratch folder that is the working directory until it is removed. */
typedef struct folder {
    char path[64];
    int before; /* a descriptor of the previous working directory */
} folder;

static void folder_enter(folder *entered)
{
    strcpy(entered->path, "/tmp/conformance-XXXXXX");
    entered->before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdtemp(entered->path) == NULL || chdir(entered->path) != 0 || mkdir("sub", 0700) != 0) {
        perror("opencl_conformance: scratch folder");
        exit(2);
    }
}

static void folder_leave(folder *entered)
{
    unlink("h.h");
    unlink("inner.h");
    unlink("sub/h.h");
    unlink("sub/inner.h");
    rmdir("sub");
    if (fchdir(entered->before) != 0 || rmdir(entered->path) != 0) {
        perror("opencl_conformance: scratch folder");
    }
    close(entered->before);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror("opencl_conformance: write");
        exit(2);
    }
}

static const char by_name[] =
    "#include \"h.h\"\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + get_global_id(0); }\n";

static const char by_macro[] =
    "#include HEADER\n"
    "__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + get_global_id(0); }\n";

static void build_and_check(const scene *in, const char *source, const char *options, int first)
{
    cl_program program = program_of(in->context, source, "P");
    if (build(program, options) == CL_SUCCESS) {
        check_program(in, program, "f", first);
    }
    say_build(program, in->device);
    clReleaseProgram(program);
}

/* Builds and runs a program, and writes its result without checking it: a runtime with its own
 * cache may not notice that a file has changed. */
static void build_and_say(const scene *in, const char *source, const char *options)
{
    int values[ITEMS] = {0};
    cl_program program = program_of(in->context, source, "P");
    if (build(program, options) == CL_SUCCESS) {
        cl_kernel kernel = clCreateKernel(program, "f", NULL);
        cl_int status = run_kernel(in->context, in->queue, kernel, values);
        say_status(status, "f gives %d", values[0]);
        clReleaseKernel(kernel);
    }
    clReleaseProgram(program);
}

static void working_directory(void)
{
    folder entered;
    folder_enter(&entered);
    scene in = scene_open();
    write_file("h.h", "#define BASE 10\n");
    build_and_check(&in, by_name, NULL, 10);
    build_and_check(&in, by_name, "", 10);
    scene_close(&in);
    folder_leave(&entered);
}

static void named_folder(void)
{
    folder entered;
    folder_enter(&entered);
    scene in = scene_open();
    write_file("sub/h.h", "#include \"inner.h\"\n#define BASE (INNER + 1)\n");
    write_file("sub/inner.h", "#define INNER 20\n");
    build_and_check(&in, by_name, "-Isub", 21);
    build_and_check(&in, by_name, "-I sub", 21);
    build_and_check(&in, by_name, "-I ./sub -DUNUSED", 21);
    scene_close(&in);
    folder_leave(&entered);
}

/* A macro on the command line names the header. */
static void macro(void)
{
    folder entered;
    folder_enter(&entered);
    scene in = scene_open();
    write_file("sub/h.h", "#define BASE 30\n");
    build_and_check(&in, by_macro, "-Isub -DHEADER=<h.h>", 30);
    build_and_check(&in, by_macro, "-DHEADER=<h.h> -I sub -DAGAIN", 30);
    scene_close(&in);
    folder_leave(&entered);
}

/* Runtimes treat quotes in options differently, and also <…> if the working directory has a file of
 * that name. */
static void macro_with_quotes(void)
{
    folder entered;
    folder_enter(&entered);
    scene in = scene_open();
    write_file("h.h", "#define BASE 31\n");
    write_file("sub/h.h", "#define BASE 32\n");
    build_and_say(&in, by_macro, "-DHEADER=\"h.h\"");
    build_and_say(&in, by_macro, "-DHEADER=\\\"h.h\\\"");
    build_and_say(&in, by_macro, "-D HEADER=\"\\\"h.h\\\"\"");
    build_and_say(&in, by_macro, "-Isub -DHEADER=<h.h>");
    scene_close(&in);
    folder_leave(&entered);
}

/* The header changes between two builds of one process. */
static void changed(void)
{
    folder entered;
    folder_enter(&entered);
    scene in = scene_open();
    write_file("h.h", "#define BASE 40\n");
    build_and_say(&in, by_name, "-DCHANGED");
    write_file("h.h", "#define BASE 41\n");
    build_and_say(&in, by_name, "-DCHANGED");
    write_file("h.h", "#define BASE 40\n");
    build_and_say(&in, by_name, "-DCHANGED");
    scene_close(&in);
    folder_leave(&entered);
}

/* The header is missing, and is created later. */
static void missing(void)
{
    folder entered;
    folder_enter(&entered);
    scene in = scene_open();
    cl_program program = program_of(in.context, by_name, "P1");
    build(program, "-DMISSING");
    say_build(program, in.device);
    clReleaseProgram(program);
    write_file("h.h", "#define BASE 50\n");
    build_and_check(&in, by_name, "-DMISSING", 50);
    scene_close(&in);
    folder_leave(&entered);
}

const conformance_case include_cases[] = {
    {"include.working-directory", working_directory, 1},
    {"include.named-folder", named_folder, 1},
    {"include.macro", macro, 1},
    {"include.macro-with-quotes", macro_with_quotes, 0},
    {"include.changed", changed, 1},
    {"include.missing", missing, 0},
    {NULL, NULL, 0},
};
