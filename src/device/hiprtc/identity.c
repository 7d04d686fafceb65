/* SPDX-License-Identifier: Apache-2.0 */
#include "device/hiprtc/identity.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "device/driver_files.h"
#include "device/file_identity.h"
#include "device/floating_point.h"
#include "device/loaded_libraries.h"
#include "device/variables.h"
#include "key/builder.h"
#include "key/hash.h"

/* ---- libraries of the process ---- */

static bool is_named(const char *path, const char *beginning)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, beginning, strlen(beginning)) == 0;
}

/* Looks for a library whose file name begins with a text. */
typedef struct wanted {
    const char *beginning;
    uintptr_t address; /* in the library; 0: there is none */
    size_t count;      /* of libraries with such a name */
} wanted;

static int see_library(struct dl_phdr_info *info, size_t size, void *user)
{
    wanted *w = user;
    (void)size;
    if (is_named(info->dlpi_name ? info->dlpi_name : "", w->beginning)) {
        for (size_t i = 0; i < info->dlpi_phnum && w->address == 0; i++) {
            const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
            w->address = segment->p_type == PT_LOAD ? info->dlpi_addr + segment->p_vaddr : 0;
        }
        w->count++;
    }
    return 0;
}

static kiln_status find_comgr(kilni_loaded_libraries *ret_all, kiln_error *error)
{
    wanted comgr = {.beginning = "libamd_comgr.so"};
    dl_iterate_phdr(see_library, &comgr);
    return comgr.count == 1
               ? kilni_loaded_libraries_find(&comgr.address, 1, NULL, ret_all, error)
               : kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                 "the process has %zu libraries libamd_comgr", comgr.count);
}

/* ---- identity ---- */

typedef struct library_identity {
    kilni_text text;
    kiln_status status; /* KILN_MISS: there is no such library */
} library_identity;

static void identify(void *user, const struct dl_phdr_info *library)
{
    library_identity *of = user;
    of->status = kilni_library_build_id(library, &of->text);
    if (of->status == KILN_MISS) {
        of->status = kilni_file_identity(library->dlpi_name ? library->dlpi_name : "", &of->text);
    }
}

/* Appends the identity of the library at an address. A build-id is the same in memory and on disk;
 * a library without one is identified by its file, because the layer changes it in memory. */
static kiln_status add_library(const void *address, const char *part, kiln_key_builder *key)
{
    library_identity library = {.status = KILN_MISS};
    kilni_loaded_library_use(address, NULL, identify, &library);
    if (library.status == KILN_OK) {
        library.status = kiln_key_builder_add_text(key, part, library.text.bytes);
    }
    kilni_text_done(&library.text);
    return library.status == KILN_MISS ? KILN_E_UNSUPPORTED : library.status;
}

static kiln_status add_builtins(kiln_key_builder *key)
{
    wanted builtins = {.beginning = "libhiprtc-builtins.so"};
    dl_iterate_phdr(see_library, &builtins);
    return builtins.count == 0  ? KILN_OK
           : builtins.count > 1 ? KILN_E_UNSUPPORTED
                                : add_library((const void *)builtins.address, /* NOLINT */
                                              "hiprtc.builtins", key);
}

static kiln_status add_comgr(kiln_key_builder *key, kiln_error *error)
{
    static const char *const no_patterns[] = {NULL};
    kilni_loaded_libraries all;
    kilni_driver_files files = {0};
    kilni_text line = {0};
    kiln_status status = find_comgr(&all, error);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_driver_files_find(&all, no_patterns, &files, error);
    for (size_t i = 0; i < files.count && status == KILN_OK; i++) {
        line.length = 0;
        status = kilni_text_printf(&line, "%s %s", files.items[i].name, files.items[i].identity);
        if (status == KILN_OK) {
            status = kiln_key_builder_add_text(key, "hiprtc.compiler", line.bytes);
        }
    }
    kilni_text_done(&line);
    kilni_driver_files_done(&files);
    kilni_loaded_libraries_done(&all);
    return status;
}

kiln_status kilni_hiprtc_add_identity(const kilni_nvrtc_functions *hiprtc, kiln_key_builder *key,
                                      kiln_error *error)
{
    int major = 0, minor = 0;
    kilni_text version = {0};
    if (hiprtc->version(&major, &minor) != KILNI_NVRTC_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "HIPRTC does not report its version");
    }
    kiln_status status = kilni_text_printf(&version, "%d.%d", major, minor);
    kiln_key_builder_add_text(key, "hiprtc.version", version.bytes);
    kilni_text_done(&version);
    if (status == KILN_OK) {
        status = add_library((const void *)hiprtc->version, "hiprtc.library", key);
    }
    if (status == KILN_OK) {
        status = add_builtins(key);
    }
    if (status == KILN_E_UNSUPPORTED) {
        return kilni_error_set(error, status, 0, "HIPRTC's library can't be identified");
    }
    return status == KILN_OK ? add_comgr(key, error) : status;
}

/* ---- variables ---- */

/* HIP's runtime and comgr read these only once in a process, except those that choose devices or
 * concern messages. */
#define READ_ONCE                                                                                  \
    "HIP_*", "!HIP_VISIBLE_DEVICES", "HIPRTC_*", "ROCM_PATH", "AMD_*", "!AMD_LOG_*", "GPU_*",      \
        "!GPU_DEVICE_ORDINAL", "!GPU_MAX_HW_QUEUES", "OCL_*", "!OCL_ICD_*", "LLVM_*"
static const char *const read_once[] = {READ_ONCE, NULL};

/* Clang and LLVM read the others in each compilation. TMPDIR and the like are missing, because no
 * result contains the name of the temporary folder. */
static const char *const variables[] = {READ_ONCE,
                                        "LLD_*",
                                        "CLANG_*",
                                        "AS_SECURE_LOG_FILE",
                                        "PATH",
                                        "COMPILER_PATH",
                                        "LIBRARY_PATH",
                                        "CPATH",
                                        "C_INCLUDE_PATH",
                                        "CPLUS_INCLUDE_PATH",
                                        "OBJC_INCLUDE_PATH",
                                        "OBJCPLUS_INCLUDE_PATH",
                                        "SOURCE_DATE_EPOCH",
                                        NULL};

/* Variables that add options to those of the call, or make comgr write times, logs or files. */
static const char *const refused[] = {"AMD_COMGR_*",          "HIPRTC_COMPILE_*", "HIPRTC_LINK_*",
                                      "CCC_OVERRIDE_OPTIONS", "LLD_REPRODUCE",    NULL};

/* A hash of these variables at the first compilation of the process; 0: there was none. */
static _Atomic uint64_t first_settings;

/* Returns a hash that is not 0, or 0 if memory runs out. */
static uint64_t hash_settings(void)
{
    kilni_variables set;
    kilni_hasher hasher;
    if (kilni_variables_find(read_once, NULL, &set) != KILN_OK) {
        return 0;
    }
    kilni_hasher_begin(&hasher);
    for (size_t i = 0; i < set.count; i++) {
        kilni_hasher_add(&hasher, set.items[i], strlen(set.items[i]) + 1);
    }
    free(set.items);
    const kiln_digest digest = kilni_hasher_end(&hasher);
    uint64_t hash;
    memcpy(&hash, &digest, sizeof hash);
    return hash > 0 ? hash : 1;
}

/* Without memory, no later compilation has the same settings. */
void kilni_hiprtc_note_environment(void)
{
    uint64_t none = 0;
    if (atomic_load(&first_settings) == 0) {
        const uint64_t now = hash_settings();
        atomic_compare_exchange_strong(&first_settings, &none, now > 0 ? now : 1);
    }
}

static bool has_first_settings(void)
{
    const uint64_t first = atomic_load(&first_settings);
    return first == 0 || hash_settings() == first;
}

kiln_status kilni_hiprtc_add_environment(const char *const *more, kiln_key_builder *key,
                                         kiln_error *error)
{
    kilni_variables set = {0};
    kiln_status status = kilni_variables_find(refused, NULL, &set);
    if (status == KILN_OK && set.count > 0) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%.*s is set",
                                 (int)kilni_variable_name_length(set.items[0]), set.items[0]);
    }
    free(set.items);
    if (status != KILN_OK) {
        return status;
    }
    if (!has_first_settings()) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "a variable has changed since HIPRTC first compiled");
    }
    status = kilni_variables_find(variables, more, &set);
    if (status == KILN_OK) {
        status = kilni_variables_add_to_key(&set, key, error);
        free(set.items);
    }
    return status == KILN_OK ? kilni_floating_point_add_to_key(key) : status;
}

/* ---- watching ---- */

static const struct link_map *map_of(const kilni_loaded_library *library)
{
    Dl_info unused;
    struct link_map *map = NULL;
    for (size_t i = 0; i < library->info.dlpi_phnum && !map; i++) {
        const ElfW(Phdr) *segment = &library->info.dlpi_phdr[i];
        const uintptr_t address = library->info.dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD &&
            !dladdr1((const void *)address, &unused, (void **)&map, /* NOLINT */
                     RTLD_DL_LINKMAP)) {
            map = NULL;
        }
    }
    return map;
}

static bool is_watched(const kilni_loaded_libraries *all, const kilni_loaded_library *library)
{
    return library == all->driver || (library->needed && (is_named(library->path, "libLLVM") ||
                                                          is_named(library->path, "libclang") ||
                                                          is_named(library->path, "liblld")));
}

kiln_status kilni_hiprtc_find_watched(kilni_watched *ret_libraries[KILNI_WATCH_LIBRARIES_MAX],
                                      size_t *ret_count)
{
    kilni_loaded_libraries all;
    size_t count = 0;
    kiln_status status = find_comgr(&all, NULL);
    if (status != KILN_OK) {
        return status;
    }
    for (size_t i = 0; i < all.count && status == KILN_OK; i++) {
        if (is_watched(&all, &all.items[i])) {
            const struct link_map *map = map_of(&all.items[i]);
            status = map && count < KILNI_WATCH_LIBRARIES_MAX
                         ? kilni_watched_find(map, &ret_libraries[count])
                         : KILN_E_UNSUPPORTED;
            count++;
        }
    }
    kilni_loaded_libraries_done(&all);
    if (status == KILN_OK) {
        *ret_count = count;
    }
    return status;
}
