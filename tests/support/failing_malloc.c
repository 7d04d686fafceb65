/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_malloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The linker's option --wrap requires these names of the wrappers and of the wrapped functions. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

/* The number of the allocation that fails; 0: none. Written only while no other thread runs. */
static atomic_size_t failing;
static atomic_size_t counted;

void failing_malloc_arm(size_t n)
{
    atomic_store(&counted, 0);
    atomic_store(&failing, n);
}

size_t failing_malloc_disarm(void)
{
    atomic_store(&failing, 0);
    return atomic_load(&counted);
}

static bool is_to_fail(void)
{
    size_t n = atomic_load(&failing);
    if (n == 0 || atomic_fetch_add(&counted, 1) + 1 != n) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return is_to_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_to_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return is_to_fail() ? NULL : __real_realloc(block, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_to_fail() ? NULL : __real_aligned_alloc(alignment, size);
}
