/* SPDX-License-Identifier: Apache-2.0 */
#include "device/driver_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "device/file_identity.h"
#include "os/os.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- the list ---- */

/* Takes ownership of @identity, even on failure. */
static kiln_status add_file(kilni_driver_files *files, kilni_driver_file file, const char *name,
                            kilni_text *identity)
{
    kilni_driver_file *items =
        kilni_array_grown(files->items, files->count, &files->capacity, sizeof *items);
    files->items = items ? items : files->items;
    file.name = items ? strdup(name) : NULL;
    file.identity = identity->bytes;
    if (!file.name) {
        kilni_text_done(identity);
        return KILN_E_NO_MEMORY;
    }
    files->items[files->count++] = file;
    return KILN_OK;
}

static kiln_status add_library(kilni_driver_files *files, const kilni_loaded_library *l,
                               bool is_driver, kiln_error *error)
{
    kilni_text identity = {0};
    const char *name = kilni_loaded_library_name(l);
    kiln_status status = kilni_library_identity(&l->info, &identity);
    if (status != KILN_OK) {
        kilni_text_done(&identity);
        return kilni_error_set(error, status, 0, "%s: can't be identified", name);
    }
    return add_file(files, (kilni_driver_file){.is_own = is_driver}, name, &identity);
}

static kiln_status add_libraries(kilni_driver_files *files, const kilni_loaded_libraries *all,
                                 kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < all->count && status == KILN_OK; i++) {
        if (all->items[i].needed) {
            status = add_library(files, &all->items[i], &all->items[i] == all->driver, error);
        }
    }
    return status;
}

/* ---- files by pattern ---- */

/* A folder that was searched for a pattern. It is recorded so that a folder with two paths is
 * searched only once. */
typedef struct searched {
    dev_t device;
    ino_t inode;
    const char *pattern;
} searched;

typedef struct search {
    kilni_driver_files *files;
    const char *driver_path; /* one path of the driver's library */
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

/* If a file has several names, keeps the longest. The longest name contains the version. It stays
 * the same even if a development package adds links to the file. */
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
    status = add_file(s->files, file, name, &identity);
    return status == KILN_OK ? kilni_file_stamps_add(&s->files->stamps, path) : status;
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

/* @folder must end with '/'. */
static kiln_status search_folder(search *s, const char *folder, const char *pattern)
{
    if (kilni_file_stamps_add(&s->files->stamps, folder) != KILN_OK) {
        return KILN_E_NO_MEMORY;
    }
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
    if (*pattern != '/') {
        if (*s->driver_path != '/') {
            return kilni_error_set(s->error, KILN_E_UNSUPPORTED, 0,
                                   "the folder of the driver's library is unknown");
        }
        kilni_text_append_bytes(&folder, s->driver_path, (size_t)(slash - s->driver_path) + 1);
    }
    kiln_status status = kilni_text_append_bytes(&folder, pattern, (size_t)(last - pattern));
    if (status == KILN_OK) {
        status = search_folder(s, folder.bytes, last);
    }
    kilni_text_done(&folder);
    return status;
}

static kiln_status search_patterns(search *s, const char *const *patterns)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; patterns[i] && status == KILN_OK; i++) {
        status = search_pattern(s, patterns[i]);
    }
    return status;
}

/* A driver might look for its files in the folder of the link through which its library was opened,
 * or in the folder of the library itself. */
static kiln_status search_beside(search *s, const char *driver_path, const char *const *patterns)
{
    s->driver_path = driver_path;
    kiln_status status = search_patterns(s, patterns);
    char *real = status == KILN_OK && *driver_path == '/' ? realpath(driver_path, NULL) : NULL;
    if (real) {
        s->driver_path = real;
        status = search_patterns(s, patterns);
    }
    free(real);
    return status;
}

static kiln_status add_patterns(kilni_driver_files *files, const char *driver_path,
                                const char *const *patterns, kiln_error *error)
{
    size_t count = 0;
    while (patterns[count]) {
        count++;
    }
    search s = {.files = files, .done = malloc((2 * count + 1) * sizeof *s.done), .error = error};
    if (!s.done) {
        return KILN_E_NO_MEMORY;
    }
    const kiln_status status = search_beside(&s, driver_path, patterns);
    free(s.done);
    return status;
}

/* Returns how many files with the same name were found before this file. */
static size_t place_among_equals(const kilni_driver_files *files, size_t index)
{
    size_t before = 0;
    for (size_t i = 0; i < index; i++) {
        before += files->items[i].inode != 0 &&
                  strcmp(files->items[i].name, files->items[index].name) == 0;
    }
    return before;
}

/* If two folders have a file of the same name, it matters which folder has which file. So a number
 * is added to the name of each such file except the first. The last file is renamed first, because
 * the number of a file is found by counting the original names before it. */
static kiln_status number_equal_names(kilni_driver_files *files)
{
    kiln_status status = KILN_OK;
    for (size_t i = files->count; i-- > 0 && status == KILN_OK;) {
        kilni_driver_file *file = &files->items[i];
        const size_t before = file->inode != 0 ? place_among_equals(files, i) : 0;
        if (before > 0) {
            kilni_text name = {0};
            status = kilni_text_printf(&name, "%s#%zu", file->name, before + 1);
            if (status == KILN_OK) {
                free(file->name);
                file->name = name.bytes;
            }
        }
    }
    return status;
}

/* ---- all of it ---- */

static int compare_files(const void *a, const void *b)
{
    const kilni_driver_file *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->identity, y->identity);
}

kiln_status kilni_driver_files_find(const kilni_loaded_libraries *all, const char *const *patterns,
                                    kilni_driver_files *ret_files, kiln_error *error)
{
    kilni_driver_files files = {0};
    kiln_status status = add_libraries(&files, all, error);
    if (status == KILN_OK) {
        status = add_patterns(&files, all->driver->path, patterns, error);
    }
    if (status == KILN_OK) {
        status = number_equal_names(&files);
    }
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
    kilni_file_stamps_done(&files->stamps);
    *files = (kilni_driver_files){0};
}
