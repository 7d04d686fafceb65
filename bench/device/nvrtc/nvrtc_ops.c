/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles one program to CUBIN, with NVRTC's own calls or with Kiln's device ops. Prints the
 * milliseconds from the call until the code was available.
 *
 * usage: nvrtc_ops LIBNVRTC SOURCE OPTIONS      with NVRTC
 *        nvrtc_ops LIBNVRTC SOURCE OPTIONS DIR  with Kiln and a store in DIR; also prints
 *                                               how long a second description and program take
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/nvrtc.h>
#include <kiln/program.h>
#include <kiln/store.h>

enum { OPTIONS_MAX = 16 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void check(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "%s returned %d\n", what, result);
        exit(1);
    }
}

/* ---- with NVRTC ---- */

static void *library;

/* One of NVRTC's functions; the caller must know its type. */
static void *find(const char *name)
{
    void *function = dlsym(library, name);
    check(function ? 0 : 1, name);
    return function;
}

typedef int create_fn(void **, const char *, const char *, int, const char *const *,
                      const char *const *);
typedef int compile_fn(void *, int, const char *const *);
typedef int size_fn(void *, size_t *);
typedef int get_fn(void *, char *);

static void compile_by_nvrtc(const char *nvrtc, const char *source, char *options)
{
    const char *items[OPTIONS_MAX] = {"-arch=sm_90"};
    int count = 1;
    for (char *at = strtok(options, " "); at && count < OPTIONS_MAX; at = strtok(NULL, " ")) {
        items[count++] = at;
    }
    library = dlopen(nvrtc, RTLD_NOW);
    check(library ? 0 : 1, nvrtc);
    create_fn *create = (create_fn *)find("nvrtcCreateProgram");
    compile_fn *compile = (compile_fn *)find("nvrtcCompileProgram");
    size_fn *get_size = (size_fn *)find("nvrtcGetCUBINSize");
    get_fn *get = (get_fn *)find("nvrtcGetCUBIN");
    void *program = NULL;
    size_t size = 0;
    const double start_ms = now_ms();
    check(create(&program, source, "program.cu", 0, NULL, NULL), "nvrtcCreateProgram");
    check(compile(program, count, items), "nvrtcCompileProgram");
    check(get_size(program, &size), "nvrtcGetCUBINSize");
    char *code = malloc(size);
    check(code ? get(program, code) : 1, "nvrtcGetCUBIN");
    printf("{\"code\": %f}\n", now_ms() - start_ms);
    free(code);
}

/* ---- with Kiln ---- */

static kiln_error failure = {.struct_size = sizeof failure};

static void check_kiln(kiln_status status)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s\n", kiln_status_text(status), failure.text);
        exit(1);
    }
}

static kiln_program_context *open_context(const char *nvrtc, const char *directory)
{
    const kiln_nvrtc_device_params compiler = {
        .struct_size = sizeof compiler, .nvrtc = nvrtc, .architecture = "sm_90"};
    const kiln_store_params as_usual = {.struct_size = sizeof as_usual};
    kiln_nvrtc_device *device = NULL;
    kiln_store *store = NULL;
    kiln_program_context *context = NULL;
    check_kiln(kiln_nvrtc_device_new(&compiler, &device, &failure));
    check_kiln(kiln_store_open(directory, &as_usual, &store, &failure));
    void *devices[] = {device};
    const kiln_program_context_params in = {.struct_size = sizeof in,
                                            .ops = kiln_nvrtc_ops(),
                                            .devices = devices,
                                            .device_count = 1,
                                            .store = store};
    check_kiln(kiln_program_context_new(&in, &context));
    return context;
}

static double get_code(kiln_program_context *context, const char *source, const char *options,
                       kiln_program **ret_program)
{
    const kiln_program_desc_params params = {.struct_size = sizeof params,
                                             .form = KILN_SOURCE_TEXT,
                                             .code = {source, strlen(source)},
                                             .options = {.compile = options}};
    kiln_program_desc *desc = NULL;
    kiln_bytes code;
    const double start_ms = now_ms();
    check_kiln(kiln_program_desc_new(context, &params, &desc, &failure));
    check_kiln(kiln_program_get(desc, ret_program, NULL, &failure));
    check_kiln(kiln_nvrtc_get_output(kiln_program_handle(*ret_program), KILN_NVRTC_CUBIN, &code));
    const double took_ms = now_ms() - start_ms;
    kiln_program_desc_release(&desc);
    return took_ms;
}

static void get_by_kiln(const char *nvrtc, const char *source, const char *options,
                        const char *directory)
{
    kiln_program_context *context = open_context(nvrtc, directory);
    kiln_program *first = NULL, *again = NULL;
    const double first_ms = get_code(context, source, options, &first);
    const double again_ms = get_code(context, source, options, &again);
    printf("{\"code\": %f, \"again\": %f}\n", first_ms, again_ms);
    kiln_program_release(&first);
    kiln_program_release(&again);
    kiln_program_context_free(&context); /* by then, the program is stored */
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        compile_by_nvrtc(argv[1], argv[2], argv[3]);
    } else if (argc == 5) {
        get_by_kiln(argv[1], argv[2], argv[3], argv[4]);
    } else {
        fprintf(stderr, "usage: nvrtc_ops LIBNVRTC SOURCE OPTIONS [DIR]\n");
        return 2;
    }
    return 0;
}
