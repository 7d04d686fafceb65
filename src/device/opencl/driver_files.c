/* SPDX-License-Identifier: Apache-2.0 */
#include "driver_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "file_identity.h"
#include "os/os.h"

/* A library of this process. The names are copies: it may be unloaded after the walk, unless the
 * driver needs it. */
typedef struct library {
    struct dl_phdr_info info;
    char *path;
    char *soname; /* "" where it has none */
    bool needed;  /* the driver's library, or one that it is linked to */
} library;

typedef struct libraries {
    library *items;
    size_t count;
    size_t capacity;
} libraries;

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

/* ---- the libraries of this process ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool reserve_library(libraries *all)
{
    if (all->count < all->capacity) {
        return true;
    }
    size_t capacity = all->capacity ? 2 * all->capacity : 64;
    library *grown = realloc(all->items, capacity * sizeof *grown);
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
    libraries *all = user;
    if (!reserve_library(all)) {
        return 1;
    }
    dynamic d = dynamic_of(info);
    library l = {.info = *info,
                 .path = strdup(info->dlpi_name ? info->dlpi_name : ""),
                 .soname = strdup(soname_of(&d))};
    all->items[all->count++] = l;
    return !l.path || !l.soname;
}

static void libraries_done(libraries *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].path);
        free(all->items[i].soname);
    }
    free(all->items);
    *all = (libraries){0};
}

static bool contains(const library *l, uintptr_t address)
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

static library *library_at(libraries *all, uintptr_t address)
{
    for (size_t i = 0; i < all->count; i++) {
        if (contains(&all->items[i], address)) {
            return &all->items[i];
        }
    }
    return NULL;
}

/* The loader of OpenCL itself compiles nothing, and the same driver may run under any. */
static bool is_icd_loader(const library *l)
{
    return strncmp(base_name(l->path), "libOpenCL.so", strlen("libOpenCL.so")) == 0;
}

static library *library_named(libraries *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        library *l = &all->items[i];
        if (strcmp(l->soname, name) == 0 || strcmp(base_name(l->path), name) == 0) {
            return l;
        }
    }
    return NULL;
}

/* Marks what a library is linked to. true: something was not marked before. */
static bool mark_needed(libraries *all, const library *l)
{
    bool any = false;
    dynamic d = dynamic_of(&l->info);
    for (const ElfW(Dyn) *e = d.entries; e && e->d_tag != DT_NULL; e++) {
        library *needed = e->d_tag == DT_NEEDED ? library_named(all, string_of(&d, e)) : NULL;
        if (needed && !needed->needed && !is_icd_loader(needed)) {
            needed->needed = any = true;
        }
    }
    return any;
}

static void mark_all_needed(libraries *all)
{
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < all->count; i++) {
            any |= all->items[i].needed && mark_needed(all, &all->items[i]);
        }
    }
}

/* The driver's functions are in the table that each of its objects begins with. */
static library *find_driver(libraries *all, cl_platform_id platform)
{
    const cl_icd_dispatch *table = *(const cl_icd_dispatch *const *)(const void *)platform;
    const uintptr_t functions[] = {(uintptr_t)table->clBuildProgram,
                                   (uintptr_t)table->clGetPlatformInfo,
                                   (uintptr_t)table->clGetDeviceIDs};
    library *found = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !found; i++) {
        found = functions[i] ? library_at(all, functions[i]) : NULL;
    }
    return found;
}

/* ---- the list ---- */

/* Takes the identity over, also on failure. */
static kiln_status add_file(kilni_driver_files *files, kilni_driver_file file, const char *name,
                            kilni_text *identity)
{
    if (files->count == files->capacity) {
        size_t capacity = files->capacity ? 2 * files->capacity : 32;
        kilni_driver_file *grown = realloc(files->items, capacity * sizeof *grown);
        if (!grown) {
            kilni_text_done(identity);
            return KILN_E_NO_MEMORY;
        }
        files->items = grown;
        files->capacity = capacity;
    }
    file.name = strdup(name);
    file.identity = identity->bytes;
    if (!file.name) {
        kilni_text_done(identity);
        return KILN_E_NO_MEMORY;
    }
    files->items[files->count++] = file;
    return KILN_OK;
}

static kiln_status add_library(kilni_driver_files *files, const library *l, bool is_driver,
                               kiln_error *error)
{
    kilni_text identity = {0};
    const char *name = *l->soname ? l->soname : base_name(l->path);
    kiln_status status = kilni_library_identity(&l->info, &identity);
    if (status != KILN_OK) {
        kilni_text_done(&identity);
        return kilni_error_set(error, status, 0, "%s: can't be identified", name);
    }
    return add_file(files, (kilni_driver_file){.is_own = is_driver}, *name ? name : "(program)",
                    &identity);
}

static kiln_status add_libraries(kilni_driver_files *files, libraries *all, const library *driver,
                                 kiln_error *error)
{
    kiln_status status = KILN_OK;
    mark_all_needed(all);
    for (size_t i = 0; i < all->count && status == KILN_OK; i++) {
        if (all->items[i].needed) {
            status = add_library(files, &all->items[i], &all->items[i] == driver, error);
        }
    }
    return status;
}

/* ---- files by pattern ---- */

/* A folder that was searched for a pattern, so that two ways to one folder count once. */
typedef struct searched {
    dev_t device;
    ino_t inode;
    const char *pattern;
} searched;

typedef struct search {
    kilni_driver_files *files;
    const char *driver_path;
    searched *done;
    size_t done_count;
    kiln_error *error;
} search;

static bool was_searched(search *s, const struct stat *facts, const char *pattern)
{
    for (size_t i = 0; i < s->done_count; i++) {
        if (s->done[i].device == facts->st_dev && s->done[i].inode == facts->st_ino &&
            strcmp(s->done[i].pattern, pattern) == 0) {
            return true;
        }
    }
    s->done[s->done_count++] =
        (searched){.device = facts->st_dev, .inode = facts->st_ino, .pattern = pattern};
    return false;
}

/* Of several names of one file the longest stays: it is the one with the version, that links for
 * building programs don't change. */
static kiln_status rename_file(kilni_driver_file *file, const char *name)
{
    size_t length = strlen(name), known = strlen(file->name);
    if (length < known || (length == known && strcmp(name, file->name) <= 0)) {
        return KILN_OK;
    }
    char *copy = strdup(name);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    free(file->name);
    file->name = copy;
    return KILN_OK;
}

static kilni_driver_file *find_file(const search *s, const struct stat *facts)
{
    for (size_t i = 0; i < s->files->count; i++) {
        kilni_driver_file *file = &s->files->items[i];
        if (file->inode != 0 && file->inode == facts->st_ino && file->device == facts->st_dev) {
            return file;
        }
    }
    return NULL;
}

static kiln_status identify_path(search *s, const char *path, const char *name)
{
    struct stat facts;
    kilni_text identity = {0};
    if (kilni_os()->fstatat(AT_FDCWD, path, &facts, 0) != 0 || !S_ISREG(facts.st_mode)) {
        return KILN_OK;
    }
    kilni_driver_file *known = find_file(s, &facts);
    if (known) {
        return rename_file(known, name);
    }
    kiln_status status = kilni_file_identity(path, &identity);
    if (status != KILN_OK) {
        kilni_text_done(&identity);
        return kilni_error_set(s->error, status, 0, "%s: can't be read", path);
    }
    const kilni_driver_file file = {.is_own = true, .device = facts.st_dev, .inode = facts.st_ino};
    return add_file(s->files, file, name, &identity);
}

static kiln_status add_path(search *s, const char *folder, const char *name)
{
    kilni_text path = {0};
    kiln_status status = kilni_text_printf(&path, "%s%s", folder, name);
    if (status == KILN_OK) {
        status = identify_path(s, path.bytes, name);
    }
    kilni_text_done(&path);
    return status;
}

static kiln_status search_open_folder(search *s, DIR *entries, const char *folder,
                                      const char *pattern)
{
    kiln_status status = KILN_OK;
    struct dirent *entry;
    while (status == KILN_OK && (entry = kilni_os()->readdir(entries)) != NULL) {
        if (fnmatch(pattern, entry->d_name, FNM_PERIOD) == 0) {
            status = add_path(s, folder, entry->d_name);
        }
    }
    return status;
}

/* @folder ends with '/'. */
static kiln_status search_folder(search *s, const char *folder, const char *pattern)
{
    int file = kilni_os()->openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (file < 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? KILN_OK
                   : kilni_error_set(s->error, KILN_E_UNSUPPORTED, errno, "%s: can't be read",
                                     folder);
    }
    struct stat facts;
    if (kilni_os()->fstat(file, &facts) != 0 || was_searched(s, &facts, pattern)) {
        kilni_os()->close(file);
        return KILN_OK;
    }
    DIR *entries = kilni_os()->fdopendir(file);
    if (!entries) {
        kilni_os()->close(file);
        return errno == ENOMEM ? KILN_E_NO_MEMORY : KILN_E_UNSUPPORTED;
    }
    kiln_status status = search_open_folder(s, entries, folder, pattern);
    kilni_os()->closedir(entries);
    return status;
}

static kiln_status search_pattern(search *s, const char *pattern)
{
    const char *last = base_name(pattern);
    const char *slash = strrchr(s->driver_path, '/');
    kilni_text folder = {0};
    kiln_status status = KILN_OK;
    if (*pattern != '/') {
        if (*s->driver_path != '/') {
            return kilni_error_set(s->error, KILN_E_UNSUPPORTED, 0,
                                   "the folder of the driver's library can't be told");
        }
        status =
            kilni_text_append_bytes(&folder, s->driver_path, (size_t)(slash - s->driver_path) + 1);
    }
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(&folder, pattern, (size_t)(last - pattern));
    }
    if (status == KILN_OK) {
        status = search_folder(s, folder.bytes, last);
    }
    kilni_text_done(&folder);
    return status;
}

static kiln_status add_patterns(kilni_driver_files *files, const char *driver_path,
                                const char *const *patterns, kiln_error *error)
{
    size_t count = 0;
    while (patterns[count]) {
        count++;
    }
    search s = {.files = files,
                .driver_path = driver_path,
                .done = malloc((count + 1) * sizeof *s.done),
                .error = error};
    if (!s.done) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        status = search_pattern(&s, patterns[i]);
    }
    free(s.done);
    return status;
}

/* ---- all of it ---- */

static int compare_files(const void *a, const void *b)
{
    const kilni_driver_file *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->identity, y->identity);
}

static kiln_status find(libraries *all, cl_platform_id platform, const char *const *patterns,
                        kilni_driver_files *files, kiln_error *error)
{
    if (dl_iterate_phdr(collect_library, all) != 0) {
        return KILN_E_NO_MEMORY;
    }
    library *driver = find_driver(all, platform);
    if (!driver) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the driver's library is not found");
    }
    driver->needed = true;
    kiln_status status = add_libraries(files, all, driver, error);
    return status == KILN_OK ? add_patterns(files, driver->path, patterns, error) : status;
}

kiln_status kilni_driver_files_find(cl_platform_id platform, const char *const *patterns,
                                    kilni_driver_files *ret_files, kiln_error *error)
{
    libraries all = {0};
    kilni_driver_files files = {0};
    kiln_status status = find(&all, platform, patterns, &files, error);
    libraries_done(&all);
    if (status != KILN_OK) {
        kilni_driver_files_done(&files);
        return status;
    }
    qsort(files.items, files.count, sizeof *files.items, compare_files);
    *ret_files = files;
    return KILN_OK;
}

void kilni_driver_files_done(kilni_driver_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].name);
        free(files->items[i].identity);
    }
    free(files->items);
    *files = (kilni_driver_files){0};
}
