/* SPDX-License-Identifier: Apache-2.0 */
#include "architecture.h"

#include <string.h>

#include "../text/memory.h"

static const char *const option_names[] = {"--gpu-architecture", "-gpu-architecture", "--arch",
                                           "-arch", "--offload-arch"};
#define NAME_COUNT (sizeof option_names / sizeof option_names[0])

bool architecture_expects_value(const char *option)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (strcmp(option, option_names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the length of a number of an architecture at the beginning of the text; 0: none. */
static size_t number_length(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits == 0 ? 0 : digits + (text[digits] == 'a' || text[digits] == 'f');
}

static bool is_number(const char *text)
{
    const size_t length = number_length(text);
    return length > 0 && text[length] == '\0';
}

/* Also accepts features, as in "gfx90a:sramecc+:xnack-". */
static bool is_of_amd(const char *text)
{
    const size_t prefix = strlen("gfx");
    return strncmp(text, "gfx", prefix) == 0 && strspn(text + prefix, "0123456789") > 0 &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789:+-")] == '\0';
}

bool architecture_is(const char *text)
{
    return is_number(text) || is_of_amd(text);
}

/* Returns where the value begins in an option such as "-arch=sm_80"; NULL: it is a different
 * option. */
static const char *value_in(const char *option)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        const size_t length = strlen(option_names[i]);
        if (strncmp(option, option_names[i], length) == 0 && option[length] == '=') {
            return option + length + 1;
        }
    }
    return NULL;
}

size_t architecture_find(const char *option, bool is_value, size_t *ret_length)
{
    static const char *const kinds[] = {"sm_", "compute_", "lto_"};
    const char *value = is_value ? option : value_in(option);
    if (value != NULL && !is_value && is_of_amd(value)) {
        *ret_length = strlen(value);
        return (size_t)(value - option);
    }
    for (size_t i = 0; value != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t length = strlen(kinds[i]);
        if (strncmp(value, kinds[i], length) == 0 && is_number(value + length)) {
            *ret_length = strlen(value + length);
            return (size_t)(value + length - option);
        }
    }
    return 0;
}

char *architecture_replaced(const char *option, bool is_value, const char *architecture)
{
    size_t length = 0;
    const size_t at = architecture_find(option, is_value, &length);
    return at > 0 && architecture != NULL && is_of_amd(option + at) == is_of_amd(architecture)
               ? text_of("%.*s%s", (int)at, option, architecture)
               : must(strdup(option));
}
