/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures NVIDIA's OpenCL with program binaries: how long it takes to make a program from source,
 * from the driver's binary (PTX) and, with --cubin, from the CUBIN that the driver makes from that
 * PTX, if the driver accepts one. Launches each program and checks its result. Prints a line of
 * JSON.
 *
 * usage: nvidia_binaries [--cubin]
 * Exits with 77 if there is no NVIDIA platform.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

enum { COUNT = 4096, ROUNDS = 200, INPUT_PTX = 1 };

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

static void require(long status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "nvidia_binaries: %s returned %ld\n", what, status);
        exit(1);
    }
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- OpenCL ---- */

static void open_device(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_int status = clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; status == CL_SUCCESS && i < count && i < 16 && !device; i++) {
        char name[256] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (strcmp(name, "NVIDIA CUDA") == 0) {
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL);
        }
    }
    if (!device) {
        puts("skipped: no NVIDIA platform");
        exit(77);
    }
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    require(status, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &status);
    require(status, "clCreateCommandQueue");
}

static cl_program build_source(void)
{
    char source[1024];
    snprintf(source, sizeof source,
             "__kernel void sum(__global uint *x)\n"
             "{\n"
             "    uint v = x[get_global_id(0)];\n"
             "    #pragma unroll\n"
             "    for (uint i = 0; i < %d; i++)\n"
             "        v = rotate(v * 1664525u + i, (i & 15u) + 1u) ^ (v >> 3);\n"
             "    x[get_global_id(0)] = v;\n"
             "}\n",
             ROUNDS);
    const char *text = source;
    cl_int status;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    require(status, "clCreateProgramWithSource");
    require(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    return program;
}

static unsigned char *binary_of(cl_program program, size_t *ret_size)
{
    require(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *ret_size, ret_size, NULL),
            "CL_PROGRAM_BINARY_SIZES");
    unsigned char *binary = calloc(1, *ret_size + 1);
    require(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL),
            "CL_PROGRAM_BINARIES");
    return binary;
}

/* Returns NULL, and a status, if the driver refused the binary. */
static cl_program build_binary(const unsigned char *binary, size_t size, cl_int *ret_status)
{
    cl_int of_binary = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithBinary(context, 1, &device, &size, &binary, &of_binary, ret_status);
    if (*ret_status == CL_SUCCESS) {
        *ret_status = clBuildProgram(program, 1, &device, "", NULL, NULL);
    }
    return *ret_status == CL_SUCCESS ? program : NULL;
}

static cl_uint expected(cl_uint v)
{
    for (cl_uint i = 0; i < ROUNDS; i++) {
        const cl_uint by = (i & 15u) + 1u, product = v * 1664525u + i;
        v = (product << by | product >> (32 - by)) ^ v >> 3;
    }
    return v;
}

static void launch(cl_program program)
{
    static cl_uint x[COUNT];
    const size_t count = COUNT;
    cl_int status;
    for (cl_uint i = 0; i < COUNT; i++) {
        x[i] = i;
    }
    cl_kernel kernel = clCreateKernel(program, "sum", &status);
    require(status, "clCreateKernel");
    cl_mem memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof x, x, &status);
    require(status, "clCreateBuffer");
    require(clSetKernelArg(kernel, 0, sizeof memory, &memory), "clSetKernelArg");
    require(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL),
            "clEnqueueNDRangeKernel");
    require(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL),
            "clEnqueueReadBuffer");
    for (cl_uint i = 0; i < COUNT; i++) {
        require(x[i] != expected(i), "a wrong result");
    }
    clReleaseMemObject(memory);
    clReleaseKernel(kernel);
}

/* ---- the driver's linker ---- */

static void *driver;

static void *find(const char *name)
{
    void *function = dlsym(driver, name);
    require(function == NULL, name);
    return function;
}

/* The caller frees the result. */
static unsigned char *cubin_of(unsigned char *ptx, size_t size, size_t *ret_size)
{
    void *cuda_context, *state, *cubin;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    require(driver == NULL, "libcuda.so.1");
    require(((int (*)(unsigned))find("cuInit"))(0), "cuInit");
    require(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&cuda_context, 0),
            "cuDevicePrimaryCtxRetain");
    require(((int (*)(void *))find("cuCtxPushCurrent_v2"))(cuda_context), "cuCtxPushCurrent");
    require(((int (*)(unsigned, int *, void **, void **))find("cuLinkCreate_v2"))(0, NULL, NULL,
                                                                                  &state),
            "cuLinkCreate");
    require(((int (*)(void *, int, void *, size_t, const char *, unsigned, int *, void **))find(
                "cuLinkAddData_v2"))(state, INPUT_PTX, ptx, size, "p", 0, NULL, NULL),
            "cuLinkAddData");
    require(((int (*)(void *, void **, size_t *))find("cuLinkComplete"))(state, &cubin, ret_size),
            "cuLinkComplete");
    unsigned char *copy = calloc(1, *ret_size);
    require(copy == NULL, "calloc");
    memcpy(copy, cubin, *ret_size);
    ((int (*)(void *))find("cuLinkDestroy"))(state);
    ((int (*)(void **))find("cuCtxPopCurrent_v2"))(&cuda_context);
    return copy;
}

/* ---- measurement ---- */

static void measure_binary(const char *name, const unsigned char *binary, size_t size)
{
    cl_int status = CL_SUCCESS;
    const double start = now_ms();
    cl_program program = build_binary(binary, size, &status);
    const double is_built = now_ms();
    printf(",\"%s_bytes\":%zu,\"%s_status\":%d", name, size, name, status);
    if (program) {
        launch(program);
        printf(",\"%s_build_ms\":%.3f,\"%s_launch_ms\":%.3f", name, is_built - start, name,
               now_ms() - is_built);
        clReleaseProgram(program);
    }
}

static void measure_cubin(unsigned char *ptx)
{
    size_t size;
    const double start = now_ms();
    unsigned char *cubin = cubin_of(ptx, strlen((const char *)ptx) + 1, &size);
    printf(",\"link_ms\":%.3f", now_ms() - start);
    measure_binary("cubin", cubin, size);
    free(cubin);
}

int main(int argc, char **argv)
{
    open_device();
    const double start = now_ms();
    cl_program program = build_source();
    const double is_built = now_ms();
    launch(program);
    printf("{\"source_build_ms\":%.3f,\"source_launch_ms\":%.3f", is_built - start,
           now_ms() - is_built);

    size_t ptx_size;
    unsigned char *ptx = binary_of(program, &ptx_size);
    printf(",\"binary_is_ptx\":%s", strstr((const char *)ptx, ".version") ? "true" : "false");
    measure_binary("ptx", ptx, ptx_size);
    if (argc == 2 && strcmp(argv[1], "--cubin") == 0) {
        measure_cubin(ptx);
    }
    printf("}\n");
    free(ptx);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
