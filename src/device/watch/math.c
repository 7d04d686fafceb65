/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/math.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "device/floating_point.h"

#define NAME(name, type, count) #name,
static const char *const names[] = {KILNI_MATH(NAME)};
#undef NAME

#define ARITY(name, type, count) count,
static const unsigned char arities[] = {KILNI_MATH(ARITY)};
#undef ARITY

/* Each is written once, before NVRTC's calls are led to the code that reads it: the exchange of the
 * place in NVRTC's table is a release that follows the write. */
static _Atomic(void *) functions[KILNI_MATH_COUNT];

int kilni_math_find(const char *name)
{
    for (int i = 0; i < KILNI_MATH_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

const char *kilni_math_name(int function)
{
    return names[function];
}

int kilni_math_arity(int function)
{
    return arities[function];
}

/* Whether a name is that of a function, or of its kin for other types. */
static bool is_kin(const char *name, const char *of)
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

bool kilni_math_is_unknown(const char *name)
{
    static const char *const others[] = {
        "acospi", "asinpi", "atan2pi", "atanpi", "compoundn", "cospi",  "drem",    "exp10m1",
        "exp2m1", "gamma",  "j0",      "j1",     "jn",        "lgamma", "log10p1", "log2p1",
        "logp1",  "pow10",  "pown",    "powr",   "rootn",     "rsqrt",  "scalb",   "significand",
        "sincos", "sinpi",  "tanpi",   "y0",     "y1",        "yn"};
    if (kilni_math_find(name) >= 0) {
        return false;
    }
    bool is = ends_with(name, "_finite") || strncmp(name, "lgamma", 6) == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !is; i++) {
        is = is_kin(name, names[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && !is; i++) {
        is = is_kin(name, others[i]);
    }
    return is;
}

bool kilni_math_set_function(int function, void *address)
{
    void *before = NULL;
    return atomic_compare_exchange_strong_explicit(&functions[function], &before, address,
                                                   memory_order_acq_rel, memory_order_acquire) ||
           before == address;
}

void *kilni_math_get_function(int function)
{
    return atomic_load_explicit(&functions[function], memory_order_acquire);
}

/* ---- calling them ---- */

static uint64_t call_double(void *address, int count, const uint64_t *arguments)
{
    double a, b, result;
    uint64_t bits;
    memcpy(&a, &arguments[0], sizeof a);
    memcpy(&b, &arguments[1], sizeof b);
    result =
        count == 1 ? ((double (*)(double))address)(a) : ((double (*)(double, double))address)(a, b);
    memcpy(&bits, &result, sizeof bits);
    return bits;
}

static uint64_t call_float(void *address, int count, const uint64_t *arguments)
{
    const uint32_t low[] = {(uint32_t)arguments[0], (uint32_t)arguments[1]};
    float a, b, result;
    uint32_t bits;
    memcpy(&a, &low[0], sizeof a);
    memcpy(&b, &low[1], sizeof b);
    result = count == 1 ? ((float (*)(float))address)(a) : ((float (*)(float, float))address)(a, b);
    memcpy(&bits, &result, sizeof bits);
    return bits;
}

static uint64_t call_at(void *address, const kilni_fold *fold)
{
#define TYPE(name, type, count) sizeof(type) == sizeof(float),
    static const bool are_float[] = {KILNI_MATH(TYPE)};
#undef TYPE
    const int count = arities[fold->function];
    return are_float[fold->function] ? call_float(address, count, fold->arguments)
                                     : call_double(address, count, fold->arguments);
}

void kilni_math_try(int function, void *address)
{
    const int number = errno;
    const kilni_floating_point_before before = kilni_floating_point_silence();
    call_at(address, &(kilni_fold){.function = (uint8_t)function});
    kilni_floating_point_restore(&before);
    errno = number;
}

/* To see which flags the call raises, all are lowered before it; those that were raised are raised
 * again afterwards. errno is treated the same way. */
bool kilni_math_call(kilni_fold *fold)
{
    void *address = kilni_math_get_function(fold->function);
    if (!address) {
        return false;
    }
    const int number = errno;
    const uint32_t before = kilni_floating_point_take_flags();
    errno = 0;
    fold->result = call_at(address, fold);
    fold->error = (uint32_t)errno;
    const uint32_t flags = kilni_floating_point_take_flags();
    fold->raised = kilni_floating_point_raised(flags);
    kilni_floating_point_add_flags(before | flags);
    if (fold->error == 0) {
        errno = number;
    }
    return true;
}
