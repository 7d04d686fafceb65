/* SPDX-License-Identifier: Apache-2.0
 *
 * NVRTC's device ops on a GPU: builds a program, captures it, loads the capture, and launches both.
 *
 * usage: ops LIBNVRTC [code]
 *   code  programs are code only: nothing is loaded or launched, and no GPU is needed
 *
 * Exits with 77 if there is no GPU, and with 3 if NVRTC cannot be watched, for example under
 * `kiln run`: then a program is built but not captured.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/nvrtc.h>

enum { COUNT = 1024 };

typedef unsigned long long device_pointer;

static void *driver;

/* Returns a function of the driver; the caller knows its type. */
static void *find(const char *name)
{
    void *function = dlsym(driver, name);
    if (!function) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return function;
}

static void check(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "%s returned %d\n", what, result);
        exit(1);
    }
}

static void *make_context(void)
{
    void *context = NULL;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || ((int (*)(unsigned))find("cuInit"))(0) != 0) {
        printf("skipped: no GPU\n");
        exit(77);
    }
    check(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, 0), "retain");
    check(((int (*)(void *))find("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    return context;
}

static void launch(void *kernel)
{
    static int x[COUNT];
    device_pointer memory = 0;
    void *arguments[] = {&memory};
    check(((int (*)(device_pointer *, size_t))find("cuMemAlloc_v2"))(&memory, sizeof x), "alloc");
    check(((int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    void *, void **, void **))find("cuLaunchKernel"))(
              kernel, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL),
          "cuLaunchKernel");
    check(((int (*)(void *, device_pointer, size_t))find("cuMemcpyDtoH_v2"))(x, memory, sizeof x),
          "copy");
    check(((int (*)(device_pointer))find("cuMemFree_v2"))(memory), "free");
    for (int i = 0; i < COUNT; i++) {
        if (x[i] != 3 * i) {
            fprintf(stderr, "x[%d] is %d\n", i, x[i]);
            exit(1);
        }
    }
}

static kiln_entry *make_entry(const kiln_capture *captured, const kiln_key *key)
{
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance},
        .answers = {captured->answers, captured->answers_size},
        .payload = {captured->payload, captured->payload_size},
    };
    kiln_entry *entry = NULL;
    check(kiln_entry_new(&params, &entry), "kiln_entry_new");
    return entry;
}

/* Prints which library defines a function of NVRTC. If a different library defines it, the device
 * ops cannot watch NVRTC. */
static void say_where(const char *nvrtc, const char *name)
{
    void *library = dlopen(nvrtc, RTLD_NOW | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;
    Dl_info place = {0};
    if (!function || !dladdr(function, &place)) {
        place.dli_fname = "an unknown object";
    }
    fprintf(stderr, "%s is in %s\n", name, place.dli_fname);
}

static void check_kiln(kiln_status status, const char *what, const kiln_error *error,
                       const char *nvrtc)
{
    if (status == KILN_OK) {
        return;
    }
    fprintf(stderr, "%s: %s: %s\n", what, kiln_status_name(status), error->text);
    say_where(nvrtc, "nvrtcVersion");
    say_where(nvrtc, "nvrtcCompileProgram");
    exit(1);
}

/* Returns NULL if NVRTC cannot be watched; @error then says so. */
static kiln_key *make_key(kiln_nvrtc_device *device, const kiln_program_source *source,
                          const char *nvrtc, kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    check(kiln_key_builder_new(&builder), "kiln_key_builder_new");
    check_kiln(kiln_nvrtc_ops()->identity(device, builder), "identity", error, nvrtc);
    const kiln_status status = kiln_nvrtc_ops()->describe(device, source, builder, error);
    if (status != KILN_E_UNSUPPORTED || !strstr(error->text, "watched")) {
        check_kiln(status, "describe", error, nvrtc);
        check(kiln_key_builder_finish(builder, &key), "kiln_key_builder_finish");
    }
    kiln_key_builder_free(&builder);
    return key;
}

/* If a result cannot be captured, a request for its revision reports the reason. */
static void check_captured(kiln_nvrtc_device *device, const kiln_program_source *source,
                           kiln_status status, kiln_status expected)
{
    if (status == expected) {
        return;
    }
    uint64_t revision = 0;
    kiln_error error = {.struct_size = sizeof error};
    kiln_nvrtc_ops()->revision(device, source, &revision, &error);
    fprintf(stderr, "capture: %s: %s\n", kiln_status_name(status), error.text);
    exit(1);
}

/* Launches the kernel of a loaded program, if there is a GPU. */
static void launch_if_loaded(kiln_nvrtc_device *device, void *program, int is_loaded)
{
    const kiln_device_ops *ops = kiln_nvrtc_ops();
    void *kernel = NULL;
    const kiln_status status = ops->kernel(device, program, "times<3>", &kernel);
    check(status != (is_loaded ? KILN_OK : KILN_E_UNSUPPORTED), "kernel");
    if (is_loaded) {
        launch(kernel);
        check(ops->kernel(device, program, "no_such_kernel", &kernel) != KILN_MISS, "no kernel");
    }
}

int main(int argc, char **argv)
{
    static const char text[] = "template <int N> __global__ void times(int *x)\n"
                               "{\n"
                               "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "    x[i] = N * i;\n"
                               "}\n";
    if (argc != 2 && (argc != 3 || strcmp(argv[2], "code") != 0)) {
        fprintf(stderr, "usage: ops LIBNVRTC [code]\n");
        return 2;
    }
    const int is_loaded = argc == 2;
    const kiln_nvrtc_device_params params = {.struct_size = sizeof params,
                                             .nvrtc = argv[1],
                                             .context = is_loaded ? make_context() : NULL};
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {text, strlen(text)},
                                        .options = "--kiln-name-expression=times<3>"};
    const kiln_device_ops *ops = kiln_nvrtc_ops();
    kiln_nvrtc_device *device = NULL;
    kiln_error error = {.struct_size = sizeof error};
    void *program = NULL;
    char *log = NULL;
    kiln_capture captured = {0};
    const kiln_status status = kiln_nvrtc_device_new(&params, &device, &error);
    if (status != KILN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    kiln_key *key = make_key(device, &source, argv[1], &error);
    check(ops->build(device, &source, &program, &log), "build");
    launch_if_loaded(device, program, is_loaded);
    check_captured(device, &source, ops->capture(device, program, &captured),
                   key ? KILN_OK : KILN_E_UNSUPPORTED);
    ops->release_program(device, program);
    if (!key) {
        printf("built, and not kept: %s\n", error.text);
        return 3;
    }

    kiln_entry *entry = make_entry(&captured, key);
    check(ops->load(device, &source, entry, &program), "load");
    launch_if_loaded(device, program, is_loaded);
    ops->release_program(device, program);
    kiln_entry_release(&entry);
    kiln_capture_done(&captured);
    kiln_key_release(&key);
    kiln_nvrtc_device_free(&device);
    free(log);
    puts(is_loaded ? "launched, as built and as found" : "built and found");
    return 0;
}
