/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/identity.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "device/file_identity.h"
#include "device/floating_point.h"
#include "device/loaded_libraries.h"
#include "device/variables.h"
#include "key/builder.h"

/* ---- loaded libraries ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

typedef struct library_identity {
    kilni_text identity;
    kilni_text path;
    kiln_status status; /* KILN_MISS: not loaded */
} library_identity;

/* A build-id is the same in memory and on disk. The libraries of CUDA 11 have no build-id and are
 * identified by their files, for two reasons. First, if the layer is active, a part of libnvrtc in
 * memory differs from the file. Second, libnvrtc-builtins exists only as a file until it is
 * loaded. */
static kiln_status identify(const struct dl_phdr_info *library, const char *path,
                            kilni_text *identity)
{
    const kiln_status status = kilni_library_build_id(library, identity);
    return status == KILN_MISS ? kilni_file_identity(path, identity) : status;
}

static void identify_library(void *user, const struct dl_phdr_info *library)
{
    library_identity *of = user;
    const char *path = library->dlpi_name ? library->dlpi_name : "";
    of->status = identify(library, path, &of->identity);
    if (of->status == KILN_OK) {
        of->status = kilni_text_append(&of->path, path);
    }
}

static void library_identity_done(library_identity *of)
{
    kilni_text_done(&of->identity);
    kilni_text_done(&of->path);
}

/* ---- the library of built-in headers, before NVRTC has loaded it ---- */

/* Looks for a file with the given name in a folder. All files that are found, in any folder, must
 * have the same identity. */
static kiln_status look_in_folder(const char *folder, const char *name, kilni_text *identity)
{
    kilni_text path = {0}, found = {0};
    kiln_status status = kilni_text_printf(&path, "%s/%s", folder, name);
    if (status == KILN_OK) {
        status = kilni_file_identity(path.bytes, &found);
    }
    if (status == KILN_OK && !identity->bytes) {
        status = kilni_text_append(identity, found.bytes);
    } else if (status == KILN_OK && strcmp(identity->bytes, found.bytes) != 0) {
        status = KILN_E_DENIED;
    }
    kilni_text_done(&path);
    kilni_text_done(&found);
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

static kiln_status look_beside(const char *library, const char *name, kilni_text *identity)
{
    char *folder = strndup(library, (size_t)(base_name(library) - library));
    const kiln_status status =
        folder ? look_in_folder(*folder ? folder : ".", name, identity) : KILN_E_NO_MEMORY;
    free(folder);
    return status;
}

/* Looks in the folders in which the loader searches for libraries, but not in the system's list of
 * libraries (ld.so.cache). */
static kiln_status look_in_search_path(void *library, const char *name, kilni_text *identity)
{
    Dl_serinfo head;
    if (dlinfo(library, RTLD_DI_SERINFOSIZE, &head) != 0) {
        dlerror();
        return KILN_E_UNSUPPORTED;
    }
    Dl_serinfo *folders = calloc(1, head.dls_size);
    if (!folders) {
        return KILN_E_NO_MEMORY;
    }
    folders->dls_size = head.dls_size;
    folders->dls_cnt = head.dls_cnt;
    kiln_status status = KILN_E_UNSUPPORTED;
    if (dlinfo(library, RTLD_DI_SERINFO, folders) == 0) {
        status = KILN_OK;
        for (unsigned i = 0; i < folders->dls_cnt && status == KILN_OK; i++) {
            status = look_in_folder(folders->dls_serpath[i].dls_name, name, identity);
        }
    } else {
        dlerror();
    }
    free(folders);
    return status;
}

static kiln_status look_for_builtins(const char *library, const char *name, kilni_text *identity)
{
    void *handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
    if (!handle) {
        dlerror();
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = look_beside(library, name, identity);
    if (status == KILN_OK) {
        status = look_in_search_path(handle, name, identity);
    }
    dlclose(handle);
    return status == KILN_OK && !identity->bytes ? KILN_E_UNSUPPORTED : status;
}

/* The "alternative" build of NVRTC has a different name for this library. */
static kiln_status name_builtins(const char *library, int major, int minor, kilni_text *name)
{
    const char *variant = strstr(base_name(library), ".alt.") ? ".alt" : "";
    return kilni_text_printf(name, "libnvrtc-builtins%s.so.%d.%d", variant, major, minor);
}

static kiln_status find_builtins(const char *library, const char *name, library_identity *builtins)
{
    kilni_loaded_library_use(NULL, name, identify_library, builtins);
    return builtins->status == KILN_MISS ? look_for_builtins(library, name, &builtins->identity)
                                         : builtins->status;
}

/* ---- the key ---- */

static kiln_status add_builtins(const char *library, int major, int minor, kiln_key_builder *key,
                                kiln_error *error)
{
    kilni_text name = {0};
    library_identity builtins = {.status = KILN_MISS};
    kiln_status status = name_builtins(library, major, minor, &name);
    if (status == KILN_OK) {
        status = find_builtins(library, name.bytes, &builtins);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(key, "nvrtc.builtins", builtins.identity.bytes);
    } else if (status != KILN_E_NO_MEMORY) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s: %s", name.bytes,
                                 status == KILN_E_DENIED ? "several different files found"
                                                         : "not found");
    }
    kilni_text_done(&name);
    library_identity_done(&builtins);
    return status;
}

static kiln_status add_library(const library_identity *library, int major, int minor,
                               kiln_key_builder *key)
{
    kilni_text version = {0};
    kilni_key_builder_fail(key, kilni_text_printf(&version, "%d.%d", major, minor));
    kiln_key_builder_add_text(key, "nvrtc.version", version.bytes);
    kilni_text_done(&version);
    return kiln_key_builder_add_text(key, "nvrtc.library", library->identity.bytes);
}

kiln_status kilni_nvrtc_add_identity(const kilni_nvrtc_functions *nvrtc, kiln_key_builder *key,
                                     kiln_error *error)
{
    int major = 0, minor = 0;
    if (nvrtc->version(&major, &minor) != KILNI_NVRTC_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "NVRTC does not report its version");
    }
    /* If the layer is active, a program finds nvrtcVersion in libnvrtc, but the other functions in
     * the audit library. */
    library_identity library = {.status = KILN_MISS};
    kilni_loaded_library_use((const void *)nvrtc->version, NULL, identify_library, &library);
    kiln_status status = library.status;
    if (status == KILN_OK) {
        status = add_library(&library, major, minor, key);
    } else if (status != KILN_E_NO_MEMORY) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "libnvrtc can't be identified");
    }
    if (status == KILN_OK) {
        status = add_builtins(library.path.bytes, major, minor, key, error);
    }
    library_identity_done(&library);
    return status;
}

/* ---- variables ---- */

/* Variables that NVRTC and the compilers within it read. */
static const char *const variables[] = {
    "NVRTC*", "NVVM*",  "LIBNVVM*",           "NV_NVVM*",           "EDG_*",
    "LLVM_*", "PTXAS*", "DUMP_KNOBS_TO_FILE", "AS_SECURE_LOG_FILE", "CAN_FINALIZE_DEBUG",
    NULL};

/* Variables that add options to those of the call. */
static const char *const option_variables[] = {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"};

kiln_status kilni_nvrtc_add_environment(const char *const *more, kiln_key_builder *key,
                                        kiln_error *error)
{
    for (size_t i = 0; i < sizeof option_variables / sizeof *option_variables; i++) {
        if (getenv(option_variables[i])) {
            return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s is set", option_variables[i]);
        }
    }
    kilni_variables set;
    kiln_status status = kilni_variables_find(variables, more, &set);
    if (status == KILN_OK) {
        status = kilni_variables_add_to_key(&set, key, error);
        free(set.items);
    }
    return status == KILN_OK ? kilni_floating_point_add_to_key(key) : status;
}
