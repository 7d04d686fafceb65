/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles the programs of a job (job.h) with NVRTC or HIPRTC, and writes a line for each, with
 * every status, and the size and digest of every output. Further steps:
 *
 *     open PATH, open-again PATH   opens the library with dlopen, or in a new namespace
 *     version                      calls nvrtcVersion
 *     name, source, header, header.content, expression, option      describe a program
 *     open-linker PATH             opens nvJitLink
 *     link option                  an option with which nvJitLink links
 *     link                         nvJitLink links the program's PTX
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

enum { PTX = 1, ANSWER_COUNT = 7, LIST_MAX = 256 };

static const char *const answer_names[ANSWER_COUNT][3] = {
    {"log", "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"},
    {"ptx", "nvrtcGetPTXSize", "nvrtcGetPTX"},
    {"cubin", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"},
    {"ltoir", "nvrtcGetLTOIRSize", "nvrtcGetLTOIR"},
    {"optixir", "nvrtcGetOptiXIRSize", "nvrtcGetOptiXIR"},
    {"log", "hiprtcGetProgramLogSize", "hiprtcGetProgramLog"},
    {"code", "hiprtcGetCodeSize", "hiprtcGetCode"},
};

static struct {
    int (*size)(program, size_t *);
    int (*get)(program, char *);
} answers[ANSWER_COUNT];

/* Both runtimes' functions have the same names except for the beginning. */
static void *find(void *library, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "nvrtc%s", name);
    void *found = dlsym(library, full);
    snprintf(full, sizeof full, "hiprtc%s", name);
    return found ? found : dlsym(library, full);
}

static void open_library(void *library, const char *path)
{
    if (!library) {
        job_fail(path, dlerror());
    }
    /* POSIX guarantees that an object pointer can be converted to a function pointer. */
    *(void **)&nvrtc.version = find(library, "Version");
    *(void **)&nvrtc.create = find(library, "CreateProgram");
    *(void **)&nvrtc.destroy = find(library, "DestroyProgram");
    *(void **)&nvrtc.add_expression = find(library, "AddNameExpression");
    *(void **)&nvrtc.compile = find(library, "CompileProgram");
    *(void **)&nvrtc.lowered_name = find(library, "GetLoweredName");
    for (size_t i = 0; i < ANSWER_COUNT; i++) {
        *(void **)&answers[i].size = dlsym(library, answer_names[i][1]);
        *(void **)&answers[i].get = dlsym(library, answer_names[i][2]);
    }
    if (!nvrtc.compile) {
        job_fail(path, "neither NVRTC nor HIPRTC");
    }
}

/* ---- nvJitLink ---- */

enum { PTX_INPUT = 2 };

static struct {
    int (*create)(void **, unsigned, const char *const *);
    int (*destroy)(void **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*complete)(void *);
    int (*size)(void *, size_t *);
    int (*get)(void *, void *);
} linker;

static void open_linker(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    *(void **)&linker.create = library ? dlsym(library, "nvJitLinkCreate") : NULL;
    if (!linker.create) {
        job_fail(path, "no nvJitLink");
    }
    *(void **)&linker.destroy = dlsym(library, "nvJitLinkDestroy");
    *(void **)&linker.add = dlsym(library, "nvJitLinkAddData");
    *(void **)&linker.complete = dlsym(library, "nvJitLinkComplete");
    *(void **)&linker.size = dlsym(library, "nvJitLinkGetLinkedCubinSize");
    *(void **)&linker.get = dlsym(library, "nvJitLinkGetLinkedCubin");
}

/* The program being described. */
static struct {
    const char *name, *source;
    const char *header_names[LIST_MAX], *headers[LIST_MAX], *expressions[LIST_MAX],
        *options[LIST_MAX], *link_options[LIST_MAX];
    int header_count, expression_count, option_count, link_option_count;
    bool is_linked;
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
    } else if (job_is(step, "link option")) {
        append(described.link_options, &described.link_option_count, step->bytes);
    } else if (job_is(step, "link")) {
        described.is_linked = linker.create != NULL;
    } else {
        return false;
    }
    return true;
}

/* Removes the random part of the names of comgr's folders: "comgr-12ab9f". */
static void hide_folders(char *bytes, size_t size)
{
    static const char folder[] = "/comgr-";
    char *at = bytes, *end = bytes + size;
    while ((at = memmem(at, (size_t)(end - at), folder, sizeof folder - 1)) != NULL) {
        at += sizeof folder - 1;
        memset(at, 'X', end - at < 6 ? (size_t)(end - at) : 6);
    }
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
            hide_folders(bytes, size);
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

/* Links a program's PTX. */
static void link_ptx(const char *ptx, size_t size)
{
    void *handle = NULL;
    append(described.link_options, &described.link_option_count, "-arch=sm_90");
    int status =
        linker.create(&handle, (unsigned)described.link_option_count, described.link_options);
    job_add_number("link", status);
    if (status != 0) {
        return;
    }
    status = linker.add(handle, PTX_INPUT, ptx, size, "k.ptx");
    status = status == 0 ? linker.complete(handle) : status;
    job_add_number("linked", status);
    size_t linked = 0;
    char *bytes = status == 0 && linker.size(handle, &linked) == 0 ? malloc(linked + 1) : NULL;
    if (bytes && linker.get(handle, bytes) == 0) {
        job_add_bytes("linked", bytes, linked);
    }
    free(bytes);
    linker.destroy(&handle);
}

static void take_and_link(program made)
{
    size_t size = 0;
    char *ptx = answers[PTX].size(made, &size) == 0 && size > 1 ? malloc(size) : NULL;
    if (ptx && answers[PTX].get(made, ptx) == 0) {
        link_ptx(ptx, size);
    }
    free(ptx);
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
        if (status == 0 && described.is_linked) {
            take_and_link(made);
        }
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
        } else if (job_is(&step, "open-linker")) {
            open_linker(step.bytes);
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
