/* SPDX-License-Identifier: Apache-2.0 */
#include "device/math.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned char arity;
    bool is_float, is_folded_by_llvm;
} table[] = {
#define ROW(name, type, count, folds) {#name, count, sizeof(type) == sizeof(float), folds},
    KILNI_MATH(ROW)
#undef ROW
};

int kilni_math_find(const char *name)
{
    for (int i = 0; i < KILNI_MATH_COUNT; i++) {
        if (strcmp(name, table[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *kilni_math_name(int function)
{
    return table[function].name;
}

int kilni_math_arity(int function)
{
    return table[function].arity;
}

bool kilni_math_is_float(int function)
{
    return table[function].is_float;
}

bool kilni_math_is_folded_by_llvm(int function)
{
    return table[function].is_folded_by_llvm;
}

/* Returns true if @name is the name of the function @of, or of a variant of that function for a
 * different type. */
static bool is_variant(const char *name, const char *of)
{
    const size_t length = strlen(of);
    return strncmp(name, of, length) == 0 &&
           (name[length] == '\0' || (strchr("fl", name[length]) && name[length + 1] == '\0'));
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), size = strlen(end);
    return length >= size && strcmp(name + length - size, end) == 0;
}

bool kilni_math_is_unlisted(const char *name)
{
    static const char *const others[] = {
        "acospi", "asinpi", "atan2pi", "atanpi", "compoundn", "cospi",  "drem",    "exp10m1",
        "exp2m1", "gamma",  "j0",      "j1",     "jn",        "lgamma", "log10p1", "log2p1",
        "logp1",  "pow10",  "pown",    "powr",   "rootn",     "rsqrt",  "scalb",   "significand",
        "sincos", "sinpi",  "tanpi",   "y0",     "y1",        "yn"};
    if (kilni_math_find(name) >= 0) {
        return false;
    }
    bool is_inexact = ends_with(name, "_finite") || strncmp(name, "lgamma", 6) == 0;
    for (int i = 0; i < KILNI_MATH_COUNT && !is_inexact; i++) {
        is_inexact = is_variant(name, table[i].name);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && !is_inexact; i++) {
        is_inexact = is_variant(name, others[i]);
    }
    return is_inexact;
}
