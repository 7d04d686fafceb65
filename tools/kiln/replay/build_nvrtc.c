/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"

typedef void *nvrtc_program;

/* The functions of a compiler. */
typedef struct nvrtc_functions {
    int (*create)(nvrtc_program *, const char *source, const char *name, int header_count,
                  const char *const *headers, const char *const *header_names);
    int (*add_expression)(nvrtc_program, const char *);
    int (*compile)(nvrtc_program, int option_count, const char *const *options);
    int (*log_size)(nvrtc_program, size_t *);
    int (*log)(nvrtc_program, char *);
} nvrtc_functions;

/* NVRTC and HIPRTC, whose functions differ only in their names. */
typedef struct compiler {
    const char *name;
    const char *prefix;       /* of the functions' names */
    const char *libraries[5]; /* for the loader, ended by NULL */
} compiler;

static const compiler nvrtc = {
    "NVRTC",
    "nvrtc",
    {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", NULL}};
static const compiler hiprtc = {
    "HIPRTC", "hiprtc", {"libhiprtc.so", "libamdhip64.so", "libamdhip64.so.5", NULL}};

static void *find(const compiler *of, void *library, const char *function)
{
    owned char *name = text_of("%s%s", of->prefix, function);
    return dlsym(library, name);
}

/* @file  of the library; NULL: the one that the loader finds */
static bool load(const compiler *of, const char *file, nvrtc_functions *ret_functions)
{
    void *library = build_open_library(file, of->libraries);
    if (library == NULL) {
        build_impossible("%s can't be loaded: %s", of->name, dlerror());
        return false;
    }
    nvrtc_functions found;
#define FIND(member, name) (*(void **)&found.member = find(of, library, name)) != NULL
    const bool is_complete = FIND(create, "CreateProgram") &&
                             FIND(add_expression, "AddNameExpression") &&
                             FIND(compile, "CompileProgram") &&
                             FIND(log_size, "GetProgramLogSize") && FIND(log, "GetProgramLog");
#undef FIND
    if (!is_complete) {
        build_impossible("%s is not %s", file == NULL ? "what the loader finds" : file, of->name);
        return false;
    }
    *ret_functions = found;
    return true;
}

/* Returns the name that the program had; NULL: none. A folder that was not in the key is replaced
 * by @folder. */
static char *name_of_program(const kiln_key *key, const char *folder)
{
    owned char *name = recipe_text(key, "name");
    kiln_key_part part;
    if (name == NULL) {
        return NULL;
    }
    return recipe_find(key, "name.folder", 0, &part) == 0 ? text_of("%s", name)
                                                          : text_of("%s/%s", folder, name);
}

static int create(const nvrtc_functions *functions, const kiln_key *key, const char *folder,
                  nvrtc_program *ret_program)
{
    owned char *source = recipe_text(key, "source");
    owned char *name = name_of_program(key, folder);
    owned_texts headers = build_texts_of(key, "header.content"),
                names = build_texts_of(key, "header");
    owned_texts expressions = build_texts_of(key, "name expression");
    if (headers.count != names.count) {
        return -1;
    }
    int error =
        functions->create(ret_program, source, name, (int)headers.count,
                          (const char *const *)headers.items, (const char *const *)names.items);
    for (size_t i = 0; error == 0 && i < expressions.count; i++) {
        error = functions->add_expression(*ret_program, expressions.items[i]);
    }
    return error;
}

static void print_log(const nvrtc_functions *functions, nvrtc_program program)
{
    size_t size = 0;
    if (functions->log_size(program, &size) == 0 && size > 0) {
        owned char *log = must(calloc(1, size + 1));
        functions->log(program, log);
        fputs(log, stdout);
    }
}

build_end build_nvrtc(const recipe *of, const build_terms *terms, const char *folder)
{
    const bool is_of_amd = of->kind == RECIPE_HIPRTC;
    const compiler *with = is_of_amd ? &hiprtc : &nvrtc;
    nvrtc_functions functions;
    nvrtc_program program = NULL;
    if (!load(with, is_of_amd ? terms->hiprtc : terms->nvrtc, &functions)) {
        return BUILD_IMPOSSIBLE;
    }
    owned_texts options = build_texts_of(of->key, "option");
    build_replace_architecture(&options, terms->architecture);
    int error = create(&functions, of->key, folder, &program);
    if (error != 0) {
        return build_impossible("%s creates no program: error %d", with->name, error);
    }
    error = functions.compile(program, (int)options.count, (const char *const *)options.items);
    if (error != 0) {
        printf("%s answered %d\n", with->name, error);
        print_log(&functions, program);
    }
    return error == 0 ? BUILD_DONE : BUILD_FAILED;
}
