/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/math.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "device/floating_point.h"

/* Each address is written once, before a compiler's calls are redirected to the code that reads it.
 * This write comes before the atomic exchange that redirects a call. That exchange has release
 * order. */
static _Atomic(void *) functions[KILNI_MATH_COUNT];

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
    const int count = kilni_math_arity(fold->function);
    return kilni_math_is_float(fold->function) ? call_float(address, count, fold->arguments)
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

/* Clears all flags before the call, to see which flags the call raises. After the call, sets the
 * earlier flags again. Treats errno in the same way. */
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
