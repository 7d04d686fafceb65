/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions: each work-group reduces its share of the input and writes one value. A second launch
 * of one group reduces those.
 *
 * -D GROUP=…  work-items in a group, a power of two
 */

#define SUM(a, b) ((a) + (b))
#define MIN(a, b) min(a, b)
#define MAX(a, b) max(a, b)

#define REDUCTION(NAME, TYPE, FOLD, NEUTRAL)                                                       \
    kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void NAME(                           \
        global const TYPE *input, global TYPE *output, uint count)                                 \
    {                                                                                              \
        local TYPE shared[GROUP];                                                                  \
        const uint item = (uint)get_local_id(0);                                                   \
        TYPE value = NEUTRAL;                                                                      \
        for (uint i = (uint)get_global_id(0); i < count; i += (uint)get_global_size(0)) {          \
            value = FOLD(value, input[i]);                                                         \
        }                                                                                          \
        shared[item] = value;                                                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {                          \
            if (item < half_size) {                                                                \
                shared[item] = FOLD(shared[item], shared[item + half_size]);                       \
            }                                                                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
        }                                                                                          \
        if (item == 0) {                                                                           \
            output[get_group_id(0)] = shared[0];                                                   \
        }                                                                                          \
    }

REDUCTION(sum_int, int, SUM, 0)
REDUCTION(min_int, int, MIN, INT_MAX)
REDUCTION(max_int, int, MAX, INT_MIN)
REDUCTION(sum_float, float, SUM, 0.0f)
REDUCTION(min_float, float, MIN, INFINITY)
REDUCTION(max_float, float, MAX, -INFINITY)
