/* SPDX-License-Identifier: Apache-2.0 */
#include "device/loaded_libraries.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

static kilni_symbols symbols_of(const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *dynamic = NULL;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); // NOLINT
        }
    }
    return kilni_symbols_at(info->dlpi_addr, dynamic);
}

kilni_symbols kilni_loaded_library_symbols(const kilni_loaded_library *library)
{
    return symbols_of(&library->info);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Collects one library. Returns nonzero, which stops the iteration, if memory runs out. */
static int collect_library(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    kilni_loaded_libraries *all = user;
    kilni_loaded_library *items =
        kilni_array_grown(all->items, all->count, &all->capacity, sizeof *items);
    if (!items) {
        return 1;
    }
    all->items = items;
    kilni_loaded_library l = {.info = *info,
                              .path = strdup(info->dlpi_name ? info->dlpi_name : ""),
                              .soname = strdup(symbols_of(info).soname)};
    all->items[all->count++] = l;
    return !l.path || !l.soname;
}

void kilni_loaded_libraries_done(kilni_loaded_libraries *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].path);
        free(all->items[i].soname);
    }
    free(all->items);
    *all = (kilni_loaded_libraries){0};
}

static bool contains(const struct dl_phdr_info *info, uintptr_t address)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address >= start && address - start < segment->p_memsz) {
            return true;
        }
    }
    return false;
}

const kilni_loaded_library *kilni_loaded_library_at(const kilni_loaded_libraries *all,
                                                    uintptr_t address)
{
    for (size_t i = 0; i < all->count; i++) {
        if (contains(&all->items[i].info, address)) {
            return &all->items[i];
        }
    }
    return NULL;
}

const char *kilni_loaded_library_name(const kilni_loaded_library *library)
{
    const char *name = *library->soname ? library->soname : base_name(library->path);
    return *name ? name : "(program)";
}

static kilni_loaded_library *library_named(kilni_loaded_libraries *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        kilni_loaded_library *l = &all->items[i];
        if (strcmp(l->soname, name) == 0 || strcmp(base_name(l->path), name) == 0) {
            return l;
        }
    }
    return NULL;
}

/* Marks the libraries that @l is linked to. Returns true if it has marked a new library. */
static bool mark_needed(kilni_loaded_libraries *all, const kilni_loaded_library *l,
                        const char *except)
{
    bool any = false;
    const kilni_symbols of = symbols_of(&l->info);
    for (const ElfW(Dyn) *e = of.dynamic; e && e->d_tag != DT_NULL; e++) {
        kilni_loaded_library *needed =
            e->d_tag == DT_NEEDED ? library_named(all, kilni_symbols_text(&of, e->d_un.d_val))
                                  : NULL;
        if (needed && !needed->needed &&
            !(except && strncmp(base_name(needed->path), except, strlen(except)) == 0)) {
            needed->needed = any = true;
        }
    }
    return any;
}

static void mark_all_needed(kilni_loaded_libraries *all, const char *except)
{
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < all->count; i++) {
            any |= all->items[i].needed && mark_needed(all, &all->items[i], except);
        }
    }
}

kiln_status kilni_loaded_libraries_find(const uintptr_t *functions, size_t function_count,
                                        const char *except, kilni_loaded_libraries *ret_all,
                                        kiln_error *error)
{
    kilni_loaded_libraries all = {0};
    if (dl_iterate_phdr(collect_library, &all) != 0) {
        kilni_loaded_libraries_done(&all);
        return KILN_E_NO_MEMORY;
    }
    for (size_t i = 0; i < function_count && !all.driver; i++) {
        all.driver = functions[i] ? kilni_loaded_library_at(&all, functions[i]) : NULL;
    }
    if (!all.driver) {
        kilni_loaded_libraries_done(&all);
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the driver's library is not found");
    }
    all.items[all.driver - all.items].needed = true;
    mark_all_needed(&all, except);
    *ret_all = all;
    return KILN_OK;
}

/* ---- one library ---- */

typedef struct wanted {
    const void *address;
    const char *name;
    kilni_loaded_library_use_fn use;
    void *user;
} wanted;

static int use_if_wanted(struct dl_phdr_info *info, size_t size, void *user)
{
    const wanted *w = user;
    (void)size;
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    const bool is_wanted =
        w->address ? contains(info, (uintptr_t)w->address) : strcmp(base_name(path), w->name) == 0;
    if (is_wanted) {
        w->use(w->user, info);
    }
    return is_wanted;
}

bool kilni_loaded_library_use(const void *address, const char *name,
                              kilni_loaded_library_use_fn use, void *user)
{
    wanted w = {address, name, use, user};
    return dl_iterate_phdr(use_if_wanted, &w) != 0;
}
