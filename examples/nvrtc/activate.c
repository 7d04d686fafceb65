/* SPDX-License-Identifier: Apache-2.0
 *
 * A program in CUDA C++ that NVRTC compiles once. The second request finds it in memory. The next
 * process finds it on disk, unless a file that the program includes has changed.
 *
 *     activate LIBNVRTC CUDA_INCLUDE OWN_INCLUDE STORE
 *
 * CUDA_INCLUDE has cuda_fp16.h, OWN_INCLUDE has leaky.cuh, and STORE is the cache's directory. With
 * a GPU the kernel is launched; without one only the code is made. Exits with 77 if there is no
 * NVRTC.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/nvrtc.h>
#include <kiln/program.h>
#include <kiln/store.h>

#include "gpu.h"

enum { SKIPPED = 77 };

#define EXPRESSION "activate<__half>"

static const char source[] =
    "#include <cuda_fp16.h>\n"
    "#include \"leaky.cuh\"\n"
    "template <typename T> __global__ void activate(T *values, unsigned count)\n"
    "{\n"
    "    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < count) {\n"
    "        values[i] = leaky(values[i]);\n"
    "    }\n"
    "}\n";

/* Ends the program with a message if something failed. */
static void require(kiln_status status, const kiln_error *error, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s\n", what, error ? error->text : kiln_status_text(status));
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* With a CUDA context, its device decides the architecture, and NVRTC makes a CUBIN. Without one,
 * NVRTC decides and makes PTX. */
static kiln_nvrtc_device *open_nvrtc(const char *path, void *context)
{
    const kiln_nvrtc_device_params params = {
        .struct_size = sizeof params, .nvrtc = path, .context = context};
    kiln_nvrtc_device *device = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_nvrtc_device_new(&params, &device, &error);
    if (status == KILN_E_UNSUPPORTED) {
        printf("skipped: %s\n", error.text);
        exit(SKIPPED);
    }
    require(status, &error, "device");
    return device;
}

static kiln_program_context *make_context(kiln_nvrtc_device *device, kiln_store *store)
{
    void *devices[] = {device};
    const kiln_program_context_params params = {
        .struct_size = sizeof params,
        .ops = kiln_nvrtc_ops(),
        .devices = devices,
        .device_count = 1,
        .store = store,
    };
    kiln_program_context *programs = NULL;
    require(kiln_program_context_new(&params, &programs), NULL, "programs");
    return programs;
}

/* The description applies to the files as they are now. A runtime that must notice changes makes a
 * new description. If Kiln cannot determine which files a program reads, only
 * kiln_program_desc_get_caching reports that. */
static kiln_program_desc *describe(kiln_program_context *programs, const char *cuda_include,
                                   const char *own_include)
{
    char options[8192]; /* quoted, because paths may contain blanks */
    const int length =
        snprintf(options, sizeof options, "\"-I%s\" \"-I%s\" --kiln-name-expression=%s",
                 cuda_include, own_include, EXPRESSION);
    require(length < (int)sizeof options ? KILN_OK : KILN_E_TOO_LARGE, NULL, "options");
    const kiln_program_desc_params params = {
        .struct_size = sizeof params,
        .form = KILN_SOURCE_TEXT,
        .code = {source, strlen(source)},
        .options.compile = options,
        .name = "activate",
    };
    kiln_program_desc *desc = NULL;
    kiln_error error = {.struct_size = sizeof error};
    kiln_program_caching caching = {.struct_size = sizeof caching};
    require(kiln_program_desc_new(programs, &params, &desc, &error), &error, "description");
    require(kiln_program_desc_get_caching(desc, &caching), NULL, "caching");
    if (*caching.text) {
        printf("not kept: %s\n", caching.text);
    }
    return desc;
}

static kiln_program *get(const kiln_program_desc *desc)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    kiln_error error = {.struct_size = sizeof error};
    const double start = now_us();
    require(kiln_program_get(desc, &program, &result, &error), &error, "program");
    const double took = now_us() - start;
    const char *how = result.from == KILN_PROGRAM_FROM_MEMORY  ? "found in memory"
                      : result.from == KILN_PROGRAM_FROM_STORE ? "found on disk"
                                                               : "built";
    printf("%s in %.1f us\n", how, took);
    return program;
}

static void show_code(const kiln_program *program)
{
    const void *built = kiln_program_handle(program);
    const char *kind = "CUBIN", *lowered = NULL;
    kiln_bytes code = {0};
    if (kiln_nvrtc_get_output(built, KILN_NVRTC_CUBIN, &code) != KILN_OK || code.size == 0) {
        kind = "PTX";
        require(kiln_nvrtc_get_output(built, KILN_NVRTC_PTX, &code), NULL, "PTX");
    }
    require(kiln_nvrtc_get_lowered_name(built, EXPRESSION, &lowered), NULL, "lowered name");
    printf("%s of %zu bytes, where %s is %s\n", kind, code.size, EXPRESSION, lowered);
}

static int computes(kiln_program *program)
{
    enum { TWO = 0x4000, MINUS_TWO = 0xC000, MINUS_HALF = 0xB800 }; /* as bits of a __half */
    uint16_t values[] = {TWO, MINUS_TWO};
    kiln_kernel *kernel = NULL;
    kiln_error error = {.struct_size = sizeof error};
    require(kiln_program_get_kernel(program, EXPRESSION, 0, &kernel, &error), &error, "kernel");
    gpu_run(kiln_kernel_handle(kernel), values, 2);
    kiln_kernel_release(&kernel);
    return values[0] == TWO && values[1] == MINUS_HALF;
}

int main(int count, char **arguments)
{
    if (count != 5) {
        fprintf(stderr, "activate LIBNVRTC CUDA_INCLUDE OWN_INCLUDE STORE\n");
        return 2;
    }
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    void *gpu = gpu_open();
    kiln_nvrtc_device *device = open_nvrtc(arguments[1], gpu);
    require(kiln_store_open(arguments[4], NULL, &store, &error), &error, "store");
    kiln_program_context *programs = make_context(device, store);
    kiln_program_desc *desc = describe(programs, arguments[2], arguments[3]);

    kiln_program *program = get(desc), *again = get(desc);
    show_code(program);
    int is_right = 1;
    if (gpu) {
        is_right = computes(program);
        printf("launched, computes %s\n", is_right ? "right" : "WRONG");
    } else {
        printf("not launched: no GPU\n");
    }

    kiln_program_release(&again);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&programs);
    kiln_nvrtc_device_free(&device);
    kiln_store_close(&store);
    gpu_close(gpu);
    return is_right ? 0 : 1;
}
