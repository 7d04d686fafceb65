/* SPDX-License-Identifier: Apache-2.0 */
#include "store/call_limit.h"

#include <stddef.h>

static _Thread_local const _Atomic uint64_t *limit;

const _Atomic uint64_t *kilni_call_limit_set(const _Atomic uint64_t *end_ns)
{
    const _Atomic uint64_t *previous = limit;
    limit = end_ns;
    return previous;
}

const _Atomic uint64_t *kilni_call_limit_get(void)
{
    return limit;
}
