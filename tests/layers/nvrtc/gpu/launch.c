/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that knows nothing about Kiln. It compiles a kernel with NVRTC, loads the CUBIN with
 * the CUDA driver, launches it and checks the results. Both libraries are opened at run time.
 * Prints the time of each step in milliseconds, and a digest of the results, on stderr.
 *
 * usage: launch LIBNVRTC KERNELS [save|load FOLDER]
 *   save  writes each CUBIN to an existing folder; load  reads them from there itself
 *
 * With WAIT_FOR_START it prints "ready" once it can compile, and continues at the end of its input.
 * Exits with 77 if there is no GPU.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "device/nvrtc/functions.h"

enum { COUNT = 1 << 16, BLOCK = 256, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

typedef struct context *context_handle;
typedef struct module *module_handle;
typedef struct function *function_handle;
typedef unsigned long long device_pointer;

static struct {
    int (*cuInit)(unsigned);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuDevicePrimaryCtxRetain)(context_handle *, int);
    int (*cuCtxSetCurrent)(context_handle);
    int (*cuModuleLoadData)(module_handle *, const void *);
    int (*cuModuleGetFunction)(function_handle *, module_handle, const char *);
    int (*cuMemAlloc_v2)(device_pointer *, size_t);
    int (*cuMemcpyHtoD_v2)(device_pointer, const void *, size_t);
    int (*cuMemcpyDtoH_v2)(void *, device_pointer, size_t);
    int (*cuMemFree_v2)(device_pointer);
    int (*cuLaunchKernel)(function_handle, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned, void *, void **, void **);
    int (*cuCtxSynchronize)(void);
    int (*cuModuleUnload)(module_handle);
} cuda;

static kilni_nvrtc_functions nvrtc;

static void check(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "%s returned %d\n", what, result);
        exit(1);
    }
}

#define CHECK(call) check(call, #call)

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(77);
}

static void open_cuda(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        skip("no CUDA driver");
    }
#define FIND(name)                                                                                 \
    *(void **)&cuda.name = dlsym(library, #name);                                                  \
    check(cuda.name ? 0 : 1, #name)
    FIND(cuInit);
    FIND(cuDeviceGet);
    FIND(cuDeviceGetAttribute);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuModuleLoadData);
    FIND(cuModuleGetFunction);
    FIND(cuMemAlloc_v2);
    FIND(cuMemcpyHtoD_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(cuMemFree_v2);
    FIND(cuLaunchKernel);
    FIND(cuCtxSynchronize);
    FIND(cuModuleUnload);
#undef FIND
    if (cuda.cuInit(0) != 0) {
        skip("no GPU");
    }
}

static void open_nvrtc(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        skip(dlerror());
    }
#define FIND(member, type, exported) *(void **)&nvrtc.member = dlsym(library, exported);
    KILNI_NVRTC_FUNCTIONS(FIND)
#undef FIND
}

/* Each kernel has a different source. */
static char *write_source(int number)
{
    char *source = NULL;
    check(asprintf(&source,
                   "template <typename T> __global__ void scale(T *x, T factor)\n"
                   "{\n"
                   "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                   "    T sum = x[i];\n"
                   "#pragma unroll\n"
                   "    for (int n = 0; n < %d; n++) {\n"
                   "        sum += factor * T(n);\n"
                   "    }\n"
                   "    x[i] = sum;\n"
                   "}\n",
                   number + 1) < 0,
          "asprintf");
    return source;
}

typedef struct compiled {
    char *code;
    size_t size;
    char *name;
} compiled;

static compiled compile(int number, const char *architecture)
{
    static const char expression[] = "scale<float>";
    char *source = write_source(number);
    const char *lowered = NULL;
    kilni_nvrtc_program program;
    compiled made;
    CHECK(nvrtc.create(&program, source, "scale.cu", 0, NULL, NULL));
    CHECK(nvrtc.add_name(program, expression));
    CHECK(nvrtc.compile(program, 1, &architecture));
    CHECK(nvrtc.size[KILNI_NVRTC_CUBIN](program, &made.size));
    made.code = malloc(made.size);
    CHECK(nvrtc.get[KILNI_NVRTC_CUBIN](program, made.code));
    CHECK(nvrtc.lowered_name(program, expression, &lowered));
    made.name = strdup(lowered);
    CHECK(nvrtc.destroy(&program));
    free(source);
    return made;
}

/* ---- CUBINs without a cache ---- */

static FILE *open_kept(const char *folder, int number, const char *what, const char *mode)
{
    char *path = NULL;
    check(asprintf(&path, "%s/%d.%s", folder, number, what) < 0, "asprintf");
    FILE *file = fopen(path, mode);
    if (!file) {
        perror(path);
        exit(1);
    }
    free(path);
    return file;
}

static void save_bytes(const char *folder, int number, const char *what, const char *bytes,
                       size_t size)
{
    FILE *file = open_kept(folder, number, what, "w");
    check(fwrite(bytes, 1, size, file) != size || fclose(file) != 0, "fwrite");
}

static void save(const compiled *made, int number, const char *folder)
{
    save_bytes(folder, number, "cubin", made->code, made->size);
    save_bytes(folder, number, "name", made->name, strlen(made->name));
}

static char *load_bytes(const char *folder, int number, const char *what, size_t *ret_size)
{
    FILE *file = open_kept(folder, number, what, "r");
    struct stat status;
    check(fstat(fileno(file), &status), "fstat");
    const size_t size = (size_t)status.st_size;
    char *bytes = calloc(1, size + 1);
    check(!bytes || fread(bytes, 1, size, file) != size, "fread");
    fclose(file);
    *ret_size = size;
    return bytes;
}

static compiled load(int number, const char *folder)
{
    size_t length;
    compiled made;
    made.code = load_bytes(folder, number, "cubin", &made.size);
    made.name = load_bytes(folder, number, "name", &length);
    return made;
}

/* ---- launching ---- */

/* x[i] + factor * (0 + 1 + ... + number), which single precision holds exactly. */
static void launch(int number, function_handle function, device_pointer memory, float *x)
{
    float factor = 2.0f;
    void *arguments[] = {&memory, &factor};
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 1000);
    }
    CHECK(cuda.cuMemcpyHtoD_v2(memory, x, COUNT * sizeof *x));
    CHECK(
        cuda.cuLaunchKernel(function, COUNT / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuda.cuCtxSynchronize());
    CHECK(cuda.cuMemcpyDtoH_v2(x, memory, COUNT * sizeof *x));
    const float added = factor * (float)(number * (number + 1) / 2);
    for (int i = 0; i < COUNT; i++) {
        if (x[i] != (float)(i % 1000) + added) {
            fprintf(stderr, "kernel %d: x[%d] is %g\n", number, i, (double)x[i]);
            exit(1);
        }
    }
}

static uint64_t digest(uint64_t value, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        value = (value ^ at[i]) * UINT64_C(1099511628211);
    }
    return value;
}

static void wait_for_start(void)
{
    if (getenv("WAIT_FOR_START")) {
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF) {
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: launch LIBNVRTC KERNELS [save|load FOLDER]\n");
        return 2;
    }
    const char *const saved_to = argc == 5 && strcmp(argv[3], "save") == 0 ? argv[4] : NULL;
    const char *const loaded_from = argc == 5 && strcmp(argv[3], "load") == 0 ? argv[4] : NULL;
    int device = 0, major = 0, minor = 0;
    context_handle context;
    device_pointer memory;
    char architecture[32];
    static float x[COUNT];
    open_cuda();
    open_nvrtc(argv[1]);
    CHECK(cuda.cuDeviceGet(&device, 0));
    CHECK(cuda.cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuda.cuCtxSetCurrent(context));
    CHECK(cuda.cuDeviceGetAttribute(&major, CAPABILITY_MAJOR, device));
    CHECK(cuda.cuDeviceGetAttribute(&minor, CAPABILITY_MINOR, device));
    CHECK(cuda.cuMemAlloc_v2(&memory, sizeof x));
    snprintf(architecture, sizeof architecture, "-arch=sm_%d%d", major, minor);

    wait_for_start();
    uint64_t results = UINT64_C(14695981039346656037);
    double compiling = 0, loading = 0, launching = 0;
    for (int i = 0; i < atoi(argv[2]); i++) {
        module_handle module;
        function_handle function;
        const double start = now_ms();
        compiled made = loaded_from ? load(i, loaded_from) : compile(i, architecture);
        const double is_compiled = now_ms();
        CHECK(cuda.cuModuleLoadData(&module, made.code));
        CHECK(cuda.cuModuleGetFunction(&function, module, made.name));
        const double is_loaded = now_ms();
        launch(i, function, memory, x);
        launching += now_ms() - is_loaded;
        loading += is_loaded - is_compiled;
        compiling += is_compiled - start;
        results = digest(results, x, sizeof x);
        CHECK(cuda.cuModuleUnload(module));
        if (saved_to) {
            save(&made, i, saved_to);
        }
        free(made.code);
        free(made.name);
    }
    CHECK(cuda.cuMemFree_v2(memory));
    printf("results %016llx\n", (unsigned long long)results);
    fflush(stdout);
    fprintf(stderr, "compile %.2f ms, load %.2f ms, launch %.2f ms\n", compiling, loading,
            launching);
    return 0;
}
