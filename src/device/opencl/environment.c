/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/opencl.h>

#include "base/error.h"
#include "build_request.h"
#include "device/file_content.h"
#include "device/floating_point.h"
#include "device/variables.h"
#include "identity.h"
#include "traits.h"

enum { MAX_FILE_BYTES = 16 << 20 };

static bool counts(const kilni_opencl_traits *traits, const kilni_opencl_environment *more,
                   const char *setting)
{
    return kilni_variable_counts(traits->variables, setting) ||
           (more && kilni_variable_counts(more->variables, setting));
}

static kiln_status collect(const kilni_opencl_traits *traits, const kilni_opencl_environment *more,
                           kilni_variables *ret_settings)
{
    return kilni_variables_find(traits->variables, more ? more->variables : NULL, ret_settings);
}

/* Appends the contents of a file, or nothing if it does not exist. */
static kiln_status add_file(kiln_key_builder *key, const char *prefix, const char *name,
                            const char *path, kiln_error *error)
{
    kilni_file_content file;
    kiln_status status = kilni_file_content_read(path, MAX_FILE_BYTES, &file);
    if (status == KILN_MISS) {
        return KILN_OK;
    }
    if (status == KILN_E_NO_MEMORY) {
        return status;
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s (for %s) can't be read", path,
                               name);
    }
    status = kilni_variable_add_part(key, prefix, name, strlen(name), file.bytes, file.size, error);
    kilni_file_content_done(&file);
    return status;
}

static kiln_status add_named_files(const kilni_opencl_traits *traits, kiln_key_builder *key,
                                   kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (const char *const *name = traits->file_variables; *name && status == KILN_OK; name++) {
        const char *path = getenv(*name);
        if (path && *path) {
            status = add_file(key, "env.file.", *name, path, error);
        }
    }
    for (const char *const *name = traits->working_files; *name && status == KILN_OK; name++) {
        status = add_file(key, "working.", *name, *name, error);
    }
    return status;
}

kiln_status kilni_opencl_add_environment(const char *platform_name,
                                         const kilni_opencl_environment *more,
                                         kiln_key_builder *key, kiln_error *error)
{
    const kilni_opencl_traits *traits = kilni_opencl_traits_of(platform_name);
    kilni_variables set;
    kiln_status status = collect(traits, more, &set);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_variables_add_to_key(&set, key, error);
    if (status == KILN_OK) {
        status = add_named_files(traits, key, error);
    }
    free(set.items);
    return status == KILN_OK ? kilni_floating_point_add_to_key(key) : status;
}

/* ---- for a process that repeats a build ---- */

/* Variables that name folders in which the loader, the driver and the compiler find their files or
 * keep their results. KILN_KEY_ENV is also here: it names further variables of the key. */
static const char *const needed_variables[] = {
    "POCL_*", "OCL_ICD_*", "OPENCL_VENDOR_PATH", "LD_LIBRARY_PATH", "PATH",
    "HOME",   "TMPDIR",    "XDG_CACHE_HOME",     "KILN_KEY_ENV",    NULL,
};

/* Variables that are not passed to the process that repeats a build. They would make the build load
 * additional code, or make it keep its results in a different place, unsigned or without a limit.
 * `kiln capture` passes its own settings of the store to that process instead. The list names what
 * is forbidden, not what is allowed, because the variables that might affect a compiler cannot be
 * enumerated. So the list prevents accidents, but it is no protection against someone with write
 * access to requests. */
static const char *const unwanted_variables[] = {
    "OPENCL_LAYERS", "LD_*", "!LD_LIBRARY_PATH", "GLIBC_TUNABLES", "KILN_*", "!KILN_KEY_ENV", NULL,
};

int kilni_opencl_may_pass_variable(const char *setting)
{
    return !kilni_variable_counts(unwanted_variables, setting);
}

kiln_status kilni_opencl_each_needed_variable(const char *platform_name,
                                              const kilni_opencl_environment *more,
                                              kiln_status (*add)(void *user, const char *setting),
                                              void *user)
{
    const kilni_opencl_traits *traits = kilni_opencl_traits_of(platform_name);
    kiln_status status = KILN_OK;
    for (char **at = environ; at && *at && status == KILN_OK; at++) {
        const char *setting = *at;
        const bool is_needed =
            kilni_variable_counts(needed_variables, setting) || counts(traits, more, setting);
        if (is_needed && kilni_opencl_may_pass_variable(setting)) {
            status = add(user, setting);
        }
    }
    return status;
}

/* ---- reports ---- */

/* Reports the variables that match one pattern. If there are none, reports that. */
static kiln_status report_pattern(const char *pattern, const kilni_variables *set,
                                  kiln_opencl_report_fn report, void *user)
{
    bool any = false;
    for (size_t i = 0; i < set->count; i++) {
        const char *setting = set->items[i];
        if (!kilni_variable_matches(pattern, setting)) {
            continue;
        }
        size_t length = kilni_variable_name_length(setting);
        char *name = strndup(setting, length);
        if (!name) {
            return KILN_E_NO_MEMORY;
        }
        report(user, name, setting + length + (setting[length] == '='));
        free(name);
        any = true;
    }
    if (!any) {
        report(user, pattern, NULL);
    }
    return KILN_OK;
}

static kiln_status report_patterns(const char *const *patterns, const kilni_variables *set,
                                   kiln_opencl_report_fn report, void *user)
{
    kiln_status status = KILN_OK;
    for (; patterns && *patterns && status == KILN_OK; patterns++) {
        if (**patterns != '!') {
            status = report_pattern(*patterns, set, report, user);
        }
    }
    return status;
}

kiln_status kiln_opencl_report_environment(const char *platform_name, const char *const *more,
                                           kiln_opencl_report_fn report, void *user)
{
    if (!report) {
        return KILN_E_INVALID;
    }
    const kilni_opencl_traits *traits = kilni_opencl_traits_of(platform_name);
    const kilni_opencl_environment environment = {.variables = more};
    kilni_variables set;
    kiln_status status = collect(traits, &environment, &set);
    if (status != KILN_OK) {
        return status;
    }
    status = report_patterns(traits->variables, &set, report, user);
    if (status == KILN_OK) {
        status = report_patterns(more, &set, report, user);
    }
    free(set.items);
    return status;
}
