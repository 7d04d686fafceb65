/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/math_calls.h"

#include <string.h>

#include "device/watch/compilation.h"
#include "device/watch/math.h"

/* A compiler's calls are redirected to these functions only after the address of the original
 * function is known. */
static void observe(kilni_fold *fold)
{
    if (kilni_math_call(fold)) {
        kilni_compilation_report_fold(fold);
    }
}

static double observe_double(uint8_t function, double a, double b)
{
    kilni_fold fold = {.function = function};
    double result;
    memcpy(&fold.arguments[0], &a, sizeof a);
    memcpy(&fold.arguments[1], &b, sizeof b);
    observe(&fold);
    memcpy(&result, &fold.result, sizeof result);
    return result;
}

static float observe_float(uint8_t function, float a, float b)
{
    kilni_fold fold = {.function = function};
    uint32_t bits[3];
    float result;
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    fold.arguments[0] = bits[0];
    fold.arguments[1] = bits[1];
    observe(&fold);
    bits[2] = (uint32_t)fold.result;
    memcpy(&result, &bits[2], sizeof result);
    return result;
}

#define PARAMETERS_1(type) type a
#define PARAMETERS_2(type) type a, type b
#define SECOND_1 0
#define SECOND_2 b
#define DEFINE(name, type, count, folds)                                                           \
    static type observed_##name(PARAMETERS_##count(type))                                          \
    {                                                                                              \
        return observe_##type(KILNI_MATH_##name, a, SECOND_##count);                               \
    }
KILNI_MATH(DEFINE)
#undef DEFINE

void *kilni_math_call_of(int function)
{
#define ADDRESS(name, type, count, folds) (void *)observed_##name,
    static void *const calls[] = {KILNI_MATH(ADDRESS)};
#undef ADDRESS
    return calls[function];
}
