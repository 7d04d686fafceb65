/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/defeating_constant.h"

#include <string.h>

#define BEFORE_NUMBER "\n\n__constant int " KILNI_DEFEATING_CONSTANT
#define AFTER_NUMBER " = 0;"

enum {
    BEFORE_SIZE = sizeof BEFORE_NUMBER - 1,
    DIGITS = 32,
    AFTER_SIZE = sizeof AFTER_NUMBER - 1,
    DECLARATION_SIZE = BEFORE_SIZE + DIGITS + AFTER_SIZE
};

static bool is_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool kilni_opencl_ends_with_defeating_constant(const kiln_program_source *source,
                                               size_t *ret_own_size)
{
    const size_t size = source->code.size;
    if (source->form != KILN_SOURCE_TEXT || size < DECLARATION_SIZE) {
        return false;
    }
    const char *declaration = (const char *)source->code.data + size - DECLARATION_SIZE;
    const char *number = declaration + BEFORE_SIZE;
    for (size_t i = 0; i < DIGITS; i++) {
        if (!is_digit(number[i])) {
            return false;
        }
    }
    if (memcmp(declaration, BEFORE_NUMBER, BEFORE_SIZE) != 0 ||
        memcmp(number + DIGITS, AFTER_NUMBER, AFTER_SIZE) != 0) {
        return false;
    }
    *ret_own_size = size - DECLARATION_SIZE;
    return true;
}

bool kilni_opencl_names_defeating_constant(const char *text)
{
    return strstr(text, KILNI_DEFEATING_CONSTANT) != NULL;
}
