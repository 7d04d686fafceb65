/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvjitlink/link_key.h"

#include <limits.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "device/file_identity.h"
#include "device/floating_point.h"
#include "device/loaded_libraries.h"
#include "device/variables.h"
#include "device/watch/path_lookup.h"
#include "key/builder.h"

enum { DIGEST_SIZE = 32 };

/* Variables that nvJitLink and the compilers within it read. */
static const char *const variables[] = {
    "NVJITLINK*", "NVVM*",   "LIBNVVM*",           "NV_NVVM*",           "LLVM_*",
    "PTXAS*",     "NVLINK*", "DUMP_KNOBS_TO_FILE", "AS_SECURE_LOG_FILE", "CAN_FINALIZE_DEBUG",
    NULL};

typedef struct library_identity {
    kilni_text text;
    kiln_status status;
} library_identity;

static void identify(void *user, const struct dl_phdr_info *library)
{
    library_identity *of = user;
    of->status = kilni_library_build_id(library, &of->text);
}

static kiln_status add_library(kilni_nvjitlink_version_fn *version, kiln_key_builder *key,
                               kiln_error *error)
{
    unsigned major = 0, minor = 0;
    kilni_text text = {0};
    library_identity library = {.status = KILN_MISS};
    kilni_loaded_library_use((const void *)version, NULL, identify, &library);
    if (library.status == KILN_MISS || version(&major, &minor) != KILNI_NVJITLINK_SUCCESS) {
        library.status =
            kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "libnvJitLink can't be identified");
    }
    if (library.status == KILN_OK) {
        kilni_key_builder_fail(key, kilni_text_printf(&text, "%u.%u", major, minor));
        kiln_key_builder_add_text(key, "nvjitlink.version", text.bytes);
        library.status = kiln_key_builder_add_text(key, "nvjitlink.library", library.text.bytes);
    }
    kilni_text_done(&text);
    kilni_text_done(&library.text);
    return library.status;
}

static kiln_status add_environment(const char *const *more, kiln_key_builder *key,
                                   kiln_error *error)
{
    kilni_variables set;
    kiln_status status = kilni_variables_find(variables, more, &set);
    if (status == KILN_OK) {
        status = kilni_variables_add_to_key(&set, key, error);
        free(set.items);
    }
    return status == KILN_OK ? kilni_floating_point_add_to_key(key) : status;
}

kiln_status kilni_nvjitlink_key_begin(kilni_nvjitlink_version_fn *version, const char *interface,
                                      size_t option_count, const char *const *options,
                                      const char *const *more, kiln_key_builder **ret_key,
                                      kiln_error *error)
{
    kiln_key_builder *key = NULL;
    kiln_status status = kiln_key_builder_new(&key);
    if (status == KILN_OK) {
        status = add_library(version, key, error);
    }
    if (status == KILN_OK) {
        status = add_environment(more, key, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(key, "nvjitlink.interface", interface);
    }
    for (size_t i = 0; i < option_count && status == KILN_OK; i++) {
        status = kiln_key_builder_add_text(key, "option", options[i]);
    }
    if (status != KILN_OK) {
        kiln_key_builder_free(&key);
        return status;
    }
    *ret_key = key;
    return KILN_OK;
}

kiln_status kilni_nvjitlink_key_add_data(kiln_key_builder *key, int kind, const void *data,
                                         size_t size, const char *name)
{
    unsigned char digest[DIGEST_SIZE];
    crypto_generichash(digest, sizeof digest, data, size, NULL, 0);
    kiln_key_builder_add_number(key, "input.kind", (uint64_t)(int64_t)kind);
    if (name) {
        kiln_key_builder_add_text(key, "input.name", name);
    }
    kiln_key_builder_add_number(key, "input.size", size);
    return kiln_key_builder_add(key, "input", digest, sizeof digest);
}

kiln_status kilni_nvjitlink_key_add_file(kiln_key_builder *key, int kind, const char *path)
{
    char target[PATH_MAX];
    kilni_path_facts facts;
    const kiln_status status =
        kilni_path_look_up(KILNI_LOOKUP_CONTENT, path, NULL, NULL, &facts, target);
    kiln_key_builder_add_number(key, "input.kind", (uint64_t)(int64_t)kind);
    if (status == KILN_OK && facts.what == KILN_FOUND_FILE) {
        kiln_key_builder_add(key, "input", facts.digest, sizeof facts.digest);
    }
    return status == KILN_OK ? kiln_key_builder_add_text(key, "input.file", path) : status;
}

static kiln_status finish_accepted(const kiln_key *linked, kiln_key **ret_accepted)
{
    kiln_key_builder *key = NULL;
    kiln_status status = kiln_key_builder_new(&key);
    if (status == KILN_OK) {
        kilni_key_parts_add(linked, key);
        kiln_key_builder_add_text(key, "nvjitlink.step", "accepted");
        status = kiln_key_builder_finish(key, ret_accepted);
    }
    kiln_key_builder_free(&key);
    return status;
}

kiln_status kilni_nvjitlink_key_finish(const kiln_key_builder *key, kiln_key **ret_linked,
                                       kiln_key **ret_accepted)
{
    kiln_key *linked = NULL;
    kiln_status status = kiln_key_builder_finish(key, &linked);
    if (status == KILN_OK) {
        status = finish_accepted(linked, ret_accepted);
    }
    if (status != KILN_OK) {
        kiln_key_release(&linked);
        return status;
    }
    *ret_linked = linked;
    return KILN_OK;
}
