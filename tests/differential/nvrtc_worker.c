/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles the programs of a job (job.h) with NVRTC and writes a line for each, with every status,
 * and the size and digest of every output. Further steps:
 *
 *     open PATH, open-again PATH   opens the library with dlopen, or in a new namespace
 *     version                      calls nvrtcVersion
 *     name, source, header, header.content, expression, option      describe a program
 *     run                          compiles it
 *     first OPTION                 compiles a small program with that option, without a line
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

typedef struct nvrtc_program *program;

static struct {
    int (*version)(int *, int *);
    int (*create)(program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*destroy)(program *);
    int (*add_expression)(program, const char *);
    int (*compile)(program, int, const char *const *);
    int (*lowered_name)(program, const char *, const char **);
} nvrtc;

enum { ANSWER_COUNT = 5, LIST_MAX = 256 };

static const char *const answer_names[ANSWER_COUNT][3] = {
    {"log", "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"},
    {"ptx", "nvrtcGetPTXSize", "nvrtcGetPTX"},
    {"cubin", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"},
    {"ltoir", "nvrtcGetLTOIRSize", "nvrtcGetLTOIR"},
    {"optixir", "nvrtcGetOptiXIRSize", "nvrtcGetOptiXIR"},
};

static struct {
    int (*size)(program, size_t *);
    int (*get)(program, char *);
} answers[ANSWER_COUNT];

static void open_library(void *library, const char *path)
{
    if (!library) {
        job_fail(path, dlerror());
    }
    /* POSIX guarantees that an object pointer can be converted to a function pointer. */
    *(void **)&nvrtc.version = dlsym(library, "nvrtcVersion");
    *(void **)&nvrtc.create = dlsym(library, "nvrtcCreateProgram");
    *(void **)&nvrtc.destroy = dlsym(library, "nvrtcDestroyProgram");
    *(void **)&nvrtc.add_expression = dlsym(library, "nvrtcAddNameExpression");
    *(void **)&nvrtc.compile = dlsym(library, "nvrtcCompileProgram");
    *(void **)&nvrtc.lowered_name = dlsym(library, "nvrtcGetLoweredName");
    for (size_t i = 0; i < ANSWER_COUNT; i++) {
        *(void **)&answers[i].size = dlsym(library, answer_names[i][1]);
        *(void **)&answers[i].get = dlsym(library, answer_names[i][2]);
    }
    if (!nvrtc.compile) {
        job_fail(path, "no NVRTC");
    }
}

/* The program being described. */
static struct {
    const char *name, *source;
    const char *header_names[LIST_MAX], *headers[LIST_MAX], *expressions[LIST_MAX],
        *options[LIST_MAX];
    int header_count, expression_count, option_count;
} described;

static void append(const char **list, int *count, const char *text)
{
    if (*count == LIST_MAX) {
        job_fail("a program", "too long a list");
    }
    list[(*count)++] = text;
}

static bool describe(const job_step *step)
{
    if (job_is(step, "name")) {
        described.name = step->bytes;
    } else if (job_is(step, "source")) {
        described.source = step->bytes;
    } else if (job_is(step, "header")) {
        append(described.header_names, &described.header_count, step->bytes);
    } else if (job_is(step, "header.content")) {
        described.headers[described.header_count - 1] = step->bytes;
    } else if (job_is(step, "expression")) {
        append(described.expressions, &described.expression_count, step->bytes);
    } else if (job_is(step, "option")) {
        append(described.options, &described.option_count, step->bytes);
    } else {
        return false;
    }
    return true;
}

static void add_answers(program made)
{
    for (size_t i = 0; i < ANSWER_COUNT; i++) {
        size_t size = 0;
        if (!answers[i].size) {
            continue;
        }
        const int status = answers[i].size(made, &size);
        char *bytes = status == 0 ? calloc(1, size + 1) : NULL;
        if (bytes && answers[i].get(made, bytes) == 0) {
            job_add_bytes(answer_names[i][0], bytes, size);
        } else {
            job_add_number(answer_names[i][0], status);
        }
        free(bytes);
    }
    for (int i = 0; i < described.expression_count; i++) {
        const char *lowered = NULL;
        char name[16];
        snprintf(name, sizeof name, "name%d", i);
        const int status = nvrtc.lowered_name(made, described.expressions[i], &lowered);
        if (status == 0 && lowered) {
            job_add_bytes(name, lowered, strlen(lowered));
        } else {
            job_add_number(name, status);
        }
    }
}

static void compile(void)
{
    program made = NULL;
    int status = nvrtc.create(&made, described.source, described.name, described.header_count,
                              described.headers, described.header_names);
    job_begin_line();
    job_add_number("create", status);
    if (status == 0) {
        for (int i = 0; i < described.expression_count; i++) {
            nvrtc.add_expression(made, described.expressions[i]);
        }
        status = nvrtc.compile(made, described.option_count, described.options);
        job_add_number("compile", status);
        add_answers(made);
        nvrtc.destroy(&made);
    }
    job_end_line();
}

/* Trace lines before the line "first" belong to this program. */
static void compile_first(void)
{
    program made = NULL;
    nvrtc.create(&made, "extern \"C\" __global__ void first(int *x) { *x = 1; }", "first.cu", 0,
                 NULL, NULL);
    nvrtc.compile(made, described.option_count, described.options);
    nvrtc.destroy(&made);
    puts("first");
    fflush(stdout);
}

static void get_version(void)
{
    int major = 0, minor = 0;
    nvrtc.version(&major, &minor);
}

int main(void)
{
    job_step step;
    job_read();
    while (job_next(&step)) {
        if (job_is(&step, "open")) {
            open_library(dlopen(step.bytes, RTLD_NOW), step.bytes);
        } else if (job_is(&step, "open-again")) {
            open_library(dlmopen(LM_ID_NEWLM, step.bytes, RTLD_NOW), step.bytes);
        } else if (job_is(&step, "version")) {
            get_version();
        } else if (job_is(&step, "first")) {
            append(described.options, &described.option_count, step.bytes);
            job_call(compile_first);
            memset(&described, 0, sizeof described);
        } else if (job_is(&step, "run")) {
            job_call(compile);
            memset(&described, 0, sizeof described);
        } else if (!job_change_world(&step) && !describe(&step)) {
            job_fail("no such step", step.name);
        }
    }
    /* The library stays open: other tests cover closing it and its exit handlers. */
    return 0;
}
