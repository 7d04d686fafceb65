/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <unistd.h>

/* The kernel has one thread, whose reads bypass its caches. The kernel waits for a few seconds at
 * most. If the host waited for the kernel instead of telling it to continue, the kernel would still
 * end, and the test would fail. */
static const char source[] =
    "extern \"C\" __global__ void read_twice(const volatile float *values, unsigned count,\n"
    "                                       volatile int *flags, volatile double *sums)\n"
    "{\n"
    "    for (int pass = 0; pass < 2; pass++) {\n"
    "        double sum = 0;\n"
    "        for (unsigned i = 0; i < count; i++) {\n"
    "            sum += values[i];\n"
    "        }\n"
    "        sums[pass] = sum;\n"
    "        __threadfence_system();\n"
    "        flags[0] = 1;\n"
    "        const long long begin = clock64();\n"
    "        while (pass == 0 && !flags[1] && clock64() - begin < 10000000000ll) {\n"
    "        }\n"
    "    }\n"
    "}\n";

void reader_open(reader *self, backend *owner)
{
    void *memory;
    *self = (reader){.owner = owner};
    backend_hold_kernel(owner, source, "read_twice", &self->kernel);
    context_enter(owner->context);
    REQUIRE_CUDA(owner->cuda->cuMemHostAlloc(&memory, sizeof *self->board,
                                             CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
    context_leave(owner->context);
    self->board = memory;
}

void reader_close(reader *self)
{
    held_kernel_release(&self->kernel);
    context_enter(self->owner->context);
    REQUIRE_CUDA(self->owner->cuda->cuMemFreeHost(self->board));
    context_leave(self->owner->context);
}

void reader_launch(reader *self, cuda_address values, size_t count, cuda_stream stream,
                   int is_to_pause)
{
    const cuda_driver *cuda = self->owner->cuda;
    cuda_address board;
    self->board->flags[0] = 0;
    self->board->flags[1] = !is_to_pause;
    self->board->sums[0] = self->board->sums[1] = -1;
    context_enter(self->owner->context);
    REQUIRE_CUDA(cuda->cuMemHostGetDevicePointer_v2(&board, self->board, 0));
    cuda_address flags = board + offsetof(reader_board, flags);
    cuda_address sums = board + offsetof(reader_board, sums);
    unsigned number = (unsigned)count;
    void *arguments[] = {&values, &number, &flags, &sums};
    REQUIRE_CUDA(cuda->cuLaunchKernel(kiln_kernel_handle(self->kernel.kernel), 1, 1, 1, 1, 1, 1, 0,
                                      stream, arguments, NULL));
    context_leave(self->owner->context);
}

void reader_await_start(reader *self, cuda_stream stream)
{
    context_enter(self->owner->context);
    while (!self->board->flags[0]) {
        const int result = self->owner->cuda->cuStreamQuery(stream);
        require(result == CUDA_SUCCESS || result == CUDA_NOT_READY, "cuStreamQuery", result);
        usleep(100);
    }
    context_leave(self->owner->context);
}

void reader_go_on(reader *self)
{
    self->board->flags[1] = 1;
}
