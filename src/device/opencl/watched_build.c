/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/watched_build.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/defeating_constant.h"
#include "device/opencl/driver.h"

/* ---- the driver's own files ---- */

kiln_status kilni_opencl_source_name(const kilni_opencl_traits *traits, char **ret_name)
{
    const char *set = getenv("POCL_CACHE_DIR");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    kilni_text path = {0};
    *ret_name = NULL;
    if (!traits->own_files) {
        return KILN_OK;
    }
    if (set && *set) {
        kilni_text_append(&path, set);
    } else if (cache && *cache) {
        kilni_text_printf(&path, "%s/pocl/kcache", cache);
    } else if (home && *home) {
        kilni_text_printf(&path, "%s/.cache/pocl/kcache", home);
    } else {
        kilni_text_append(&path, "/tmp/pocl/kcache");
    }
    const kiln_status status = kilni_text_append(&path, "/source");
    if (status != KILN_OK) {
        kilni_text_done(&path);
        return status;
    }
    *ret_name = path.bytes;
    return KILN_OK;
}

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Returns @path relative to the folder of @file. Returns "" if @path is that folder itself, and
 * NULL if @path is outside of it. */
static const char *path_in_folder_of(const char *file, const char *path)
{
    const size_t length = file ? (size_t)(file_of(file) - file) : 0;
    if (length == 0 || strncmp(path, file, length - 1) != 0) {
        return NULL;
    }
    return path[length - 1] == '\0' ? "" : path[length - 1] == '/' ? path + length : NULL;
}

static bool matches_any(const char *const *patterns, const char *path)
{
    for (; patterns && *patterns; patterns++) {
        if (fnmatch(*patterns, path, FNM_PATHNAME) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if a read of @path is not recorded. This is so for the driver's cache folder, the
 * driver's own files in that folder, and the files of the driver, which are in the key. It is also
 * so for the folder that LLVM queries once per process to find out whether it can ask for the paths
 * of open files. */
static bool is_not_recorded(const void *user, const char *path)
{
    const kilni_opencl_watched_build *build = user;
    const char *in_cache = path_in_folder_of(build->source_name, path);
    const char *in_driver = path_in_folder_of(build->driver, path);
    return (in_cache && (!*in_cache || matches_any(build->traits->own_files, in_cache))) ||
           (in_driver && matches_any(build->traits->compiler_files, in_driver)) ||
           matches_any(build->traits->compiler_files, path) || strcmp(path, "/proc/self/fd") == 0;
}

/* ---- the compiler's library ---- */

static bool is_in_folder_of(const char *file, const char *path)
{
    const char *name = path_in_folder_of(file, path);
    return name && name == file_of(path);
}

/* Returns the compiler's library. The driver is linked to this library, or has loaded it from the
 * driver's own folder. Returns NULL if there is no such library, or more than one. */
static const kilni_loaded_library *find_compiler(const kilni_loaded_libraries *all,
                                                 const char *pattern)
{
    const kilni_loaded_library *found = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const kilni_loaded_library *each = &all->items[i];
        if (fnmatch(pattern, file_of(each->path), 0) == 0 &&
            (each->needed || is_in_folder_of(all->driver->path, each->path))) {
            if (found) {
                return NULL;
            }
            found = each;
        }
    }
    return found;
}

static const struct link_map *map_of(const kilni_loaded_library *library)
{
    Dl_info unused;
    struct link_map *map = NULL;
    for (size_t i = 0; i < library->info.dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->info.dlpi_phdr[i];
        const uintptr_t address = library->info.dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD &&
            dladdr1((const void *)address, &unused, (void **)&map, /* NOLINT */
                    RTLD_DL_LINKMAP)) {
            return map;
        }
    }
    return NULL;
}

static kiln_status find_watched(kilni_opencl_watched_build *build, cl_platform_id platform,
                                kilni_watched **ret_library)
{
    kilni_loaded_libraries all;
    kiln_status status = kilni_opencl_driver_libraries(platform, &all, NULL);
    if (status != KILN_OK) {
        return status;
    }
    const kilni_loaded_library *compiler = find_compiler(&all, build->traits->compiler);
    const struct link_map *map = compiler ? map_of(compiler) : NULL;
    build->driver = strdup(all.driver->path);
    status = map ? kilni_watched_find_reads(map, ret_library) : KILN_E_UNSUPPORTED;
    kilni_loaded_libraries_done(&all);
    return build->driver ? status : KILN_E_NO_MEMORY;
}

/* ---- one build ---- */

/* Takes into account the options of the call, the options that variables add, and the folders that
 * compilers search by default.
 */
static kiln_status record_options(kilni_opencl_watched_build *build, const char *options)
{
    kiln_status status = kilni_reads_see_options(build->reads, "/usr/local/include /usr/include");
    if (status == KILN_OK && options) {
        status = kilni_reads_see_options(build->reads, options);
    }
    for (const char *const *each = kilni_opencl_option_variables; *each; each++) {
        const char *value = getenv(*each);
        if (value && status == KILN_OK) {
            status = kilni_reads_see_options(build->reads, value);
        }
    }
    return status;
}

static kiln_status make_reads(kilni_opencl_watched_build *build, const char *options)
{
    kiln_status status = kilni_opencl_source_name(build->traits, &build->source_name);
    /* Files that are included from the folder of the source's name are recorded by their paths. A
     * relative path would refer to a different folder if the working directory changed. */
    if (status == KILN_OK && build->source_name && *build->source_name != '/') {
        status = KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        status = kilni_reads_new(build->source_name, &kilni_opencl_words, &build->reads);
    }
    if (status == KILN_OK) {
        kilni_reads_ignore(build->reads, is_not_recorded, build);
    }
    if (status == KILN_OK && build->traits->knows_working_folder) {
        status = kilni_reads_count_working_folder(build->reads);
        return status == KILN_OK ? record_options(build, options) : status;
    }
    if (status == KILN_OK) {
        kilni_reads_count_spelled_folder(build->reads);
    }
    return status;
}

void kilni_opencl_watched_build_begin(kilni_opencl_watched_build *build, cl_platform_id platform,
                                      const kilni_opencl_traits *traits, const char *options)
{
    kilni_watched *library = NULL;
    *build = (kilni_opencl_watched_build){.traits = traits};
    kiln_status status =
        traits->compiler ? find_watched(build, platform, &library) : KILN_E_UNSUPPORTED;
    if (status == KILN_OK) {
        status = make_reads(build, options);
    }
    if (status == KILN_OK) {
        status = kilni_watch_begin(&build->watch, library, build->reads, NULL);
    }
    build->is_under_way = status == KILN_OK;
    if (status != KILN_OK) {
        kilni_opencl_watched_build_done(build);
    }
}

void kilni_opencl_watched_build_end(void *watched)
{
    kilni_opencl_watched_build *build = watched;
    if (build->is_under_way) {
        build->is_under_way = false;
        kilni_watch_end(&build->watch);
    }
}

kiln_status kilni_opencl_watched_build_finish(kilni_opencl_watched_build *build,
                                              const kilni_opencl_texts *given,
                                              kilni_text *ret_reads, const char **ret_why)
{
    *ret_why = "this driver's compiler can't be watched";
    if (!build->reads) {
        return KILN_E_UNSUPPORTED;
    }
    kilni_words words = given->words;
    kilni_words_add(&words, kilni_reads_words(build->reads));
    const char *refusal = kilni_opencl_words_refusal(&words);
    if (given->has_source_end && kilni_opencl_words_may_name_constant(&words)) {
        refusal = "a file that may name the constant " KILNI_DEFEATING_CONSTANT "...";
    }
    if (!kilni_reads_has_any(build->reads)) {
        refusal = "no read of the compiler was observed";
    }
    if (refusal) {
        *ret_why = refusal;
        return KILN_E_UNSUPPORTED;
    }
    const bool asks_known =
        build->traits->knows_working_folder && kilni_opencl_words_ask_existence(&words);
    if (asks_known) {
        kilni_reads_note(build->reads, getenv("PWD"));
    }
    if (asks_known || kilni_opencl_words_ask_place(&words)) {
        kilni_reads_note_real_path(build->reads, ".");
    }
    const bool moves = !kilni_reads_use_folder(build->reads);
    return kilni_reads_finish(build->reads, moves, &words, ret_reads, ret_why);
}

void kilni_opencl_watched_build_done(kilni_opencl_watched_build *build)
{
    kilni_reads_free(&build->reads);
    free(build->source_name);
    free(build->driver);
    build->source_name = build->driver = NULL;
}
