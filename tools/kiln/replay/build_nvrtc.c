/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../entry/architecture.h"
#include "../text/memory.h"

typedef void *nvrtc_program;

/* The functions of a libnvrtc. */
typedef struct nvrtc_functions {
    int (*create)(nvrtc_program *, const char *source, const char *name, int header_count,
                  const char *const *headers, const char *const *header_names);
    int (*add_expression)(nvrtc_program, const char *);
    int (*compile)(nvrtc_program, int option_count, const char *const *options);
    int (*log_size)(nvrtc_program, size_t *);
    int (*log)(nvrtc_program, char *);
} nvrtc_functions;

/* Texts, which are owned. */
typedef struct text_list {
    char **items;
    size_t count, capacity;
} text_list;

static void add_text(text_list *list, char *text)
{
    list->items = array_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = text;
}

/* Returns the parts of that name, in order. */
static text_list texts_of(const kiln_key *key, const char *name)
{
    text_list list = {0};
    kiln_key_part part;
    for (size_t i = 0; (i = recipe_find(key, name, i, &part)) != 0;) {
        add_text(&list, text_of("%.*s", (int)part.size, (const char *)part.bytes));
    }
    return list;
}

static void text_list_free(text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
}

#define owned_texts __attribute__((cleanup(text_list_free))) text_list

static bool load(const char *library, nvrtc_functions *ret_functions)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so.11.2"};
    void *handle = library == NULL ? NULL : dlopen(library, RTLD_NOW);
    for (size_t i = 0; library == NULL && handle == NULL && i < sizeof names / sizeof names[0];
         i++) {
        handle = dlopen(names[i], RTLD_NOW);
    }
    if (handle == NULL) {
        build_impossible("NVRTC can't be loaded: %s", dlerror());
        return false;
    }
    nvrtc_functions found;
#define FIND(member, name) (*(void **)&found.member = dlsym(handle, name)) != NULL
    const bool is_complete =
        FIND(create, "nvrtcCreateProgram") && FIND(add_expression, "nvrtcAddNameExpression") &&
        FIND(compile, "nvrtcCompileProgram") && FIND(log_size, "nvrtcGetProgramLogSize") &&
        FIND(log, "nvrtcGetProgramLog");
#undef FIND
    if (!is_complete) {
        build_impossible("%s is not NVRTC", library);
        return false;
    }
    *ret_functions = found;
    return true;
}

static void replace_architecture(text_list *options, const char *architecture)
{
    bool is_value = false;
    for (size_t i = 0; i < options->count; i++) {
        char *option = options->items[i];
        size_t length = 0;
        const size_t at = architecture_find(option, is_value, &length);
        is_value = architecture_expects_value(option);
        if (at > 0) {
            options->items[i] = text_of("%.*s%s", (int)at, option, architecture);
            free(option);
        }
    }
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

static int create(const nvrtc_functions *nvrtc, const kiln_key *key, const char *folder,
                  nvrtc_program *ret_program)
{
    owned char *source = recipe_text(key, "source");
    owned char *name = name_of_program(key, folder);
    owned_texts headers = texts_of(key, "header.content"), names = texts_of(key, "header");
    owned_texts expressions = texts_of(key, "name expression");
    if (headers.count != names.count) {
        return -1;
    }
    int error = nvrtc->create(ret_program, source, name, (int)headers.count,
                              (const char *const *)headers.items, (const char *const *)names.items);
    for (size_t i = 0; error == 0 && i < expressions.count; i++) {
        error = nvrtc->add_expression(*ret_program, expressions.items[i]);
    }
    return error;
}

static void print_log(const nvrtc_functions *nvrtc, nvrtc_program program)
{
    size_t size = 0;
    if (nvrtc->log_size(program, &size) == 0 && size > 0) {
        owned char *log = must(calloc(1, size + 1));
        nvrtc->log(program, log);
        fputs(log, stdout);
    }
}

build_end build_nvrtc(const recipe *of, const char *library, const char *architecture,
                      const char *folder)
{
    nvrtc_functions nvrtc;
    nvrtc_program program = NULL;
    if (!load(library, &nvrtc)) {
        return BUILD_IMPOSSIBLE;
    }
    owned_texts options = texts_of(of->key, "option");
    if (architecture != NULL) {
        replace_architecture(&options, architecture);
    }
    int error = create(&nvrtc, of->key, folder, &program);
    if (error != 0) {
        return build_impossible("NVRTC creates no program: error %d", error);
    }
    error = nvrtc.compile(program, (int)options.count, (const char *const *)options.items);
    if (error != 0) {
        printf("NVRTC answered %d\n", error);
        print_log(&nvrtc, program);
    }
    return error == 0 ? BUILD_DONE : BUILD_FAILED;
}
