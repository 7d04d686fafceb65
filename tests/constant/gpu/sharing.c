/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices and contexts share a constant in GPU memory.
 *
 * usage: sharing [LIBNVRTC]
 */
#include "scene.h"

static int failures;

/* Returns how often an execution reorders weights. -1: its result is wrong. */
static int reorders_of(partition *what)
{
    const int before = atomic_load(&what->owner->reorders);
    execution e;
    execution_begin(&e, what);
    const int right = is_right(&e);
    execution_end(&e);
    return right ? atomic_load(&what->owner->reorders) - before : -1;
}

static uint64_t kept(const backend *self)
{
    return kiln_constant_get_size(self->cache) >> 20;
}

static void share_a_context(backend *first, const weights *matrix)
{
    partition a, b;
    partition_compile(&a, first, matrix);
    partition_compile(&b, first, matrix);
    expect(&failures, reorders_of(&a) == 1 && reorders_of(&b) == 0 && kept(first) == 1,
           "same device, same context: shared");
    partition_release(&a);
    partition_release(&b);
}

static void share_a_device(backend *first, backend *second, const weights *matrix)
{
    partition a, b;
    partition_compile(&a, first, matrix);
    partition_compile(&b, second, matrix);
    expect(&failures,
           reorders_of(&a) == 1 && reorders_of(&b) == 1 && kept(first) == 2 &&
               first->cache == second->cache,
           "same device, different context: separate, in one budget");
    partition_release(&b);
    expect(&failures, kept(first) == 1 && reorders_of(&a) == 0,
           "the end of one context's partition leaves the other's");
    partition_release(&a);
}

static void share_nothing(backend *first, backend *there, const weights *matrix, const char *what)
{
    partition a, b;
    partition_compile(&a, first, matrix);
    partition_compile(&b, there, matrix);
    expect(&failures,
           reorders_of(&a) == 1 && reorders_of(&b) == 1 && kept(first) == 1 && kept(there) == 1 &&
               first->cache != there->cache,
           what);
    partition_release(&a);
    partition_release(&b);
}

static void use_two_devices(const cuda_driver *cuda, const char *nvrtc, backend *first,
                            const weights *matrix)
{
    backend there;
    backend_open(&there, cuda, 1, nvrtc);
    share_nothing(first, &there, matrix, "different device, different context: nothing is shared");
    /* A CUDA context belongs to one device, but a runtime above CUDA may have contexts of several
     * devices. */
    const uint64_t number = there.context_number;
    there.context_number = first->context_number;
    share_nothing(first, &there, matrix, "different device, same context: nothing is shared");
    there.context_number = number;
    backend_close(&there);
}

int main(int argc, char **argv)
{
    const char *nvrtc = argc > 1 ? argv[1] : NULL;
    const cuda_driver *cuda = backend_driver();
    int count = 0;
    weights matrix;
    backend first, second;
    REQUIRE_CUDA(cuda->cuDeviceGetCount(&count));
    make_weights(&matrix, 1);
    backend_open(&first, cuda, 0, nvrtc);
    backend_open(&second, cuda, 0, nvrtc);
    share_a_context(&first, &matrix);
    share_a_device(&first, &second, &matrix);
    if (count > 1) {
        use_two_devices(cuda, nvrtc, &first, &matrix);
    } else {
        puts("skipped: two devices (there is one)");
    }
    backend_close(&second);
    backend_close(&first);
    free(matrix.values);
    return failures != 0;
}
