/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"

#define PTX 2 /* nvJitLink's number for this kind of input */

typedef void *link_handle;

/* The functions of one release of a libnvJitLink. */
typedef struct linker {
    int (*create)(link_handle *, uint32_t option_count, const char *const *options);
    int (*add_data)(link_handle, int kind, const void *data, size_t size, const char *name);
    int (*add_file)(link_handle, int kind, const char *path);
    int (*complete)(link_handle);
    int (*log_size)(link_handle, size_t *);
    int (*log)(link_handle, char *);
} linker;

/* @release  in the names of the functions, such as "12_9"; "": they have plain names */
static void *find(void *library, const char *function, const char *release)
{
    owned char *name = *release == '\0' ? text_of("nvJitLink%s", function)
                                        : text_of("__nvJitLink%s_%s", function, release);
    return dlsym(library, name);
}

static bool load(const char *file, const char *release, linker *ret_linker)
{
    static const char *const names[] = {"libnvJitLink.so", "libnvJitLink.so.13",
                                        "libnvJitLink.so.12", NULL};
    void *library = build_open_library(file, names);
    if (library == NULL) {
        build_impossible("nvJitLink can't be loaded: %s", dlerror());
        return false;
    }
    linker found;
#define FIND(member, name) (*(void **)&found.member = find(library, name, release)) != NULL
    const bool is_complete = FIND(create, "Create") && FIND(add_data, "AddData") &&
                             FIND(add_file, "AddFile") && FIND(complete, "Complete") &&
                             FIND(log_size, "GetErrorLogSize") && FIND(log, "GetErrorLog");
#undef FIND
    if (!is_complete) {
        build_impossible("nvJitLink lacks functions that the program calls%s%s",
                         *release == '\0' ? "" : ": those of release ", release);
        return false;
    }
    *ret_linker = found;
    return true;
}

/* Returns whether a link is for a different architecture than the one that was recorded, and one of
 * its inputs may be code for the latter. */
static bool may_be_for_other_gpu(const link_inputs *inputs, const build_texts *options,
                                 const build_texts *recorded)
{
    bool has_code = false, is_equal = true;
    for (size_t i = 0; i < inputs->count; i++) {
        has_code |= inputs->items[i].kind != PTX;
    }
    for (size_t i = 0; i < options->count; i++) {
        is_equal &= strcmp(options->items[i], recorded->items[i]) == 0;
    }
    return has_code && !is_equal;
}

static int add_all(const linker *with, link_handle handle, const link_inputs *inputs)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < inputs->count; i++) {
        const link_input *input = &inputs->items[i];
        const kiln_bytes content = kiln_entry_payload(input->content);
        error = input->path != NULL
                    ? with->add_file(handle, input->kind, input->path)
                    : with->add_data(handle, input->kind, content.data, content.size, input->name);
    }
    return error;
}

static void print_log(const linker *with, link_handle handle)
{
    size_t size = 0;
    if (with->log_size(handle, &size) == 0 && size > 0) {
        owned char *log = must(calloc(1, size + 1));
        with->log(handle, log);
        fputs(log, stdout);
    }
}

build_end build_nvjitlink(const recipe *of, const build_terms *terms, const link_inputs *inputs)
{
    owned char *release = recipe_text(of->key, "nvjitlink.interface");
    linker with;
    link_handle handle = NULL;
    if (!load(terms->nvjitlink, release == NULL ? "" : release, &with)) {
        return BUILD_IMPOSSIBLE;
    }
    owned_texts recorded = build_texts_of(of->key, "option"),
                options = build_texts_of(of->key, "option");
    build_replace_architecture(&options, terms->architecture);
    int error = with.create(&handle, (uint32_t)options.count, (const char *const *)options.items);
    if (error == 0) {
        error = add_all(&with, handle, inputs);
    }
    if (error == 0) {
        error = with.complete(handle);
    }
    if (error != 0 && may_be_for_other_gpu(inputs, &options, &recorded)) {
        return build_impossible("an input is code for a different architecture");
    }
    if (error != 0) {
        printf("nvJitLink answered %d\n", error);
    }
    if (error != 0 && handle != NULL) {
        print_log(&with, handle);
    }
    return error == 0 ? BUILD_DONE : BUILD_FAILED;
}
