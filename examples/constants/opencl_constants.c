/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants in OpenCL buffers. Threads and partitions share them, contexts do not. The program
 * changes the cache's capacity and policy, and checks each result on the host.
 */
#include "backend.h"

#include "checked_runs.h"

static cl_device_id first_device(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_device_id device = NULL;
    cl_int status = clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; !device && status == CL_SUCCESS && i < count && i < 16; i++) {
        clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    }
    require(device != NULL, "clGetDeviceIDs", status);
    return device;
}

int main(void)
{
    cl_device_id device = first_device();
    weights matrices[2];
    backend first, second;
    partition a, same, b, elsewhere;
    make(&matrices[0], 1);
    make(&matrices[1], 2);
    backend_open(&first, device);
    backend_open(&second, device);

    partition_compile(&a, &first, &matrices[0]);
    run("a partition", &a, 1);
    partition_compile(&same, &first, &matrices[0]);
    run("another with the same weights", &same, 0);
    partition_compile(&b, &first, &matrices[1]);
    run("one with other weights", &b, 1);
    partition_compile(&elsewhere, &second, &matrices[1]);
    run("the same in another context", &elsewhere, 1);
    partition_release(&same);
    partition_release(&elsewhere);
    backend_close(&second);

    partition_release(&b);
    fill(&matrices[1], 3);
    partition_compile(&b, &first, &matrices[1]);
    run("new weights at the same address", &b, 1);

    kiln_constant_budget budget = {.struct_size = sizeof budget,
                                   .scope = KILN_CONSTANT_DEVICE,
                                   .device = device,
                                   .capacity_mib = 1,
                                   .policy = KILN_POLICY_UNCHANGED};
    kiln_constant_set_budget(&budget);
    run("the first, with a capacity of 1 MiB", &a, 1);
    run("what does not fit beside it", &b, THREADS * RUNS);
    budget.policy = KILN_POLICY_LRU;
    kiln_constant_set_budget(&budget);
    run("the first, with policy lru", &a, 1);
    run("what takes its place", &b, 1);
    kiln_constant_set_enabled(0);
    run("disabled", &b, THREADS * RUNS);

    partition_release(&a);
    partition_release(&b);
    backend_close(&first);
    free(matrices[0].values);
    free(matrices[1].values);
    printf("%s\n", atomic_load(&wrong) == 0 ? "all is right" : "something is WRONG");
    return atomic_load(&wrong) == 0 ? 0 : 1;
}
