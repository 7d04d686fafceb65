/* SPDX-License-Identifier: Apache-2.0 */
#include "device/variables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "key/builder.h"

enum { MAX_PART_NAME = 255 };

size_t kilni_variable_name_length(const char *setting)
{
    return strcspn(setting, "=");
}

bool kilni_variable_matches(const char *pattern, const char *setting)
{
    size_t length = strlen(pattern), name = kilni_variable_name_length(setting);
    if (length > 0 && pattern[length - 1] == '*') {
        return name >= length - 1 && memcmp(setting, pattern, length - 1) == 0;
    }
    return name == length && memcmp(setting, pattern, length) == 0;
}

bool kilni_variable_counts(const char *const *patterns, const char *setting)
{
    bool matches = false;
    for (; patterns && *patterns; patterns++) {
        if (**patterns == '!' && kilni_variable_matches(*patterns + 1, setting)) {
            return false;
        }
        matches = matches || kilni_variable_matches(*patterns, setting);
    }
    return matches;
}

static int compare_settings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the settings, so that the order of the environment does not matter. */
kiln_status kilni_variables_find(const char *const *patterns, const char *const *more,
                                 kilni_variables *ret_variables)
{
    size_t capacity = 0;
    for (char **at = environ; at && *at; at++) {
        capacity++;
    }
    kilni_variables found = {.items = malloc((capacity + 1) * sizeof *found.items)};
    if (!found.items) {
        return KILN_E_NO_MEMORY;
    }
    for (size_t i = 0; i < capacity && environ[i]; i++) {
        if (kilni_variable_counts(patterns, environ[i]) ||
            kilni_variable_counts(more, environ[i])) {
            found.items[found.count++] = environ[i];
        }
    }
    qsort(found.items, found.count, sizeof *found.items, compare_settings);
    *ret_variables = found;
    return KILN_OK;
}

kiln_status kilni_variable_add_part(kiln_key_builder *key, const char *prefix, const char *name,
                                    size_t length, const void *bytes, size_t size,
                                    kiln_error *error)
{
    if (length > MAX_PART_NAME - strlen(prefix) || length == 0) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "a variable's name has %zu bytes",
                               length);
    }
    kilni_text text = {0};
    kilni_key_builder_fail(key, kilni_text_printf(&text, "%s%.*s", prefix, (int)length, name));
    const kiln_status status = kiln_key_builder_add(key, text.bytes, bytes, size);
    kilni_text_done(&text);
    return status;
}

kiln_status kilni_variables_add_to_key(const kilni_variables *variables, kiln_key_builder *key,
                                       kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < variables->count && status == KILN_OK; i++) {
        const char *setting = variables->items[i];
        size_t length = kilni_variable_name_length(setting);
        const char *value = setting + length + (setting[length] == '=');
        status = kilni_variable_add_part(key, "env.", setting, length, value, strlen(value), error);
    }
    return status;
}
