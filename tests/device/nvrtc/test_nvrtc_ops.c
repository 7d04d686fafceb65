/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests NVRTC's device ops, without a GPU, with the libnvrtc in the arguments, which is a stand-in
 * or the real one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/nvrtc.h>
#include <kiln/program.h>
#include <kiln/store.h>

#include "device/nvrtc/compiled_program.h"
#include "device/watch/compilation.h"
#include "support/failing_malloc.h"
#include "support/nvrtc_scene.h"

static const char *library;
static const char *unwatched_library; /* NULL: none */

static const char source_text[] = "template <typename T> __global__ void f(T *x) { *x = VALUE; }\n";

static kiln_program_source source_of(const char *text, const char *options)
{
    return (kiln_program_source){.struct_size = sizeof(kiln_program_source),
                                 .form = KILN_SOURCE_TEXT,
                                 .code = {text, strlen(text)},
                                 .options = options};
}

static kiln_nvrtc_device *new_device_of(const char *path)
{
    static const char *const names[] = {"given.h"}, *const headers[] = {"#define GIVEN 1\n"};
    const kiln_nvrtc_device_params params = {.struct_size = sizeof params,
                                             .nvrtc = path,
                                             .header_count = 1,
                                             .header_names = names,
                                             .headers = headers};
    kiln_nvrtc_device *device = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_nvrtc_device_new(&params, &device, &error) != KILN_OK) {
        fail_msg("%s", error.text);
    }
    return device;
}

/* ---- building, capturing and loading ---- */

static kiln_nvrtc_device *new_device(void)
{
    return new_device_of(library);
}

static void assert_program(void *program)
{
    kiln_bytes ptx = {0};
    const char *name = NULL;
    assert_int_equal(kiln_nvrtc_get_output(program, KILN_NVRTC_PTX, &ptx), KILN_OK);
    assert_true(ptx.size > 1 && ((const char *)ptx.data)[ptx.size - 1] == '\0');
    assert_int_equal(kiln_nvrtc_get_lowered_name(program, "f<int>", &name), KILN_OK);
    assert_int_equal(strncmp(name, "_Z", 2), 0);
    assert_int_equal(kiln_nvrtc_get_lowered_name(program, "g<int>", &name), KILN_MISS);
    assert_int_equal(kiln_nvrtc_get_output(program, 99, &ptx), KILN_E_INVALID);
    assert_int_equal(kiln_nvrtc_get_output(NULL, 0, &ptx), KILN_E_INVALID);
}

static void assert_compiled_for(const kiln_capture *captured, const char *architecture)
{
    int major, minor, length = 0;
    assert_int_equal(sscanf(captured->device, "NVRTC %d.%d%n", &major, &minor, &length), 2);
    assert_string_equal(captured->device + length, architecture);
}

/* Builds and captures a program, loads what was captured, and captures that. */
static kiln_status round_trip(kiln_nvrtc_device *device, const char *options,
                              const char *architecture)
{
    const kiln_device_ops *ops = kiln_nvrtc_ops();
    const kiln_program_source source = source_of(source_text, options);
    kiln_capture captured = {0};
    void *program = NULL, *found = NULL;
    char *log = NULL;
    kiln_entry *entry = NULL;
    kiln_status status = ops->build(device, &source, &program, &log);
    if (status == KILN_OK) {
        assert_program(program);
        status = ops->capture(device, program, &captured);
    }
    if (status == KILN_OK) {
        assert_compiled_for(&captured, architecture);
        entry = new_entry_of(captured.device, (kiln_bytes){captured.answers, captured.answers_size},
                             (kiln_bytes){captured.payload, captured.payload_size});
        status = ops->load(device, &source, entry, &found);
    }
    if (status == KILN_OK) {
        kiln_capture_done(&captured);
        status = ops->capture(device, found, &captured);
    }
    if (status == KILN_OK) {
        assert_compiled_for(&captured, architecture);
    }
    if (status == KILN_OK) {
        kiln_bytes a = {0}, b = {0};
        void *kernel = NULL;
        assert_program(found);
        assert_int_equal(kiln_nvrtc_get_output(program, KILN_NVRTC_PTX, &a), KILN_OK);
        assert_int_equal(kiln_nvrtc_get_output(found, KILN_NVRTC_PTX, &b), KILN_OK);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, b.size);
        assert_int_equal(ops->kernel(device, found, "f<int>", &kernel), KILN_E_UNSUPPORTED);
    }
    kiln_capture_done(&captured);
    kiln_entry_release(&entry);
    free(log);
    if (program) {
        ops->release_program(device, program);
    }
    if (found) {
        ops->release_program(device, found);
    }
    return status;
}

#define OPTIONS "-DVALUE=3 --kiln-name-expression=f<int>"

/* ---- keys ---- */

static kiln_status describe(kiln_nvrtc_device *device, const char *text, const char *options,
                            kiln_key **ret_key)
{
    const kiln_program_source source = source_of(text, options);
    kiln_error error = {.struct_size = sizeof error};
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kiln_nvrtc_ops()->identity(device, builder);
    }
    if (status == KILN_OK) {
        status = kiln_nvrtc_ops()->describe(device, &source, builder, &error);
        assert_true(status != KILN_E_UNSUPPORTED || error.text[0] != '\0');
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_digest digest_of(kiln_nvrtc_device *device, const char *text, const char *options)
{
    kiln_key *key = NULL;
    assert_int_equal(describe(device, text, options, &key), KILN_OK);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_key_release(&key);
    return digest;
}

static void test_keys(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    const char *text = "#include \"a.h\"\n#include \"given.h\"\n";
    const kiln_digest first = digest_of(device, text, "-I.");
    kiln_digest other = digest_of(device, text, "-I.");
    assert_memory_equal(&first, &other, sizeof first);
    other = digest_of(device, text, "-I. -DA");
    assert_memory_not_equal(&first, &other, sizeof first);
    other = digest_of(device, text, "-I. --kiln-name-expression=f<int>");
    assert_memory_not_equal(&first, &other, sizeof first);
    write_file("a.h", "#define VALUE 1\n");
    other = digest_of(device, text, "-I.");
    assert_memory_equal(&first, &other, sizeof first);
    assert_int_equal(fesetround(FE_TOWARDZERO), 0);
    other = digest_of(device, text, "-I.");
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_memory_not_equal(&first, &other, sizeof first);

    kiln_key *key = NULL;
    assert_int_equal(describe(device, "__TIME__", NULL, &key), KILN_E_UNSUPPORTED);
    assert_int_equal(describe(device, "x", "--time=-", &key), KILN_E_UNSUPPORTED);
    assert_int_equal(describe(device, "x", "-D\"", &key), KILN_E_UNSUPPORTED);
    kiln_nvrtc_device_free(&device);
    assert_null(device);
}

/* If NVRTC is not watched, the files that programs include are unknown: each request builds its
 * program, and nothing is kept. */
static void test_unwatched_nvrtc(void **state)
{
    (void)state;
    if (!unwatched_library) {
        skip();
    }
    kiln_nvrtc_device *device = new_device_of(unwatched_library);
    const kiln_program_source source = source_of(source_text, OPTIONS);
    kiln_error error = {.struct_size = sizeof error};
    uint64_t revision = 0;
    kiln_key *key = NULL;
    assert_int_equal(describe(device, source_text, OPTIONS, &key), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_nvrtc_ops()->revision(device, &source, &revision, &error),
                     KILN_E_UNSUPPORTED);
    assert_string_equal(error.text, "this NVRTC can't be watched");
    /* The program is built, but the result is not captured. */
    assert_int_equal(round_trip(device, OPTIONS, ""), KILN_E_UNSUPPORTED);
    kiln_nvrtc_device_free(&device);
}

/* ---- what programs include ---- */

#define INCLUDING "#include \"a.h\"\n__constant__ int value = VALUE;\n"

static kiln_status ask_revision(kiln_nvrtc_device *device, uint64_t *ret_revision)
{
    const kiln_program_source source = source_of(INCLUDING, "-I.");
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_nvrtc_ops()->revision(device, &source, ret_revision, &error);
    assert_true(status != KILN_E_UNSUPPORTED || error.text[0] != '\0');
    return status;
}

static uint64_t revision_of(kiln_nvrtc_device *device)
{
    uint64_t revision = 0;
    assert_int_equal(ask_revision(device, &revision), KILN_OK);
    assert_true(revision > 0);
    return revision;
}

/* Returns NULL if the build fails. */
static void *build_including(kiln_nvrtc_device *device, kiln_status expected)
{
    const kiln_program_source source = source_of(INCLUDING, "-I.");
    void *program = NULL;
    char *log = NULL;
    assert_int_equal(kiln_nvrtc_ops()->build(device, &source, &program, &log), expected);
    free(log);
    return program;
}

static void build_once(kiln_nvrtc_device *device)
{
    kiln_nvrtc_ops()->release_program(device, build_including(device, KILN_OK));
}

/* A revision belongs to one state of the files, and is never used again once they have changed. */
static void test_revisions(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    write_file("a.h", "#define VALUE 1\n");
    const uint64_t first = revision_of(device);
    build_once(device);
    assert_int_equal(revision_of(device), first);
    write_file("a.h", "#define VALUE 2\n");
    const uint64_t second = revision_of(device);
    assert_int_not_equal(first, second);
    assert_int_equal(revision_of(device), second);
    build_once(device);
    assert_int_equal(revision_of(device), second);
    write_file("a.h", "#define VALUE 1\n");
    const uint64_t third = revision_of(device);
    assert_int_not_equal(third, first);
    assert_int_not_equal(third, second);
    kiln_nvrtc_device_free(&device);
}

/* A build that was requested for an earlier revision uses the present files, so the next revision
 * is a new one. */
static void test_build_for_an_earlier_revision(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    write_file("a.h", "#define VALUE 1\n");
    build_once(device);
    const uint64_t first = revision_of(device);
    write_file("a.h", "#define VALUE 2\n");
    build_once(device);
    assert_int_not_equal(revision_of(device), first);
    kiln_nvrtc_device_free(&device);
}

/* A failure to build holds only for these files. */
static void test_failure_holds_for_its_files(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    const uint64_t first = revision_of(device);
    assert_null(build_including(device, KILN_E_BUILD));
    assert_int_equal(revision_of(device), first);
    write_file("a.h", "#define VALUE 1\n");
    assert_int_not_equal(revision_of(device), first);
    kiln_nvrtc_device_free(&device);
}

/* __TIME__ in a header prevents caching until it is removed. */
static void test_clock_words_in_files(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    kiln_capture captured = {0};
    uint64_t revision = 0;
    write_file("a.h", "#define VALUE sizeof __TIME__\n");
    void *program = build_including(device, KILN_OK);
    assert_int_equal(kiln_nvrtc_ops()->capture(device, program, &captured), KILN_E_UNSUPPORTED);
    kiln_nvrtc_ops()->release_program(device, program);
    assert_int_equal(ask_revision(device, &revision), KILN_E_UNSUPPORTED);
    write_file("a.h", "#define VALUE 1\n");
    revision_of(device);
    build_once(device);
    revision_of(device);
    kiln_nvrtc_device_free(&device);
}

/* Folds exp(0.7), in the stand-in's syntax and in CUDA's. */
#define FOLDING                                                                                    \
    "#if 0\nFOLD exp 0.7\n#endif\n"                                                                \
    "extern \"C\" __global__ void k(double *x) { *x = exp(0.7); }\n"

/* A result is not loaded if this process would fold its constants differently. */
static void test_entry_of_different_functions(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    const kiln_device_ops *ops = kiln_nvrtc_ops();
    const kiln_program_source source = source_of(FOLDING, NULL);
    const double argument = 0.7;
    kiln_capture captured = {0};
    void *program = NULL, *found = NULL;
    char *log = NULL;
    assert_int_equal(ops->build(device, &source, &program, &log), KILN_OK);
    assert_int_equal(ops->capture(device, program, &captured), KILN_OK);
    ops->release_program(device, program);
    unsigned char *result =
        memmem(captured.answers, captured.answers_size, &argument, sizeof argument);
    assert_non_null(result);
    for (int changed = 0; changed < 2; changed++) {
        result[sizeof argument] ^= (unsigned char)changed;
        kiln_entry *entry =
            new_entry_of(captured.device, (kiln_bytes){captured.answers, captured.answers_size},
                         (kiln_bytes){captured.payload, captured.payload_size});
        assert_int_equal(ops->load(device, &source, entry, &found), changed ? KILN_MISS : KILN_OK);
        kiln_entry_release(&entry);
    }
    ops->release_program(device, found);
    kiln_capture_done(&captured);
    free(log);
    kiln_nvrtc_device_free(&device);
}

/* Builds a program and returns its entry, made to replace @replaces. NULL: there is no entry to
 * replace. */
static kiln_entry *build_entry(kiln_nvrtc_device *device, const kiln_entry *replaces)
{
    void *program = build_including(device, KILN_OK);
    kiln_capture captured = {.replaces = replaces};
    assert_int_equal(kiln_nvrtc_ops()->capture(device, program, &captured), KILN_OK);
    kiln_entry *entry =
        new_entry_of(captured.device, (kiln_bytes){captured.answers, captured.answers_size},
                     (kiln_bytes){captured.payload, captured.payload_size});
    kiln_capture_done(&captured);
    kiln_nvrtc_ops()->release_program(device, program);
    return entry;
}

static kiln_status load_including(kiln_nvrtc_device *device, const kiln_entry *entry)
{
    const kiln_program_source source = source_of(INCLUDING, "-I.");
    void *program = NULL;
    const kiln_status status = kiln_nvrtc_ops()->load(device, &source, entry, &program);
    if (program) {
        kiln_nvrtc_ops()->release_program(device, program);
    }
    return status;
}

/* A captured result is valid only for the files from which it was made. */
static void test_entry_of_different_files(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device(), *other = new_device();
    write_file("a.h", "#define VALUE 1\n");
    kiln_entry *entry = build_entry(device, NULL);
    const uint64_t first = revision_of(other);
    write_file("a.h", "#define VALUE 2\n");
    assert_int_equal(load_including(other, entry), KILN_MISS);
    assert_int_equal(revision_of(other), first); /* no files are recorded yet */
    write_file("a.h", "#define VALUE 1\n");
    assert_int_equal(load_including(other, entry), KILN_OK);
    /* The revision was requested before the load, so the load checked the files twice, and found no
     * change. */
    assert_int_equal(revision_of(other), first);
    write_file("a.h", "#define VALUE 2\n");
    assert_int_not_equal(revision_of(other), first);
    kiln_entry_release(&entry);
    kiln_nvrtc_device_free(&device);
    kiln_nvrtc_device_free(&other);
}

/* An entry that replaces an earlier entry keeps the earlier results, so a result is found for each
 * state of the files. */
static void test_entry_keeps_earlier_results(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device(), *other = new_device();
    write_file("a.h", "#define VALUE 1\n");
    kiln_entry *first = build_entry(device, NULL);
    write_file("a.h", "#define VALUE 2\n");
    assert_int_equal(load_including(other, first), KILN_MISS);
    kiln_entry *both = build_entry(other, first), *alone = build_entry(other, NULL);
    assert_int_equal(load_including(device, both), KILN_OK);
    assert_int_equal(load_including(device, alone), KILN_OK);
    write_file("a.h", "#define VALUE 1\n");
    assert_int_equal(load_including(device, both), KILN_OK);
    assert_int_equal(load_including(device, alone), KILN_MISS);
    kiln_entry_release(&first);
    kiln_entry_release(&both);
    kiln_entry_release(&alone);
    kiln_nvrtc_device_free(&device);
    kiln_nvrtc_device_free(&other);
}

/* ---- contexts ---- */

typedef struct context_scene {
    kiln_nvrtc_device *device;
    kiln_store *store;
    kiln_program_context *programs;
} context_scene;

static context_scene open_context(void)
{
    context_scene s = {.device = new_device()};
    char *folder = getcwd(NULL, 0), *path = NULL;
    assert_true(asprintf(&path, "%s/store", folder) > 0);
    assert_int_equal(kiln_store_open(path, NULL, &s.store, NULL), KILN_OK);
    void *devices[] = {s.device};
    const kiln_program_context_params params = {.struct_size = sizeof params,
                                                .ops = kiln_nvrtc_ops(),
                                                .devices = devices,
                                                .device_count = 1,
                                                .store = s.store};
    assert_int_equal(kiln_program_context_new(&params, &s.programs), KILN_OK);
    free(folder);
    free(path);
    return s;
}

static void close_context(context_scene *s)
{
    kiln_program_context_free(&s->programs);
    kiln_nvrtc_device_free(&s->device);
    kiln_store_close(&s->store);
}

static kiln_program_desc *describe_including(const context_scene *s)
{
    const kiln_program_desc_params params = {.struct_size = sizeof params,
                                             .form = KILN_SOURCE_TEXT,
                                             .code = {INCLUDING, strlen(INCLUDING)},
                                             .options.compile = "-I."};
    kiln_program_desc *desc = NULL;
    assert_int_equal(kiln_program_desc_new(s->programs, &params, &desc, NULL), KILN_OK);
    return desc;
}

static uint32_t get(const kiln_program_desc *desc)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(kiln_program_get(desc, &program, &result, NULL), KILN_OK);
    kiln_program_release(&program);
    return result.from;
}

static uint32_t describe_and_get(const context_scene *s)
{
    kiln_program_desc *desc = describe_including(s);
    const uint32_t from = get(desc);
    kiln_program_desc_release(&desc);
    return from;
}

/* A program that was loaded for a description of earlier files is not shared with requests for the
 * present files. */
static void test_description_of_earlier_files(void **state)
{
    (void)state;
    context_scene s = open_context();
    write_file("a.h", "#define VALUE 1\n");
    assert_int_equal(describe_and_get(&s), KILN_PROGRAM_FROM_BUILD);
    write_file("a.h", "#define VALUE 2\n");
    assert_int_equal(describe_and_get(&s), KILN_PROGRAM_FROM_BUILD);
    close_context(&s);

    s = open_context();
    write_file("a.h", "#define VALUE 1\n");
    kiln_program_desc *earlier = describe_including(&s);
    assert_int_equal(get(earlier), KILN_PROGRAM_FROM_STORE);
    kiln_program_context_clear(s.programs);
    write_file("a.h", "#define VALUE 2\n");
    assert_int_equal(get(earlier), KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_int_equal(describe_and_get(&s), KILN_PROGRAM_FROM_STORE);
    assert_int_equal(describe_and_get(&s), KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(get(earlier), KILN_PROGRAM_FROM_PRIVATE_BUILD);
    write_file("a.h", "#define VALUE 1\n");
    assert_int_not_equal(get(earlier), KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(describe_and_get(&s), KILN_PROGRAM_FROM_STORE);
    kiln_program_desc_release(&earlier);
    close_context(&s);
}

/* A program that was loaded from a blob is not written to a store. */
static void test_blob_of_earlier_files(void **state)
{
    (void)state;
    static uint8_t blob[1 << 20];
    size_t size = sizeof blob;
    context_scene s = open_context();
    kiln_program *program = NULL;
    write_file("a.h", "#define VALUE 1\n");
    kiln_program_desc *desc = describe_including(&s);
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    kiln_program_release(&program);
    kiln_store_remove(s.store, kiln_program_desc_key(desc));
    kiln_program_desc_release(&desc);
    close_context(&s);
    assert_int_equal(system("rm -r store"), 0);

    s = open_context();
    write_file("a.h", "#define VALUE 2\n");
    desc = describe_including(&s);
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, &error),
                     KILN_E_REFUSED);
    assert_int_equal(get(desc), KILN_PROGRAM_FROM_BUILD);
    kiln_program_desc_release(&desc);
    close_context(&s);

    s = open_context();
    write_file("a.h", "#define VALUE 1\n");
    assert_int_equal(describe_and_get(&s), KILN_PROGRAM_FROM_BUILD);
    close_context(&s);
}

/* ---- programs ---- */

static void test_programs(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    assert_int_equal(round_trip(device, OPTIONS, ""), KILN_OK);
    assert_int_equal(round_trip(device, OPTIONS " -arch sm_80", " sm_80"), KILN_OK);
    assert_int_equal(round_trip(device, OPTIONS " --gpu-architecture=sm_80", " sm_80"), KILN_OK);
    assert_int_equal(kiln_nvrtc_ops()->interchangeable(device, device), 1);
    kiln_nvrtc_device_free(&device);
}

static void test_failing_build(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    const kiln_program_source source = source_of("ERROR no C++\n#include \"none.h\"", NULL);
    void *program = NULL;
    char *log = NULL;
    assert_int_equal(kiln_nvrtc_ops()->build(device, &source, &program, &log), KILN_E_BUILD);
    assert_non_null(log);
    assert_null(program);
    free(log);

    kiln_program_source zero = source_of("x", NULL);
    zero.code.size = 2; /* with its terminating zero */
    log = NULL;
    assert_int_equal(kiln_nvrtc_ops()->build(device, &zero, &program, &log), KILN_E_BUILD);
    assert_null(program);
    assert_non_null(strstr(log, "zero bytes"));
    free(log);
    const kiln_program_source quote = source_of("x", "-D\"A");
    assert_int_equal(kiln_nvrtc_ops()->build(device, &quote, &program, &log), KILN_E_BUILD);
    assert_non_null(strstr(log, "quote"));
    free(log);
    kiln_key_builder *builder = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_nvrtc_ops()->describe(device, &zero, builder, &error),
                     KILN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "zero"));
    kiln_key_builder_free(&builder);
    kiln_nvrtc_device_free(&device);
}

static void test_damaged_entry(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    const kiln_program_source source = source_of(source_text, OPTIONS);
    kiln_entry *entry = new_entry_of(NULL, (kiln_bytes){"x", 1}, (kiln_bytes){"y", 1});
    void *found = NULL;
    assert_int_equal(kiln_nvrtc_ops()->load(device, &source, entry, &found), KILN_E_REFUSED);
    assert_null(found);
    kiln_entry_release(&entry);
    kiln_nvrtc_device_free(&device);
}

/* After a program with --restrict, NVRTC may compile later programs as if they had that option too.
 * The process cannot undo this, so in a later test no result would be kept. */
static void test_lasting_options(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    assert_int_equal(round_trip(device, OPTIONS, ""), KILN_OK);
    assert_int_equal(round_trip(device, OPTIONS " --restrict", ""), KILN_OK);
    assert_int_equal(round_trip(device, OPTIONS, ""), KILN_E_UNSUPPORTED);
    assert_int_equal(round_trip(device, OPTIONS " --restrict -DB=1", ""), KILN_OK);
    assert_int_equal(round_trip(device, OPTIONS " --restrict -fmad=false", ""), KILN_OK);
    assert_int_equal(round_trip(device, OPTIONS " --Ofast-compile=max", ""), KILN_E_UNSUPPORTED);
    assert_int_equal(round_trip(device, OPTIONS " --restrict", ""), KILN_E_UNSUPPORTED);
    kiln_nvrtc_device_free(&device);
}

static void test_device_without_nvrtc(void **state)
{
    (void)state;
    const kiln_nvrtc_device_params params = {.struct_size = sizeof params,
                                             .nvrtc = "/no/such/libnvrtc.so"};
    kiln_nvrtc_device *device = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_nvrtc_device_new(&params, &device, &error), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no NVRTC"));
    assert_int_equal(kiln_nvrtc_device_new(&params, NULL, NULL), KILN_E_INVALID);
    const kiln_nvrtc_device_params wrong = {.struct_size = sizeof wrong, .header_count = 1};
    assert_int_equal(kiln_nvrtc_device_new(&wrong, &device, NULL), KILN_E_INVALID);
    static const char *const header[] = {"x"}, *const none[] = {NULL};
    const kiln_nvrtc_device_params without_name = {
        .struct_size = sizeof wrong, .header_count = 1, .headers = header, .header_names = none};
    assert_int_equal(kiln_nvrtc_device_new(&without_name, &device, NULL), KILN_E_INVALID);
    kiln_nvrtc_device_free(&device);
    kiln_nvrtc_device_free(NULL);
}

static void test_identity(void **state)
{
    (void)state;
    kiln_nvrtc_device *device = new_device();
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_nvrtc_ops()->identity(device, builder), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    static const char *const names[] = {"nvrtc.version", "nvrtc.library", "nvrtc.builtins"};
    assert_int_equal(kiln_key_part_count(key), 3);
    for (size_t i = 0; i < 3; i++) {
        kiln_key_part part;
        assert_int_equal(kiln_key_part_at(key, i, &part), KILN_OK);
        assert_string_equal(part.name, names[i]);
        assert_true(part.size > 3);
    }
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
    kiln_nvrtc_device_free(&device);
}

/* ---- memory that runs out ---- */

static kiln_nvrtc_device *device_of_faults;

static kiln_status describe_program(void)
{
    kiln_key *key = NULL;
    const kiln_status status = describe(device_of_faults, "#include \"given.h\"\n", "-DA", &key);
    kiln_key_release(&key);
    return status;
}

static kiln_status build_program(void)
{
    const kiln_program_source source = source_of(source_text, OPTIONS);
    void *program = NULL;
    char *log = NULL;
    kiln_capture captured = {0};
    kiln_status status = kiln_nvrtc_ops()->build(device_of_faults, &source, &program, &log);
    if (status == KILN_OK) {
        status = kiln_nvrtc_ops()->capture(device_of_faults, program, &captured);
        kiln_nvrtc_ops()->release_program(device_of_faults, program);
    }
    kiln_capture_done(&captured);
    free(log);
    return status;
}

static kiln_status make_device(void)
{
    const char *const more[] = {"A*", NULL};
    const kiln_nvrtc_device_params params = {
        .struct_size = sizeof params, .nvrtc = library, .architecture = "sm_90", .more = more};
    kiln_nvrtc_device *device = NULL;
    const kiln_status status = kiln_nvrtc_device_new(&params, &device, NULL);
    kiln_nvrtc_device_free(&device);
    return status;
}

/* If memory runs out, a program that fails to compile does not change the recorded files. */
static void test_memory_runs_out_in_a_failing_build(void **state)
{
    (void)state;
    const kiln_program_source source = source_of(INCLUDING, "-I.");
    size_t failures = 0;
    bool has_failed = true;
    for (size_t n = 1; has_failed; n++) {
        kiln_nvrtc_device *device = new_device();
        const uint64_t before = revision_of(device);
        void *program = NULL;
        char *log = NULL;
        failing_malloc_arm(n);
        const kiln_status status = kiln_nvrtc_ops()->build(device, &source, &program, &log);
        has_failed = failing_malloc_disarm() >= n;
        assert_true(status == KILN_E_BUILD || status == KILN_E_NO_MEMORY);
        failures += status == KILN_E_NO_MEMORY;
        revision_of(device);
        write_file("a.h", "#define VALUE 1\n");
        assert_true(status != KILN_E_BUILD || revision_of(device) != before);
        assert_int_equal(unlink("a.h"), 0);
        free(log);
        kiln_nvrtc_device_free(&device);
    }
    assert_true(failures > 0);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    static kiln_status (*const calls[])(void) = {describe_program, build_program, make_device};
    device_of_faults = new_device();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        check_each_allocation(calls[i]);
    }
    kiln_nvrtc_device_free(&device_of_faults);
}

/* ---- a build that its thread does not finish ---- */

/* A function of LeakSanitizer, if present: leaks of what the thread allocates after this call are
 * not reported. */
void __lsan_disable(void) __attribute__((weak));

static void *build_and_end(void *device)
{
    const kiln_program_source source = source_of("END_THREAD", NULL);
    void *program = NULL;
    char *log = NULL;
    if (__lsan_disable) {
        __lsan_disable();
    }
    kiln_nvrtc_ops()->build(device, &source, &program, &log);
    return device; /* not reached */
}

static int told_count;

static void count_telling(kilni_reads *unused, const char *text)
{
    (void)unused, (void)text;
    told_count++;
}

/* NVRTC's callback may end the thread. */
static void test_build_that_ends_its_thread_is_forgotten(void **state)
{
    (void)state;
    if (!unwatched_library) {
        print_message("only the stand-in ends a thread\n");
        skip();
    }
    kiln_nvrtc_device *device = new_device();
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, build_and_end, device), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    kilni_compilation_report(count_telling, "told");
    assert_int_equal(told_count, 0);
    kiln_nvrtc_device_free(&device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_keys),
        IN_SCRATCH(test_unwatched_nvrtc),
        IN_SCRATCH(test_revisions),
        IN_SCRATCH(test_build_for_an_earlier_revision),
        IN_SCRATCH(test_failure_holds_for_its_files),
        IN_SCRATCH(test_clock_words_in_files),
        IN_SCRATCH(test_entry_of_different_files),
        IN_SCRATCH(test_entry_keeps_earlier_results),
        IN_SCRATCH(test_entry_of_different_functions),
        IN_SCRATCH(test_description_of_earlier_files),
        IN_SCRATCH(test_blob_of_earlier_files),
        IN_SCRATCH(test_programs),
        IN_SCRATCH(test_failing_build),
        IN_SCRATCH(test_damaged_entry),
        IN_SCRATCH(test_build_that_ends_its_thread_is_forgotten),
        cmocka_unit_test(test_device_without_nvrtc),
        cmocka_unit_test(test_identity),
        IN_SCRATCH(test_memory_runs_out_in_a_failing_build),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_lasting_options),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: test_nvrtc_ops LIBNVRTC [LIBNVRTC that can't be watched]\n");
        return 2;
    }
    /* The tests work in a new folder. */
    char *path = realpath(argv[1], NULL), *unwatched = argc > 2 ? realpath(argv[2], NULL) : NULL;
    library = path ? path : argv[1];
    unwatched_library = unwatched;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(path);
    free(unwatched);
    return failed;
}
