/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that steer a compiler. The process's environment is read as it is at the call;
 * a program that changes it from another thread meanwhile breaks the C library's own rules too.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/opencl.h>

#include "base/error.h"
#include "base/text.h"
#include "build_request.h"
#include "file_content.h"
#include "identity.h"
#include "traits.h"

enum { MAX_FILE_BYTES = 16 << 20, MAX_PART_NAME = 255 };

/* Variables that are set, each as "NAME=VALUE"; borrowed from the environment. */
typedef struct settings {
    const char **items;
    size_t count;
} settings;

static size_t name_length(const char *setting)
{
    return strcspn(setting, "=");
}

static bool pattern_fits(const char *pattern, const char *setting)
{
    size_t length = strlen(pattern), name = name_length(setting);
    if (length > 0 && pattern[length - 1] == '*') {
        return name >= length - 1 && memcmp(setting, pattern, length - 1) == 0;
    }
    return name == length && memcmp(setting, pattern, length) == 0;
}

static bool any_pattern_fits(const char *const *patterns, const char *setting)
{
    for (; patterns && *patterns; patterns++) {
        if (pattern_fits(*patterns, setting)) {
            return true;
        }
    }
    return false;
}

static bool is_exception(const char *const *patterns, const char *setting)
{
    for (; *patterns; patterns++) {
        if (**patterns == '!' && pattern_fits(*patterns + 1, setting)) {
            return true;
        }
    }
    return false;
}

static bool counts(const kilni_opencl_traits *traits, const kilni_opencl_environment *more,
                   const char *setting)
{
    return (any_pattern_fits(traits->variables, setting) &&
            !is_exception(traits->variables, setting)) ||
           (more && any_pattern_fits(more->variables, setting));
}

static int compare_settings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, so that the order of the environment doesn't count. */
static kiln_status collect(const kilni_opencl_traits *traits, const kilni_opencl_environment *more,
                           settings *ret_settings)
{
    size_t capacity = 0;
    for (char **at = environ; at && *at; at++) {
        capacity++;
    }
    settings found = {.items = malloc((capacity + 1) * sizeof *found.items)};
    if (!found.items) {
        return KILN_E_NO_MEMORY;
    }
    for (size_t i = 0; i < capacity && environ[i]; i++) {
        if (counts(traits, more, environ[i])) {
            found.items[found.count++] = environ[i];
        }
    }
    qsort(found.items, found.count, sizeof *found.items, compare_settings);
    *ret_settings = found;
    return KILN_OK;
}

/* Appends a part named PREFIX NAME. */
static kiln_status add_named(kiln_key_builder *key, const char *prefix, const char *name,
                             size_t length, const void *bytes, size_t size, kiln_error *error)
{
    if (length > MAX_PART_NAME - strlen(prefix) || length == 0) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "a variable's name of %zu bytes",
                               length);
    }
    kilni_text text = {0};
    kiln_status status = kilni_text_append(&text, prefix);
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(&text, name, length);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add(key, text.bytes, bytes, size);
    }
    kilni_text_done(&text);
    return status;
}

/* Appends the contents of a file; nothing where it isn't there. */
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
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s can't be read, for %s", path,
                               name);
    }
    status = add_named(key, prefix, name, strlen(name), file.bytes, file.size, error);
    kilni_file_content_done(&file);
    return status;
}

static kiln_status add_settings(const settings *set, kiln_key_builder *key, kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < set->count && status == KILN_OK; i++) {
        size_t length = name_length(set->items[i]);
        const char *value = set->items[i] + length + (set->items[i][length] == '=');
        status = add_named(key, "env.", set->items[i], length, value, strlen(value), error);
    }
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
    settings set;
    kiln_status status = collect(traits, more, &set);
    if (status != KILN_OK) {
        return status;
    }
    status = add_settings(&set, key, error);
    if (status == KILN_OK) {
        status = add_named_files(traits, key, error);
    }
    free(set.items);
    return status;
}

/* ---- for a process that repeats a build ---- */

/* Where loader, driver and compiler find their files and keep what they make. */
static const char *const needed_variables[] = {
    "POCL_*", "OCL_ICD_*", "OPENCL_VENDOR_PATH", "LD_LIBRARY_PATH", "PATH",
    "HOME",   "TMPDIR",    "XDG_CACHE_HOME",     "KILN_KEY_ENV",    NULL,
};

/* What would put other code under the repeated build, or have its results kept elsewhere, unsigned
 * or without bound: that is for who repeats it to say. What may steer a compiler has no end, so
 * that this can't be a list of what is allowed; it keeps mishaps out, and nobody who may write
 * requests. */
static const char *const unwanted_variables[] = {
    "OPENCL_LAYERS", "LD_*", "!LD_LIBRARY_PATH", "GLIBC_TUNABLES", "KILN_*", "!KILN_KEY_ENV", NULL,
};

int kilni_opencl_may_be_repeated(const char *setting)
{
    return !any_pattern_fits(unwanted_variables, setting) ||
           is_exception(unwanted_variables, setting);
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
            any_pattern_fits(needed_variables, setting) || counts(traits, more, setting);
        if (is_needed && kilni_opencl_may_be_repeated(setting)) {
            status = add(user, setting);
        }
    }
    return status;
}

/* ---- for people ---- */

/* Reports what fits one pattern, or that nothing does. */
static kiln_status report_pattern(const char *pattern, const settings *set,
                                  kiln_opencl_report_fn report, void *user)
{
    bool any = false;
    for (size_t i = 0; i < set->count; i++) {
        const char *setting = set->items[i];
        if (!pattern_fits(pattern, setting)) {
            continue;
        }
        size_t length = name_length(setting);
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

static kiln_status report_patterns(const char *const *patterns, const settings *set,
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
    settings set;
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
