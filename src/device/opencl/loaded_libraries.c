/* SPDX-License-Identifier: Apache-2.0 */
#include "loaded_libraries.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- a library's dynamic section ---- */

typedef struct dynamic {
    const ElfW(Dyn) * entries; /* NULL: none */
    const char *strings;
    size_t strings_size;
} dynamic;

static const void *to_pointer(uintptr_t address)
{
    return (const void *)address; // NOLINT: the loader's own number
}

static dynamic dynamic_of(const struct dl_phdr_info *info)
{
    dynamic d = {0};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            d.entries = to_pointer(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    for (const ElfW(Dyn) *e = d.entries; e && e->d_tag != DT_NULL; e++) {
        if (e->d_tag == DT_STRTAB) {
            /* Some loaders and the kernel's own library leave it relative to the base. */
            uintptr_t at = e->d_un.d_ptr;
            d.strings = to_pointer(at < info->dlpi_addr ? at + info->dlpi_addr : at);
        } else if (e->d_tag == DT_STRSZ) {
            d.strings_size = e->d_un.d_val;
        }
    }
    return d;
}

static const char *string_of(const dynamic *d, const ElfW(Dyn) * entry)
{
    size_t at = entry->d_un.d_val;
    return d->strings && at < d->strings_size ? d->strings + at : "";
}

static const char *soname_of(const dynamic *d)
{
    for (const ElfW(Dyn) *e = d->entries; e && e->d_tag != DT_NULL; e++) {
        if (e->d_tag == DT_SONAME) {
            return string_of(d, e);
        }
    }
    return "";
}

/* ---- what a library imports ---- */

/* Relocations that put the address of a symbol into a slot as it is. */
static bool fills_slot(uint64_t type)
{
#if defined(__x86_64__)
    return type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT || type == R_X86_64_64;
#elif defined(__aarch64__)
    return type == R_AARCH64_GLOB_DAT || type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_ABS64;
#else
    (void)type;
    return false;
#endif
}

#if defined(__LP64__)

typedef struct import_tables {
    const Elf64_Sym *symbols;
    const Elf64_Rela *relocations[2]; /* of data, of calls */
    size_t counts[2];
} import_tables;

static uintptr_t absolute(const kilni_loaded_library *library, uintptr_t address)
{
    return address < library->info.dlpi_addr ? address + library->info.dlpi_addr : address;
}

/* The first entries are often of the library itself, and as many as a count says. */
static import_tables tables_of(const kilni_loaded_library *library, const dynamic *d)
{
    import_tables t = {0};
    size_t own = 0;
    bool has_addends = true;
    for (const ElfW(Dyn) *e = d->entries; e && e->d_tag != DT_NULL; e++) {
        const uintptr_t at = absolute(library, e->d_un.d_ptr);
        switch (e->d_tag) {
        case DT_SYMTAB:
            t.symbols = to_pointer(at);
            break;
        case DT_RELA:
            t.relocations[0] = to_pointer(at);
            break;
        case DT_RELASZ:
            t.counts[0] = e->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_RELACOUNT:
            own = e->d_un.d_val;
            break;
        case DT_JMPREL:
            t.relocations[1] = to_pointer(at);
            break;
        case DT_PLTRELSZ:
            t.counts[1] = e->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_PLTREL:
            has_addends = e->d_un.d_val == DT_RELA;
            break;
        default:
            break;
        }
    }
    t.counts[0] = t.relocations[0] && own <= t.counts[0] ? t.counts[0] - own : 0;
    t.relocations[0] = t.counts[0] > 0 ? t.relocations[0] + own : NULL;
    t.counts[1] = t.relocations[1] && has_addends ? t.counts[1] : 0;
    return t;
}

void kilni_loaded_library_each_import(const kilni_loaded_library *library, kilni_import_fn visit,
                                      void *user)
{
    const dynamic d = dynamic_of(&library->info);
    const import_tables t = tables_of(library, &d);
    for (size_t table = 0; t.symbols && table < 2; table++) {
        for (size_t i = 0; i < t.counts[table]; i++) {
            const Elf64_Rela *r = &t.relocations[table][i];
            const size_t name = t.symbols[ELF64_R_SYM(r->r_info)].st_name;
            const uintptr_t *slot = to_pointer(library->info.dlpi_addr + r->r_offset);
            if (fills_slot(ELF64_R_TYPE(r->r_info)) && d.strings && name < d.strings_size) {
                /* The loader may fill it at this moment, at the first call. */
                visit(user, d.strings + name, __atomic_load_n(slot, __ATOMIC_RELAXED));
            }
        }
    }
}

#else

void kilni_loaded_library_each_import(const kilni_loaded_library *library, kilni_import_fn visit,
                                      void *user)
{
    (void)library, (void)visit, (void)user, (void)fills_slot;
}

#endif

/* ---- the libraries of this process ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool reserve_library(kilni_loaded_libraries *all)
{
    if (all->count < all->capacity) {
        return true;
    }
    size_t capacity = all->capacity ? 2 * all->capacity : 64;
    kilni_loaded_library *grown = realloc(all->items, capacity * sizeof *grown);
    if (grown) {
        all->items = grown;
        all->capacity = capacity;
    }
    return grown != NULL;
}

/* A result other than 0 ends the walk: out of memory. */
static int collect_library(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    kilni_loaded_libraries *all = user;
    if (!reserve_library(all)) {
        return 1;
    }
    dynamic d = dynamic_of(info);
    kilni_loaded_library l = {.info = *info,
                              .path = strdup(info->dlpi_name ? info->dlpi_name : ""),
                              .soname = strdup(soname_of(&d))};
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

static bool contains(const kilni_loaded_library *l, uintptr_t address)
{
    for (size_t i = 0; i < l->info.dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &l->info.dlpi_phdr[i];
        uintptr_t start = l->info.dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address >= start && address - start < segment->p_memsz) {
            return true;
        }
    }
    return false;
}

kilni_loaded_library *kilni_loaded_library_at(kilni_loaded_libraries *all, uintptr_t address)
{
    for (size_t i = 0; i < all->count; i++) {
        if (contains(&all->items[i], address)) {
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

/* The loader of OpenCL itself compiles nothing, and the same driver may run under any. */
static bool is_icd_loader(const kilni_loaded_library *l)
{
    return strncmp(base_name(l->path), "libOpenCL.so", strlen("libOpenCL.so")) == 0;
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

/* Marks what a library is linked to. true: something was not marked before. */
static bool mark_needed(kilni_loaded_libraries *all, const kilni_loaded_library *l)
{
    bool any = false;
    dynamic d = dynamic_of(&l->info);
    for (const ElfW(Dyn) *e = d.entries; e && e->d_tag != DT_NULL; e++) {
        kilni_loaded_library *needed =
            e->d_tag == DT_NEEDED ? library_named(all, string_of(&d, e)) : NULL;
        if (needed && !needed->needed && !is_icd_loader(needed)) {
            needed->needed = any = true;
        }
    }
    return any;
}

static void mark_all_needed(kilni_loaded_libraries *all)
{
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < all->count; i++) {
            any |= all->items[i].needed && mark_needed(all, &all->items[i]);
        }
    }
}

/* The driver's functions are in the table that each of its objects begins with. */
static kilni_loaded_library *find_driver(kilni_loaded_libraries *all, cl_platform_id platform)
{
    const cl_icd_dispatch *table = *(const cl_icd_dispatch *const *)(const void *)platform;
    const uintptr_t functions[] = {(uintptr_t)table->clBuildProgram,
                                   (uintptr_t)table->clGetPlatformInfo,
                                   (uintptr_t)table->clGetDeviceIDs};
    kilni_loaded_library *found = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !found; i++) {
        found = functions[i] ? kilni_loaded_library_at(all, functions[i]) : NULL;
    }
    return found;
}

kiln_status kilni_loaded_libraries_find(cl_platform_id platform, kilni_loaded_libraries *ret_all,
                                        const kilni_loaded_library **ret_driver, kiln_error *error)
{
    kilni_loaded_libraries all = {0};
    kilni_loaded_library *driver = NULL;
    kiln_status status = KILN_E_NO_MEMORY;
    if (dl_iterate_phdr(collect_library, &all) == 0) {
        driver = find_driver(&all, platform);
        status = driver ? KILN_OK
                        : kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                          "the driver's library is not found");
    }
    if (status != KILN_OK) {
        kilni_loaded_libraries_done(&all);
        return status;
    }
    driver->needed = true;
    mark_all_needed(&all);
    *ret_all = all;
    *ret_driver = driver;
    return KILN_OK;
}
