/* SPDX-License-Identifier: Apache-2.0 */
#include "math_functions.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "device/file_identity.h"
#include "device/math.h"

typedef struct search {
    const kilni_loaded_libraries *all;
    /* The two scopes in which the loader looks up a function at its first call. The first consists
     * of the program and everything that was opened globally. The second consists of the libraries
     * that the driver itself is linked to. */
    void *of_program;
    void *of_driver;
    bool *has; /* true at [library * KILNI_MATH_COUNT + function] if the driver calls the function
                * of this library */
} search;

static uintptr_t look_up(const search *s, const char *name)
{
    void *found = dlsym(s->of_program, name);
    return (uintptr_t)(found ? found : dlsym(s->of_driver, name));
}

static bool defines(const search *s, const kilni_loaded_library *library, const char *name)
{
    void *handle = *library->path ? dlopen(library->path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    const void *found = handle ? dlsym(handle, name) : NULL;
    const bool is_own = found && kilni_loaded_library_at(s->all, (uintptr_t)found) == library;
    if (handle) {
        dlclose(handle);
    }
    return is_own;
}

typedef struct wanted_import {
    const char *name;
    bool is_there;
} wanted_import;

static void compare_import(void *user, const ElfW(Sym) * symbol, const char *name, uintptr_t *slot)
{
    wanted_import *wanted = user;
    (void)symbol, (void)slot;
    wanted->is_there |= strcmp(name, wanted->name) == 0;
}

static bool imports(const kilni_loaded_library *library, const char *name)
{
    wanted_import wanted = {.name = name};
    const kilni_symbols of = kilni_loaded_library_symbols(library);
    kilni_symbols_each_import(&of, compare_import, &wanted);
    return wanted.is_there;
}

/* If a program at a fixed address takes the address of a function that it imports, the program has
 * a stub for this function. The loader gives the stub's address to every library. When the stub is
 * called, it calls the function of the first library, after the program, that defines this
 * function. If @library is a program with such a stub, returns the library whose function the stub
 * calls. Otherwise returns @library. */
static const kilni_loaded_library *behind_stub(const search *s, const kilni_loaded_library *library,
                                               const char *name)
{
    const kilni_loaded_library *program = s->all->items;
    const bool is_stub = library == program && imports(program, name);
    for (size_t i = 1; is_stub && library == program && i < s->all->count; i++) {
        if (defines(s, &s->all->items[i], name)) {
            library = &s->all->items[i];
        }
    }
    return library;
}

/* A library that imports functions. Until the loader has bound a function, the function's slot
 * points into this library. */
typedef struct importer {
    const search *search;
    const kilni_loaded_library *library;
} importer;

static void note_import(void *user, const ElfW(Sym) * symbol, const char *name, uintptr_t *slot)
{
    (void)symbol;
    const importer *from = user;
    const search *s = from->search;
    const int function = kilni_math_find(name);
    if (function < 0 || !kilni_math_is_folded_by_llvm(function)) {
        return;
    }
    /* A first call by a different thread might make the loader fill the slot at this moment. */
    const uintptr_t address = __atomic_load_n(slot, __ATOMIC_RELAXED);
    const kilni_loaded_library *library = kilni_loaded_library_at(s->all, address);
    if (library == from->library) {
        library = kilni_loaded_library_at(s->all, look_up(s, name));
    }
    if (library) {
        library = behind_stub(s, library, name);
        s->has[(size_t)(library - s->all->items) * KILNI_MATH_COUNT + (size_t)function] = true;
    }
}

static void note_imports(const search *s)
{
    for (size_t i = 0; i < s->all->count; i++) {
        importer from = {.search = s, .library = &s->all->items[i]};
        if (from.library->needed) {
            const kilni_symbols of = kilni_loaded_library_symbols(from.library);
            kilni_symbols_each_import(&of, note_import, &from);
        }
    }
}

/* ---- parts of the key ---- */

static bool is_libm(const kilni_loaded_library *library)
{
    return library->needed && strncmp(library->soname, "libm.so", strlen("libm.so")) == 0;
}

static kiln_status append_names(const bool *has, kilni_text *line)
{
    for (int i = 0; i < KILNI_MATH_COUNT; i++) {
        if (has[i]) {
            kilni_text_printf(line, " %s", kilni_math_name(i));
        }
    }
    return kilni_text_append(line, "");
}

static kiln_status add_library(const kilni_loaded_library *library, const bool *has,
                               kiln_key_builder *key, kiln_error *error)
{
    const char *name = kilni_loaded_library_name(library);
    kilni_text line = {0};
    kilni_text_printf(&line, "%s ", name);
    kiln_status status = kilni_library_identity(&library->info, &line);
    if (status == KILN_E_UNSUPPORTED) {
        kilni_error_set(error, status, 0, "%s has math functions, but can't be identified", name);
    }
    if (status == KILN_OK) {
        status = append_names(has, &line);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(key, "driver.math", line.bytes);
    }
    kilni_text_done(&line);
    return status;
}

static kiln_status add_libraries(const search *s, kiln_key_builder *key, kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < s->all->count && status == KILN_OK; i++) {
        const kilni_loaded_library *library = &s->all->items[i];
        const bool *has = s->has + i * KILNI_MATH_COUNT;
        if (!is_libm(library) && memchr(has, true, KILNI_MATH_COUNT)) {
            status = add_library(library, has, key, error);
        }
    }
    return status;
}

#if defined(__x86_64__)

/* glibc 2.33 and later describe the processor with this structure in <sys/platform/x86.h>. */
typedef struct cpuid_leaf {
    unsigned offered[4]; /* eax, ebx, ecx, edx */
    unsigned used[4];
} cpuid_leaf;

typedef const cpuid_leaf *(*get_leaf_fn)(unsigned leaf);

enum { ECX = 2, EBX = 1 };

/* libm selects its variants by these features, and some variants round differently. If there is no
 * FMA, libm checks for FMA4. */
static const struct {
    const char *name;
    unsigned leaf, word, bit;
    bool is_usual;
} features[] = {
    {"AVX", 0, ECX, 28, true},
    {"FMA", 0, ECX, 12, true},
    {"AVX2", 1, EBX, 5, true},
    {"FMA4", 2, ECX, 16, false},
};
enum { FEATURE_COUNT = sizeof features / sizeof *features };

static bool is_used(get_leaf_fn get_leaf, size_t i)
{
    return get_leaf(features[i].leaf)->used[features[i].word] >> features[i].bit & 1;
}

/* It makes no difference whether the processor lacks a feature or glibc was told not to use it. */
static kiln_status append_unused(kilni_text *text)
{
    const get_leaf_fn get_leaf = (get_leaf_fn)dlsym(RTLD_DEFAULT, "__x86_get_cpuid_feature_leaf");
    bool is_usual = true;
    for (size_t i = 0; get_leaf && i < FEATURE_COUNT; i++) {
        is_usual &= !features[i].is_usual || is_used(get_leaf, i);
    }
    kiln_status status = KILN_OK;
    for (size_t i = 0; !is_usual && i < FEATURE_COUNT && status == KILN_OK; i++) {
        if (!is_used(get_leaf, i)) {
            status = kilni_text_printf(text, "%s%s", text->length ? " " : "", features[i].name);
        }
    }
    return status;
}

#else

static kiln_status append_unused(kilni_text *text)
{
    (void)text;
    return KILN_OK;
}

#endif

static kiln_status add_unused(kiln_key_builder *key)
{
    kilni_text text = {0};
    kiln_status status = append_unused(&text);
    if (status == KILN_OK && text.length > 0) {
        status = kiln_key_builder_add_text(key, "libm.unused", text.bytes);
    }
    kilni_text_done(&text);
    return status;
}

static kiln_status add_functions(const kilni_loaded_libraries *all, kiln_key_builder *key,
                                 kiln_error *error)
{
    const search s = {.all = all,
                      .of_program = dlopen(NULL, RTLD_LAZY),
                      .of_driver = dlopen(all->driver->path, RTLD_LAZY | RTLD_NOLOAD),
                      .has = calloc(all->count * KILNI_MATH_COUNT, sizeof *s.has)};
    kiln_status status = s.has ? KILN_OK : KILN_E_NO_MEMORY;
    if (status == KILN_OK && !(s.of_program && s.of_driver)) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                 "the driver's math functions cannot be identified");
    }
    if (status == KILN_OK) {
        note_imports(&s);
        status = add_libraries(&s, key, error);
    }
    if (s.of_driver) {
        dlclose(s.of_driver);
    }
    if (s.of_program) {
        dlclose(s.of_program);
    }
    free(s.has);
    return status;
}

kiln_status kilni_math_functions_add(const kilni_loaded_libraries *all, kiln_key_builder *key,
                                     kiln_error *error)
{
    const kiln_status status = add_functions(all, key, error);
    return status == KILN_OK ? add_unused(key) : status;
}
