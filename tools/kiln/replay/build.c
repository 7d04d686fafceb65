/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../entry/architecture.h"
#include "../text/memory.h"

build_end build_impossible(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    return BUILD_IMPOSSIBLE;
}

void *build_open_library(const char *file, const char *const *names)
{
    void *library = file == NULL ? NULL : dlopen(file, RTLD_NOW);
    for (; file == NULL && library == NULL && *names != NULL; names++) {
        library = dlopen(*names, RTLD_NOW);
    }
    return library;
}

build_texts build_texts_of(const kiln_key *key, const char *name)
{
    build_texts list = {0};
    kiln_key_part part;
    for (size_t i = 0; (i = recipe_find(key, name, i, &part)) != 0;) {
        list.items = array_grown(list.items, list.count, &list.capacity, sizeof *list.items);
        list.items[list.count++] = text_of("%.*s", (int)part.size, (const char *)part.bytes);
    }
    return list;
}

void build_texts_free(build_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->items[i]);
    }
    free(texts->items);
}

void build_replace_architecture(build_texts *options, const char *architecture)
{
    bool is_value = false;
    for (size_t i = 0; i < options->count; i++) {
        owned char *option = options->items[i];
        options->items[i] = architecture_replaced(option, is_value, architecture);
        is_value = architecture_expects_value(option);
    }
}
