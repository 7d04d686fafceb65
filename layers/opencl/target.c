/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <string.h>

/* The first clInitLayer writes this, before the application can call the layer. It is never written
 * again. */
static cl_icd_dispatch target;

const cl_icd_dispatch *layer_target(void)
{
    return &target;
}

void layer_copy_functions(cl_icd_dispatch *to, const cl_icd_dispatch *from, cl_uint entry_count)
{
    const size_t offered = (size_t)entry_count * sizeof(void *);
    memset(to, 0, sizeof *to);
    memcpy(to, from, offered < sizeof *to ? offered : sizeof *to);
}

void layer_set_target(const cl_icd_dispatch *functions, cl_uint entry_count)
{
    layer_copy_functions(&target, functions, entry_count);
}
