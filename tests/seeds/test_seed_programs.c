/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the documents' statements about kernels and programs in memory, as the author of a runtime
 * would use them. Then come the cases of the shipped caches' own tests, and cases that those tests
 * lack. docs/seeds.md lists the statements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <kiln/config.h>

#include "support/program_scene.h"
#include "support/store_scene.h"

#define THREADS 16
#define DRAIN_NS UINT64_C(60000000000)

static int builds(const program_scene *s)
{
    return atomic_load(&s->devices[0].build.count);
}

static uint64_t value_of(const kiln_program *program)
{
    return ((const scripted_program *)kiln_program_handle(program))->value;
}

static uint64_t expected_value(const char *text, const char *options)
{
    return scripted_value(scripted_value(0, text, strlen(text)), options, strlen(options));
}

/* ---- the purpose of the cache ---- */

static void seed_001_one_kernel_in_a_loop(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *program = describe_image(s, "image");
    kiln_kernel_desc *kernel = describe_kernel(program, "TheKernel");
    void *first = touch_kernel(kernel);
    for (int i = 0; i < 100; i++) {
        assert_ptr_equal(touch_kernel(kernel), first);
    }
    assert_int_equal(builds(s), 1);
    assert_int_equal(atomic_load(&s->devices[0].kernel.count), 1);
    kiln_kernel_desc_release(&kernel);
    kiln_program_desc_release(&program);
}

static void seed_001_many_kernels_of_one_program(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *program = describe_image(s, "image");
    for (int i = 0; i < 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "TheKernel_%d", i);
        kiln_kernel_desc *kernel = describe_kernel(program, name);
        void *handle = touch_kernel(kernel);
        assert_string_equal(handle, name);
        assert_ptr_equal(touch_kernel(kernel), handle);
        kiln_kernel_desc_release(&kernel);
    }
    assert_int_equal(builds(s), 1);
    assert_int_equal(atomic_load(&s->devices[0].kernel.count), 10);
    assert_int_equal(kernel_stats(s).entries, 10);
    kiln_program_desc_release(&program);
}

/* For a store, a new context is the same as a restart of the process. */
static void seed_001_programs_are_found_after_a_restart(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    for (int start = 0; start < 2; start++) {
        assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
        program_scene_open(s);
        kiln_program_desc *program = describe_image(s, "image");
        touch(program, start == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE);
        touch(program, KILN_PROGRAM_FROM_MEMORY);
        kiln_program_desc_release(&program);
        kiln_program_context_free(&s->context);
        kiln_store_close(&s->params.store);
    }
    assert_int_equal(builds(s), 1);
    assert_int_equal(atomic_load(&s->devices[0].load.count), 1);
    scratch_remove(directory);
}

/* The numbers of images, which change at each start, and names, which are not unique, are not in
 * the key. */
static void seed_001_contents_decide_after_a_restart(void **state)
{
    program_scene *s = *state;
    static const char *const texts[] = {"one", "two"};
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    for (size_t start = 0; start < 2; start++) {
        program_scene_open(s);
        for (size_t i = 0; i < 2; i++) {
            kiln_program_desc_params params = image_of(texts[i]);
            params.image = (start + i) % 2 + 1;
            params.name = texts[(start + i) % 2];
            kiln_program_desc *desc = describe(s, &params);
            kiln_kernel_desc *kernel = describe_kernel(desc, "TheKernel");
            kiln_program *program =
                get_from(desc, start == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE);
            assert_true(value_of(program) == expected_value(texts[i], ""));
            touch_kernel(kernel);
            kiln_kernel_desc_release(&kernel);
            kiln_program_release(&program);
            kiln_program_desc_release(&desc);
        }
        kiln_program_context_free(&s->context);
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

/* A result that another revision of the library built from an image is not used. */
static void seed_000_a_revision_of_the_library_has_separate_entries(void **state)
{
    program_scene *s = *state;
    static const char *const libraries[] = {NULL, "library 1.0 abcdef", "library 1.0 abcdee"};
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    for (int start = 0; start < 2; start++) {
        for (size_t i = 0; i < 3; i++) {
            s->params.library = libraries[i];
            program_scene_open(s);
            kiln_program_desc *desc = describe_image(s, "image");
            touch(desc, start == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE);
            kiln_program_desc_release(&desc);
            kiln_program_context_free(&s->context);
        }
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

static unsigned folders[5]; /* by depth, from 1 */

static int count_folder(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat;
    const bool is_of_hash = kind == FTW_D && strlen(path + walk->base) == 32;
    if (is_of_hash && walk->level < 5) {
        folders[walk->level]++;
    }
    return 0;
}

/* Device, image, constants and options: entries that differ in one of these share the folders above
 * it. */
static void seed_001_each_component_is_a_level_of_folders(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE], url[SCRATCH_DIRECTORY_SIZE + 32];
    const kiln_spec_constant constant = {7, {"seven", 5}};
    scratch_make(directory);
    snprintf(url, sizeof url, "file://%s?layout=sycl", directory);
    assert_int_equal(kiln_store_open(url, NULL, &s->params.store, NULL), KILN_OK);
    s->devices[1].text = "another device";
    s->params.device_count = 2;
    program_scene_open(s);
    kiln_program_desc_params variants[6];
    for (size_t i = 0; i < 6; i++) {
        variants[i] = image_of(i == 1 ? "another image" : "image");
    }
    variants[2].constants = &constant;
    variants[2].constant_count = 1;
    variants[3].options.compile = "-g";
    variants[4].image_options.link = "-s";
    variants[5].device = 1;
    for (size_t i = 0; i < 6; i++) {
        kiln_program_desc *desc = describe(s, &variants[i]);
        touch(desc, KILN_PROGRAM_FROM_BUILD);
        kiln_program_desc_release(&desc);
    }
    assert_int_equal(kiln_program_context_drain(s->context, DRAIN_NS), KILN_OK);
    kiln_program_context_free(&s->context);
    kiln_store_close(&s->params.store);
    memset(folders, 0, sizeof folders);
    assert_int_equal(nftw(directory, count_folder, 16, FTW_PHYS), 0);
    assert_int_equal(folders[1], 2); /* devices */
    assert_int_equal(folders[2], 3); /* two images of the first device, one of the second */
    assert_int_equal(folders[3], 4);
    assert_int_equal(folders[4], 6);
    scratch_remove(directory);
}

static void seed_000_memory_and_disk_do_not_need_each_other(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    s->params.flags = KILN_CACHE_DISABLED;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_int_equal(kiln_program_context_drain(s->context, DRAIN_NS), KILN_OK);
    touch(desc, KILN_PROGRAM_FROM_STORE);
    touch(desc, KILN_PROGRAM_FROM_STORE);
    assert_int_equal(program_stats(s).entries, 0);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
    kiln_store_close(&s->params.store);
    scratch_remove(directory);

    s->params.flags = 0;
    program_scene_open(s);
    desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_desc_release(&desc);
}

/* ---- the two maps and their keys ---- */

/* Gets the programs of two descriptions, and returns whether they are the same. */
static bool are_one(const program_scene *s, const kiln_program_desc_params *a,
                    const kiln_program_desc_params *b)
{
    kiln_program_desc *first = describe(s, a), *second = describe(s, b);
    kiln_program *one = NULL, *other = NULL;
    assert_int_equal(kiln_program_get(first, &one, NULL, NULL), KILN_OK);
    assert_int_equal(kiln_program_get(second, &other, NULL, NULL), KILN_OK);
    const bool same = kiln_program_handle(one) == kiln_program_handle(other);
    kiln_program_release(&one);
    kiln_program_release(&other);
    kiln_program_desc_release(&first);
    kiln_program_desc_release(&second);
    return same;
}

static void seed_001_four_parts_distinguish_programs(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 2;
    program_scene_open(s);
    const kiln_program_desc_params plain = image_of("image");
    assert_true(are_one(s, &plain, &plain));

    const kiln_program_desc_params image = image_of("another");
    assert_false(are_one(s, &plain, &image));

    const int one = 1, two = 2;
    const kiln_spec_constant ones = {7, {&one, sizeof one}}, twos = {7, {&two, sizeof two}},
                             others = {8, {&one, sizeof one}};
    kiln_program_desc_params constant = plain, value = plain, number = plain;
    constant.constants = &ones;
    value.constants = &twos;
    number.constants = &others;
    constant.constant_count = value.constant_count = number.constant_count = 1;
    assert_false(are_one(s, &plain, &constant));
    assert_false(are_one(s, &constant, &value));
    assert_false(are_one(s, &constant, &number));

    /* Values of different lengths, and values with the same bytes in sequence that are divided
     * differently. */
    const kiln_spec_constant longer = {7, {(const char[]){1, 0, 0, 0, 0}, 5}};
    const kiln_spec_constant bordered[] = {{7, {"a", 1}}, {8, {"bc", 2}}},
                             moved[] = {{7, {"ab", 2}}, {8, {"c", 1}}};
    value.constants = &longer;
    assert_false(are_one(s, &constant, &value));
    value.constants = bordered;
    number.constants = moved;
    value.constant_count = number.constant_count = 2;
    assert_false(are_one(s, &value, &number));

    kiln_program_desc_params device = plain;
    device.device = 1;
    assert_false(are_one(s, &plain, &device));

    /* An image with the same code is the same, whatever its number. */
    kiln_program_desc_params numbered = plain;
    numbered.image = 7;
    assert_true(are_one(s, &plain, &numbered));

    kiln_program_desc_params compiled = plain, linked = plain;
    compiled.options.compile = "-a";
    linked.options.link = "-a";
    assert_false(are_one(s, &plain, &compiled));
    assert_false(are_one(s, &compiled, &linked));
}

/* The order of specialization constants does not matter. */
static void seed_001_spec_constants_have_no_order(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    const int one = 1, two = 2;
    const kiln_spec_constant forth[] = {{1, {&one, sizeof one}}, {2, {&two, sizeof two}}};
    const kiln_spec_constant back[] = {{2, {&two, sizeof two}}, {1, {&one, sizeof one}}};
    const kiln_spec_constant swapped[] = {{1, {&two, sizeof two}}, {2, {&one, sizeof one}}};
    kiln_program_desc_params a = image_of("image"), b = a, c = a;
    a.constants = forth;
    b.constants = back;
    c.constants = swapped;
    a.constant_count = b.constant_count = c.constant_count = 2;
    assert_true(are_one(s, &a, &b));
    assert_false(are_one(s, &a, &c));
    const kiln_spec_constant twice[] = {{1, {&one, sizeof one}}, {1, {&two, sizeof two}}};
    a.constants = twice;
    kiln_program_desc *desc = NULL;
    assert_int_equal(kiln_program_desc_new(s->context, &a, &desc, NULL), KILN_E_INVALID);
}

static void seed_001_program_and_name_distinguish_kernels(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *a = describe_image(s, "a"), *b = describe_image(s, "b");
    kiln_kernel_desc *a_one = describe_kernel(a, "one"), *a_two = describe_kernel(a, "two"),
                     *b_one = describe_kernel(b, "one"), *again = describe_kernel(a, "one");
    void *handle = touch_kernel(a_one);
    assert_ptr_not_equal(handle, touch_kernel(a_two));
    assert_ptr_not_equal(handle, touch_kernel(b_one));
    assert_ptr_equal(handle, touch_kernel(again));
    assert_int_equal(kernel_stats(s).entries, 3);
    kiln_kernel_desc_release(&a_one);
    kiln_kernel_desc_release(&a_two);
    kiln_kernel_desc_release(&b_one);
    kiln_kernel_desc_release(&again);
    kiln_program_desc_release(&a);
    kiln_program_desc_release(&b);
}

static void seed_001_each_context_has_its_own(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *program = describe_image(s, "image");
    touch(program, KILN_PROGRAM_FROM_BUILD);
    program_scene other = *s;
    program_scene_open(&other);
    kiln_program_desc *again = describe_image(&other, "image");
    touch(again, KILN_PROGRAM_FROM_BUILD);
    touch(program, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_desc_release(&again);
    kiln_program_context_free(&other.context);
    touch(program, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_desc_release(&program);
}

/* ---- build options from three sources ---- */

static const char *const variables[][2] = {
    {"SYCL_PROGRAM_COMPILE_OPTIONS", "-env-compile"},
    {"SYCL_PROGRAM_LINK_OPTIONS", "-env-link"},
    {"SYCL_PROGRAM_APPEND_COMPILE_OPTIONS", "-append-compile"},
    {"SYCL_PROGRAM_APPEND_LINK_OPTIONS", "-append-link"},
    {"SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD", "20005"},
    {"SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE", "6"},
    {"SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE", "9"},
    {"SYCL_CACHE_IN_MEM", "0"},
};

/* @user  the variables that are set, as the index of the first and their number */
typedef struct set_variables {
    size_t first, count;
} set_variables;

static const char *look_up(void *user, const char *name)
{
    const set_variables *set = user;
    for (size_t i = set->first; i < set->first + set->count; i++) {
        if (strcmp(variables[i][0], name) == 0) {
            return variables[i][1];
        }
    }
    return NULL;
}

/* A context with the settings of the environment. */
static void open_with(program_scene *s, size_t first, size_t count)
{
    kiln_config *config = NULL;
    set_variables set = {first, count};
    assert_int_equal(kiln_config_from_profile(KILN_PROFILE_SYCL, look_up, &set, &config), KILN_OK);
    assert_int_equal(kiln_config_get_programs(config, &s->params), KILN_OK);
    program_scene_open(s);
    kiln_config_free(&config);
}

static void build_with_options(program_scene *s, const char *expected)
{
    kiln_program_desc_params params = image_of("image");
    params.image_options = (kiln_build_options){"-img-compile", "-img-link"};
    params.options = (kiln_build_options){"-vc-codegen", "-disable-finalizer-msg"};
    kiln_program_desc *desc = describe(s, &params);
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    assert_string_equal(s->devices[0].options, expected);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

static void seed_001_options_come_from_image_environment_and_caller(void **state)
{
    program_scene *s = *state;
    open_with(s, 0, 0);
    build_with_options(s, "-img-compile -vc-codegen -img-link -disable-finalizer-msg");
    open_with(s, 0, 2);
    build_with_options(s, "-env-compile -vc-codegen -env-link -disable-finalizer-msg");
    open_with(s, 2, 2);
    build_with_options(s, "-img-compile -append-compile -vc-codegen -img-link -append-link "
                          "-disable-finalizer-msg");
    open_with(s, 0, 4);
    build_with_options(s, "-env-compile -append-compile -vc-codegen -env-link -append-link "
                          "-disable-finalizer-msg");
}

static void seed_001_options_of_each_source_are_in_the_key(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    static const struct {
        size_t variables; /* how many are set */
        kiln_build_options image, caller;
    } cases[] = {
        {0, {0}, {0}},
        {1, {0}, {0}},
        {2, {0}, {0}},
        {4, {0}, {0}},
        {0, {"-img", NULL}, {0}},
        {0, {NULL, "-img"}, {0}},
        {0, {0}, {"-api", NULL}},
        {0, {0}, {NULL, "-api"}},
    };
    for (int start = 0; start < 2; start++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            open_with(s, 0, cases[i].variables);
            kiln_program_desc_params params = image_of("image");
            params.image_options = cases[i].image;
            params.options = cases[i].caller;
            kiln_program_desc *desc = describe(s, &params);
            touch(desc, start == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE);
            kiln_program_desc_release(&desc);
            kiln_program_context_free(&s->context);
        }
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

/* The compiler gets only its own options, and so does the linker. */
static void seed_001_options_of_compiler_and_linker_stay_apart(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc_params part = image_of("part");
    part.image_options = (kiln_build_options){"-img-compile", "-img-link"};
    kiln_program_desc *input = describe(s, &part);
    const kiln_program_desc *const inputs[] = {input};
    const kiln_program_desc_params whole = {.struct_size = sizeof whole,
                                            .linked = inputs,
                                            .linked_count = 1,
                                            .options = {"-not-for-links", "-link"}};
    kiln_program_desc *desc = describe(s, &whole);
    script(&s->devices[0].link, SCRIPTED_ALWAYS, KILN_E_BUILD);
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_E_BUILD);
    assert_string_equal(s->devices[0].options, "-link");
    script(&s->devices[0].compile, SCRIPTED_ALWAYS, KILN_E_BUILD);
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_E_BUILD);
    assert_string_equal(s->devices[0].options, "-img-compile");
    kiln_program_desc_release(&input);
    kiln_program_desc_release(&desc);
}

/* ---- cached and uncached programs ---- */

static kiln_program_desc *describe_source(const program_scene *s, const char *options)
{
    kiln_program_desc_params params = image_of("source");
    params.form = KILN_SOURCE_TEXT;
    params.options.compile = options;
    return describe(s, &params);
}

/* Returns the description of a link of these two images, with these options. */
static kiln_program_desc *describe_link_of(const program_scene *s, const char *const texts[2],
                                           const char *options)
{
    kiln_program_desc *a = describe_image(s, texts[0]), *b = describe_image(s, texts[1]);
    const kiln_program_desc *const inputs[] = {a, b};
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .linked = inputs, .linked_count = 2, .options.link = options};
    kiln_program_desc *desc = describe(s, &params);
    kiln_program_desc_release(&a);
    kiln_program_desc_release(&b);
    return desc;
}

static kiln_program_desc *describe_link(const program_scene *s, const char *options)
{
    static const char *const texts[] = {"a", "b"};
    return describe_link_of(s, texts, options);
}

/* Checks that the description's programs and their kernels are not in the maps, and that they
 * work. */
static void check_not_cached(const program_scene *s, kiln_program_desc *desc, uint32_t why)
{
    const kiln_program_caching caching = caching_of(desc);
    assert_int_equal(caching.memory, why);
    assert_int_equal(caching.store, why);
    assert_non_null(strstr(caching.text, kiln_uncached_text(why)));
    kiln_program *first = get_from(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD),
                 *second = get_from(desc, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_ptr_not_equal(kiln_program_handle(first), kiln_program_handle(second));
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(first, "k", 0, &kernel, NULL), KILN_OK);
    assert_string_equal(kiln_kernel_handle(kernel), "k");
    kiln_kernel_release(&kernel);
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    touch_kernel(named);
    assert_int_equal(program_stats(s).entries, 0);
    assert_int_equal(kernel_stats(s).entries, 0);
    kiln_kernel_desc_release(&named);
    kiln_program_release(&first);
    kiln_program_release(&second);
    kiln_program_desc_release(&desc);
}

static void seed_001_programs_from_source_are_not_cached(void **state)
{
    program_scene *s = *state;
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    check_not_cached(s, describe_source(s, NULL), KILN_UNCACHED_SOURCE);
    check_not_cached(s, describe_source(s, "-g"), KILN_UNCACHED_SOURCE);
}

/* A request for a program from source never gets the program of an image, even if the codes are
 * equal. */
static void seed_001_source_never_meets_an_image(void **state)
{
    program_scene *s = *state;
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    kiln_program_desc_params params = image_of("source");
    params.form = KILN_SOURCE_TEXT;
    params.origin = KILN_ORIGIN_IMAGE;
    kiln_program_desc *image = describe(s, &params), *source = describe_source(s, NULL);
    assert_true(kiln_key_equals(kiln_program_desc_key(image), kiln_program_desc_key(source)));
    touch(image, KILN_PROGRAM_FROM_BUILD);
    touch(image, KILN_PROGRAM_FROM_MEMORY);
    touch(source, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    kiln_program_desc_release(&image);
    kiln_program_desc_release(&source);
}

static void seed_001_linked_programs_are_not_cached(void **state)
{
    program_scene *s = *state;
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    check_not_cached(s, describe_link(s, NULL), KILN_UNCACHED_LINKED);
    check_not_cached(s, describe_link(s, "-g"), KILN_UNCACHED_LINKED);
}

static void check_users_own_program(program_scene *s, uint32_t rules)
{
    s->params.rules = rules;
    program_scene_open(s);
    scripted_program *handle = NULL;
    assert_int_equal(scripted_build(&s->devices[0], 42, &handle), KILN_OK);
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_adopt(s->context, 0, handle, &program), KILN_OK);
    assert_ptr_equal(kiln_program_handle(program), handle);
    kiln_program_caching caching = {.struct_size = sizeof caching};
    assert_int_equal(kiln_program_get_caching(program, &caching), KILN_OK);
    assert_int_equal(caching.memory, KILN_UNCACHED_INTEROP);
    assert_int_equal(caching.store, KILN_UNCACHED_INTEROP);
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_OK);
    assert_int_equal(program_stats(s).entries, 0);
    assert_int_equal(kernel_stats(s).entries, 0);
    kiln_program_release(&program);
    /* The kernel keeps the program loaded. */
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 1);
    assert_ptr_equal(kiln_kernel_program_handle(kernel), handle);
    kiln_kernel_release(&kernel);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    kiln_program_context_free(&s->context);
}

static void seed_001_the_users_own_programs_are_not_cached(void **state)
{
    check_users_own_program(*state, KILN_RULES_ALL);
    check_users_own_program(*state, KILN_RULES_IMAGES);
}

/* Without the rules of that runtime, every program whose inputs are known is kept. */
static void seed_001_other_rules_keep_source_and_links(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *source = describe_source(s, NULL), *link = describe_link(s, NULL);
    assert_int_equal(caching_of(source).memory, KILN_UNCACHED_NOT);
    assert_int_equal(caching_of(link).memory, KILN_UNCACHED_NOT);
    touch(source, KILN_PROGRAM_FROM_BUILD);
    touch(source, KILN_PROGRAM_FROM_MEMORY);
    touch(link, KILN_PROGRAM_FROM_BUILD);
    touch(link, KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(atomic_load(&s->devices[0].compile.count), 2);
    assert_int_equal(atomic_load(&s->devices[0].link.count), 1);
    kiln_program_desc_release(&source);
    kiln_program_desc_release(&link);
}

static uint64_t expected_link(const char *const texts[2], const char *options)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t part = expected_value(texts[i], "");
        value = scripted_value(value, &part, sizeof part);
    }
    return scripted_value(value, options, strlen(options));
}

/* Each of these links has its own program in memory and its own entry in the store. */
static void seed_001_inputs_and_options_distinguish_links(void **state)
{
    program_scene *s = *state;
    static const struct {
        const char *texts[2], *options;
    } links[] = {{{"a", "b"}, ""}, {{"b", "a"}, ""}, {{"a", "c"}, ""}, {{"a", "b"}, "-x"}};
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    for (int start = 0; start < 2; start++) {
        program_scene_open(s);
        for (size_t i = 0; i < 4; i++) {
            kiln_program_desc *desc = describe_link_of(s, links[i].texts, links[i].options);
            kiln_program *program =
                get_from(desc, start == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE);
            assert_true(value_of(program) == expected_link(links[i].texts, links[i].options));
            touch(desc, KILN_PROGRAM_FROM_MEMORY);
            kiln_program_release(&program);
            kiln_program_desc_release(&desc);
        }
        assert_int_equal(program_stats(s).entries, 4);
        kiln_program_context_free(&s->context);
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

static void seed_001_a_kernel_is_cached_if_its_program_is(void **state)
{
    program_scene *s = *state;
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    kiln_program_desc *image = describe_image(s, "image");
    kiln_program *program = get_from(image, KILN_PROGRAM_FROM_BUILD);
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        kiln_kernel *first = NULL, *second = NULL;
        assert_int_equal(kiln_program_get_kernel(program, names[i], 0, &first, NULL), KILN_OK);
        assert_int_equal(kiln_program_get_kernel(program, names[i], 0, &second, NULL), KILN_OK);
        assert_ptr_equal(kiln_kernel_handle(first), kiln_kernel_handle(second));
        kiln_kernel_release(&first);
        kiln_kernel_release(&second);
    }
    assert_int_equal(kernel_stats(s).entries, 3);
    kiln_program_release(&program);
    kiln_program_desc_release(&image);
}

static void seed_001_it_can_be_asked_why_something_is_not_cached(void **state)
{
    program_scene *s = *state;
    s->params.rules = KILN_RULES_IMAGES;
    program_scene_open(s);
    kiln_program_desc *image = describe_image(s, "image");
    assert_int_equal(caching_of(image).memory, KILN_UNCACHED_NOT);
    assert_int_equal(caching_of(image).store, KILN_UNCACHED_OFF);
    assert_int_equal(kiln_program_context_set_capacity(s->context, 0, 0), KILN_OK);
    assert_int_equal(caching_of(image).memory, KILN_UNCACHED_OFF);
    script(&s->devices[0].describe, 1, KILN_E_UNSUPPORTED);
    kiln_program_desc *uncached = describe_image(s, "image");
    assert_int_equal(caching_of(uncached).memory, KILN_UNCACHED_INPUTS);
    assert_null(kiln_program_desc_key(uncached));
    kiln_program_desc_release(&image);
    kiln_program_desc_release(&uncached);
    kiln_program_context_free(&s->context);

    script(&s->devices[0].identity, 1, KILN_E_UNSUPPORTED);
    program_scene_open(s);
    image = describe_image(s, "image");
    check_not_cached(s, image, KILN_UNCACHED_DEVICE);
    for (uint32_t why = KILN_UNCACHED_NOT; why <= KILN_UNCACHED_CAPTURE; why++) {
        assert_non_null(kiln_uncached_text(why));
    }
    assert_null(kiln_uncached_text(KILN_UNCACHED_CAPTURE + 1));
}

/* ---- threads, and failing builds ---- */

typedef struct asking {
    const kiln_program_desc *desc;
    const kiln_kernel_desc *kernel;
    pthread_barrier_t *start;
    kiln_program *program;
    kiln_status status;
    kiln_error error;
} asking;

static void *ask(void *user)
{
    asking *a = user;
    a->error.struct_size = sizeof a->error;
    pthread_barrier_wait(a->start);
    a->status = kiln_program_get(a->desc, &a->program, NULL, &a->error);
    return NULL;
}

/* Gives all threads time to ask before the first build ends. */
static void build_slowly(void *user)
{
    (void)user;
    const struct timespec time = {.tv_nsec = 50000000};
    nanosleep(&time, NULL);
}

static void ask_together(const kiln_program_desc *desc, asking *asked)
{
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        asked[i] = (asking){.desc = desc, .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &asked[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start);
}

static void seed_001_threads_build_once_and_share(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    s->devices[0].while_building = build_slowly;
    kiln_program_desc *desc = describe_image(s, "image");
    asking asked[THREADS];
    ask_together(desc, asked);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(asked[i].status, KILN_OK);
        assert_ptr_equal(kiln_program_handle(asked[i].program),
                         kiln_program_handle(asked[0].program));
    }
    for (int i = 0; i < THREADS; i++) {
        kiln_program_release(&asked[i].program);
    }
    assert_int_equal(builds(s), 1);
    kiln_program_desc_release(&desc);
}

static void seed_001_waiters_get_the_builders_failure(void **state)
{
    program_scene *s = *state;
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    program_scene_open(s);
    s->devices[0].while_building = build_slowly;
    s->devices[0].build_text = "line 7: no such thing";
    script(&s->devices[0].build, 1, KILN_E_BUILD);
    kiln_program_desc *desc = describe_image(s, "image");
    asking asked[THREADS];
    ask_together(desc, asked);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(asked[i].status, KILN_E_BUILD);
        assert_string_equal(asked[i].error.text, "line 7: no such thing");
        assert_null(asked[i].program);
    }
    assert_int_equal(builds(s), 1);
    kiln_program_desc_release(&desc);
}

/* A failure that is not the source's fault is reported only to the thread that built; a different
 * thread tries again.
 */
static void seed_001_after_a_transient_failure_a_waiter_builds(void **state)
{
    program_scene *s = *state;
    static const struct {
        kiln_status failure;
        int calls; /* the number of device calls that one failing build makes */
    } cases[] = {{KILN_E_IO, 1}, {KILN_E_REFUSED, 1}, {KILN_E_RESOURCES, 2}, {KILN_E_NO_MEMORY, 2}};
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    s->devices[0].while_building = build_slowly;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_scene_open(s);
        script(&s->devices[0].build, cases[i].calls, cases[i].failure);
        kiln_program_desc *desc = describe_image(s, "image");
        asking asked[THREADS];
        ask_together(desc, asked);
        int failed = 0;
        for (int j = 0; j < THREADS; j++) {
            failed += asked[j].status == cases[i].failure;
            assert_true(asked[j].status == cases[i].failure || asked[j].status == KILN_OK);
            kiln_program_release(&asked[j].program);
        }
        assert_int_equal(failed, 1);
        assert_int_equal(builds(s), cases[i].calls + 1);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
}

typedef struct nested {
    const kiln_program_desc *inner;
    kiln_kernel_desc *ready;
    int depth;
} nested;

static void get_inner(void *user)
{
    nested *n = user;
    if (n->depth++ == 0) {
        touch(n->inner, KILN_PROGRAM_FROM_BUILD);
        touch_kernel(n->ready);
    }
}

/* No lock is held during a build: it may ask for other programs itself. */
static void seed_001_other_programs_go_on_while_one_builds(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *outer = describe_image(s, "outer"), *inner = describe_image(s, "inner"),
                      *before = describe_image(s, "before");
    kiln_kernel_desc *ready = describe_kernel(before, "k");
    touch_kernel(ready);
    nested n = {.inner = inner, .ready = ready};
    s->devices[0].while_building = get_inner;
    s->devices[0].user = &n;
    touch(outer, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(builds(s), 3);
    kiln_kernel_desc_release(&ready);
    kiln_program_desc_release(&outer);
    kiln_program_desc_release(&inner);
    kiln_program_desc_release(&before);
}

static void seed_001_a_failed_build_is_reported_again_unchanged(void **state)
{
    program_scene *s = *state;
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    program_scene_open(s);
    s->devices[0].build_text = "undefined symbol";
    script(&s->devices[0].build, SCRIPTED_ALWAYS, KILN_E_BUILD);
    kiln_program_desc *desc = describe_image(s, "image");
    for (int i = 0; i < 2; i++) {
        kiln_program *program = NULL;
        kiln_error error = {.struct_size = sizeof error};
        assert_int_equal(kiln_program_get(desc, &program, NULL, &error), KILN_E_BUILD);
        assert_int_equal(error.status, KILN_E_BUILD);
        assert_string_equal(error.text, "undefined symbol");
    }
    assert_int_equal(builds(s), 1);
    kiln_program_desc_release(&desc);
}

/* The failure is kept in memory only: after a restart, the next caller tries again. */
static void seed_001_a_failed_build_is_tried_again_after_a_restart(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    script(&s->devices[0].build, 1, KILN_E_BUILD);
    for (int start = 0; start < 2; start++) {
        assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
        program_scene_open(s);
        kiln_program_desc *desc = describe_image(s, "image");
        for (int i = 0; i < 2; i++) {
            kiln_program *program = NULL;
            assert_int_equal(kiln_program_get(desc, &program, NULL, NULL),
                             start == 0 ? KILN_E_BUILD : KILN_OK);
            kiln_program_release(&program);
        }
        assert_int_equal(builds(s), start + 1);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
        kiln_store_close(&s->params.store);
    }
    scratch_remove(directory);
}

/* ---- removals during a build ---- */

typedef struct removal {
    const program_scene *scene;
    void (*remove)(const program_scene *s);
    asking other;
    pthread_t thread;
    bool has_come;
} removal;

/* Called once another thread waits for the build in progress. */
static void remove_beside(void *user)
{
    removal *r = user;
    if (r->has_come) {
        return;
    }
    r->has_come = true;
    assert_int_equal(pthread_create(&r->thread, NULL, ask, &r->other), 0);
    while (program_stats(r->scene).waits == 0) {
        sched_yield();
    }
    r->remove(r->scene);
}

static void remove_image(const program_scene *s)
{
    assert_int_equal(kiln_program_context_remove_image(s->context, 7), 0);
}

static void clear(const program_scene *s)
{
    kiln_program_context_clear(s->context);
}

static void turn_off(const program_scene *s)
{
    assert_int_equal(kiln_program_context_set_capacity(s->context, 0, 0), KILN_OK);
}

/* Builder and waiter get their program, with this many builds, and nothing is kept. */
static void check_removal(program_scene *s, void (*remove)(const program_scene *s),
                          int expected_builds, uint32_t from_then)
{
    program_scene_open(s);
    kiln_program_desc_params params = image_of("image");
    params.image = 7;
    kiln_program_desc *desc = describe(s, &params);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 1);
    removal r = {.scene = s, .remove = remove, .other = {.desc = desc, .start = &start}};
    s->devices[0].while_building = remove_beside;
    s->devices[0].user = &r;
    script(&s->devices[0].build, 0, KILN_OK);
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
    pthread_join(r.thread, NULL);
    assert_int_equal(r.other.status, KILN_OK);
    assert_int_equal(builds(s), expected_builds);
    assert_true(value_of(program) == expected_value("image", ""));
    assert_true(value_of(r.other.program) == expected_value("image", ""));
    assert_int_equal(program_stats(s).entries, 0);
    kiln_program_release(&program);
    kiln_program_release(&r.other.program);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    touch(desc, from_then);
    pthread_barrier_destroy(&start);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

static void seed_000_gap_a_flush_beside_a_build(void **state)
{
    check_removal(*state, clear, 1, KILN_PROGRAM_FROM_BUILD);
    check_removal(*state, turn_off, 1, KILN_PROGRAM_FROM_PRIVATE_BUILD);
}

/* A thread that waits for the program of an image that is then unloaded builds it itself: the
 * program is not shared. */
static void seed_001_an_image_that_is_unloaded_beside_a_build(void **state)
{
    check_removal(*state, remove_image, 2, KILN_PROGRAM_FROM_BUILD);
}

/* ---- improvements that the earlier document asks for ---- */

/* A hit of a kernel uses its program, so the program stays. */
static void seed_004_least_recently_used_programs_are_evicted(void **state)
{
    program_scene *s = *state;
    s->devices[0].bytes = 10000;
    s->params.max_bytes = 20005;
    s->params.policy = KILN_POLICY_LRU;
    program_scene_open(s);
    static const char *const texts[] = {"1", "2", "3"};
    kiln_program_desc *programs[3];
    kiln_kernel_desc *kernels[3];
    for (size_t i = 0; i < 3; i++) {
        programs[i] = describe_image(s, texts[i]);
        kernels[i] = describe_kernel(programs[i], "k");
    }
    static const struct {
        int kernel, builds, entries;
    } steps[] = {{0, 1, 1}, {1, 2, 2}, {0, 2, 2}, {2, 3, 2}, {0, 3, 2}, {1, 4, 2}, {2, 5, 2}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        touch_kernel(kernels[steps[i].kernel]);
        assert_int_equal(builds(s), steps[i].builds);
        assert_int_equal(program_stats(s).entries, steps[i].entries);
        assert_int_equal(kernel_stats(s).entries, steps[i].entries);
    }
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 2);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 2);
    for (size_t i = 0; i < 3; i++) {
        kiln_kernel_desc_release(&kernels[i]);
        kiln_program_desc_release(&programs[i]);
    }
}

static void seed_004_programs_with_build_options_are_cached(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    static const char *const options[] = {"-a", "-b", "-b", "", "-a"};
    for (size_t i = 0; i < 5; i++) {
        kiln_program_desc_params params = image_of("image");
        params.options.compile = options[i];
        kiln_program_desc *desc = describe(s, &params);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
        assert_true(value_of(program) == expected_value("image", options[i]));
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
    }
    assert_int_equal(builds(s), 3);
    assert_int_equal(program_stats(s).entries, 3);
}

static void seed_004_interchangeable_devices_share_what_is_built(void **state)
{
    program_scene *s = *state;
    s->devices[0].kind = s->devices[2].kind = 5;
    s->devices[1].kind = 6;
    s->params.device_count = 3;
    program_scene_open(s);
    kiln_program_desc *descs[3];
    kiln_program *programs[3];
    for (size_t i = 0; i < 3; i++) {
        kiln_program_desc_params params = image_of("image");
        params.device = i;
        descs[i] = describe(s, &params);
        programs[i] =
            get_from(descs[i], i == 2 ? KILN_PROGRAM_FROM_MEMORY : KILN_PROGRAM_FROM_BUILD);
    }
    assert_ptr_equal(kiln_program_handle(programs[0]), kiln_program_handle(programs[2]));
    assert_ptr_not_equal(kiln_program_handle(programs[0]), kiln_program_handle(programs[1]));
    assert_int_equal(atomic_load(&s->devices[2].build.count), 0);
    for (size_t i = 0; i < 3; i++) {
        kiln_program_release(&programs[i]);
        kiln_program_desc_release(&descs[i]);
    }
}

/* If a program serves several devices, each device has its own kernels. */
static void seed_004_devices_distinguish_kernels(void **state)
{
    program_scene *s = *state;
    s->devices[0].kind = s->devices[1].kind = 5;
    s->params.device_count = 2;
    program_scene_open(s);
    kiln_program_desc_params params = image_of("image");
    kiln_program_desc *first = describe(s, &params);
    params.device = 1;
    kiln_program_desc *second = describe(s, &params);
    kiln_kernel_desc *on_first = describe_kernel(first, "k"),
                     *on_second = describe_kernel(second, "k");
    assert_ptr_not_equal(touch_kernel(on_first), touch_kernel(on_second));
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 1);
    assert_int_equal(atomic_load(&s->devices[1].live_kernels), 1);
    assert_int_equal(kernel_stats(s).entries, 2);
    kiln_program *program = get_from(second, KILN_PROGRAM_FROM_MEMORY);
    for (size_t i = 0; i < 2; i++) {
        kiln_kernel *kernel = NULL;
        assert_int_equal(kiln_program_get_kernel(program, "k", i, &kernel, NULL), KILN_OK);
        assert_ptr_equal(kiln_kernel_handle(kernel), touch_kernel(i == 0 ? on_first : on_second));
        kiln_kernel_release(&kernel);
    }
    assert_int_equal(kernel_stats(s).entries, 2);
    kiln_program_release(&program);
    kiln_kernel_desc_release(&on_first);
    kiln_kernel_desc_release(&on_second);
    kiln_program_desc_release(&first);
    kiln_program_desc_release(&second);
}

/* Peeking at a kernel is also a use of its program. */
static void seed_004_programs_of_kernels_that_are_peeked_at_stay(void **state)
{
    program_scene *s = *state;
    s->params.max_programs = 2;
    s->params.policy = KILN_POLICY_LRU;
    program_scene_open(s);
    kiln_program_desc *a = describe_image(s, "a"), *b = describe_image(s, "b"),
                      *c = describe_image(s, "c");
    kiln_kernel_desc *of_a = describe_kernel(a, "k");
    void *handle = touch_kernel(of_a);
    touch(b, KILN_PROGRAM_FROM_BUILD);
    kiln_section section;
    kiln_kernel_section_enter(s->context, &section);
    assert_ptr_equal(kiln_kernel_peek(&section, of_a), handle);
    kiln_section_leave(&section);
    touch(c, KILN_PROGRAM_FROM_BUILD);
    touch(a, KILN_PROGRAM_FROM_MEMORY);
    touch(b, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel_desc_release(&of_a);
    kiln_program_desc_release(&a);
    kiln_program_desc_release(&b);
    kiln_program_desc_release(&c);
}

/* Peeking acquires no reference: only the map holds the kernel, however often a thread has peeked
 * at it. */
static void seed_001_kernels_that_are_peeked_at_are_not_held(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_kernel_desc *kernel = describe_kernel(desc, "k");
    void *handle = touch_kernel(kernel);
    kiln_section section;
    kiln_kernel_section_enter(s->context, &section);
    for (int i = 0; i < 100; i++) {
        assert_ptr_equal(kiln_kernel_peek(&section, kernel), handle);
    }
    kiln_section_leave(&section);
    assert_int_equal(atomic_load(&s->devices[0].kernel.count), 1);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 1);
    kiln_program_context_clear(s->context);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 0);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    kiln_kernel_desc_release(&kernel);
    kiln_program_desc_release(&desc);
}

/* ---- cases of the shipped caches' tests: limits ---- */

typedef struct storm {
    const program_scene *scene;
    kiln_kernel_desc **kernels;
    size_t count;
} storm;

static void *use_kernels(void *user)
{
    const storm *st = user;
    for (size_t i = 0; i < 100; i++) {
        touch_kernel(st->kernels[i % st->count]);
    }
    return NULL;
}

/* Threads use @count programs of 10,000 bytes each. */
static void use_together(program_scene *s, size_t count)
{
    static const char *const texts[] = {"1", "2", "3"};
    kiln_program_desc *programs[3];
    kiln_kernel_desc *kernels[3];
    s->devices[0].bytes = 10000;
    program_scene_open(s);
    for (size_t i = 0; i < count; i++) {
        programs[i] = describe_image(s, texts[i]);
        kernels[i] = describe_kernel(programs[i], "k");
    }
    storm st = {s, kernels, count};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_kernels, &st), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < count; i++) {
        kiln_kernel_desc_release(&kernels[i]);
        kiln_program_desc_release(&programs[i]);
    }
}

static void seed_001_threads_insert_and_evict_together(void **state)
{
    program_scene *s = *state;
    s->params.max_bytes = 20005;
    s->params.policy = KILN_POLICY_LRU;
    use_together(s, 3);
    assert_int_equal(program_stats(s).entries, 2);
    assert_in_range(kernel_stats(s).entries, 0, 2);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 2);
}

static void seed_001_threads_use_a_map_that_holds_nothing(void **state)
{
    program_scene *s = *state;
    s->params.max_bytes = 100;
    use_together(s, 1);
    assert_int_equal(program_stats(s).entries, 0);
    assert_int_equal(kernel_stats(s).entries, 0);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
}

/* Together with a program, only its own kernels are removed from the map. If kernels of all
 * programs are held, the least recently used program is evicted. */
static void seed_001_an_evicted_program_takes_its_kernels_along(void **state)
{
    program_scene *s = *state;
    s->params.max_programs = 2;
    s->params.policy = KILN_POLICY_LRU;
    program_scene_open(s);
    kiln_program_desc *a = describe_image(s, "a"), *b = describe_image(s, "b"),
                      *c = describe_image(s, "c");
    kiln_kernel_desc *a_one = describe_kernel(a, "one"), *a_two = describe_kernel(a, "two"),
                     *b_one = describe_kernel(b, "one");
    kiln_kernel *held = NULL, *other = NULL;
    assert_int_equal(kiln_kernel_get(a_one, &held, NULL), KILN_OK);
    touch_kernel(a_two);
    assert_int_equal(kiln_kernel_get(b_one, &other, NULL), KILN_OK);
    touch(c, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel_release(&other);
    assert_int_equal(kernel_stats(s).entries, 1);
    /* Held kernels still work. */
    assert_string_equal(kiln_kernel_handle(held), "one");
    assert_non_null(kiln_kernel_program_handle(held));
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 3);
    kiln_kernel_release(&held);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 2);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 1);
    touch(b, KILN_PROGRAM_FROM_MEMORY);
    touch(a, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel_desc_release(&a_one);
    kiln_kernel_desc_release(&a_two);
    kiln_kernel_desc_release(&b_one);
    kiln_program_desc_release(&a);
    kiln_program_desc_release(&b);
    kiln_program_desc_release(&c);
}

static void seed_001_programs_outside_the_maps_are_not_held(void **state)
{
    program_scene *s = *state;
    open_with(s, 7, 1);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_kernel_desc *kernel = describe_kernel(desc, "k");
    for (int i = 1; i <= 3; i++) {
        touch_kernel(kernel);
        assert_int_equal(builds(s), i);
        assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
        assert_int_equal(atomic_load(&s->devices[0].live_kernels), 0);
    }
    assert_int_equal(caching_of(desc).memory, KILN_UNCACHED_OFF);
    kiln_kernel_desc_release(&kernel);
    kiln_program_desc_release(&desc);
}

static void seed_001_image_sizes_bound_what_is_on_disk(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    static const struct {
        const char *text;
        bool is_kept;
    } images[] = {{"small", false}, {"middle", true}, {"middlesize", false}};
    for (int start = 0; start < 2; start++) {
        open_with(s, 5, 2);
        for (size_t i = 0; i < 3; i++) {
            kiln_program_desc *desc = describe_image(s, images[i].text);
            assert_int_equal(caching_of(desc).store,
                             images[i].is_kept ? KILN_UNCACHED_NOT : KILN_UNCACHED_SIZE);
            touch(desc, start == 1 && images[i].is_kept ? KILN_PROGRAM_FROM_STORE
                                                        : KILN_PROGRAM_FROM_BUILD);
            touch(desc, KILN_PROGRAM_FROM_MEMORY);
            kiln_program_desc_release(&desc);
        }
        kiln_program_context_free(&s->context);
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

/* ---- cases of the shipped caches' tests: out of resources ---- */

static void check_out_of_room(program_scene *s, kiln_status status, scripted_call *call,
                              const kiln_program_desc *wanted, const kiln_kernel_desc *kernel)
{
    s->devices[0].bytes = 1000;
    kiln_program_desc *before = describe_image(s, "before"), *kept = describe_image(s, "held");
    kiln_kernel_desc *of_before = describe_kernel(before, "k");
    touch_kernel(of_before);
    kiln_program *held = get_from(kept, KILN_PROGRAM_FROM_BUILD);
    script(call, 1, status);
    /* Programs in memory need nothing from the device, even while it has no resources. */
    touch_kernel(of_before);
    assert_int_equal(atomic_load(&call->count), 0);
    if (kernel) {
        touch_kernel(kernel);
    } else {
        touch(wanted, KILN_PROGRAM_FROM_BUILD);
    }
    /* The call is repeated once, after everything that was not held is evicted. */
    assert_true(atomic_load(&call->count) >= 2);
    kiln_kernel_desc *none = describe_kernel(before, "k");
    const int made = atomic_load(&s->devices[0].kernel.count);
    touch(kept, KILN_PROGRAM_FROM_MEMORY);
    touch(before, KILN_PROGRAM_FROM_BUILD);
    touch_kernel(none);
    assert_int_equal(atomic_load(&s->devices[0].kernel.count), made + 1);
    assert_int_equal(program_stats(s).bytes, program_stats(s).entries * 1000);
    kiln_program_release(&held);

    /* If the repeated call fails too, there were two calls. */
    kiln_program_context_clear(s->context);
    script(call, SCRIPTED_ALWAYS, status);
    kiln_program *program = NULL;
    kiln_kernel *unmade = NULL;
    assert_int_equal(kernel ? kiln_kernel_get(kernel, &unmade, NULL)
                            : kiln_program_get(wanted, &program, NULL, NULL),
                     status);
    assert_int_equal(atomic_load(&call->count), 2);
    script(call, 0, KILN_OK);
    kiln_kernel_desc_release(&none);
    kiln_kernel_desc_release(&of_before);
    kiln_program_desc_release(&before);
    kiln_program_desc_release(&kept);
}

static const kiln_status kinds[] = {KILN_E_RESOURCES, KILN_E_NO_MEMORY};

/* A held program stays, and its kernels that only the map holds are evicted. */
static void seed_001_out_of_resources_evicts_kernels_of_held_programs(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *kept = describe_image(s, "held"), *wanted = describe_image(s, "wanted");
    kiln_kernel_desc *of_kept = describe_kernel(kept, "k");
    kiln_program *held = get_from(kept, KILN_PROGRAM_FROM_BUILD);
    touch_kernel(of_kept);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 1);
    script(&s->devices[0].build, 1, KILN_E_RESOURCES);
    touch(wanted, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 0);
    touch(kept, KILN_PROGRAM_FROM_MEMORY);
    kiln_program_release(&held);
    kiln_kernel_desc_release(&of_kept);
    kiln_program_desc_release(&kept);
    kiln_program_desc_release(&wanted);
}

static void seed_001_out_of_resources_evicts_and_builds_again(void **state)
{
    program_scene *s = *state;
    for (size_t i = 0; i < 2; i++) {
        program_scene_open(s);
        kiln_program_desc *desc = describe_image(s, "wanted");
        check_out_of_room(s, kinds[i], &s->devices[0].build, desc, NULL);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
}

static void seed_001_out_of_resources_evicts_and_links_again(void **state)
{
    program_scene *s = *state;
    for (size_t i = 0; i < 4; i++) {
        program_scene_open(s);
        kiln_program_desc *desc = describe_link(s, NULL);
        check_out_of_room(s, kinds[i % 2], i < 2 ? &s->devices[0].compile : &s->devices[0].link,
                          desc, NULL);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
}

static void seed_001_out_of_resources_evicts_and_makes_the_kernel_again(void **state)
{
    program_scene *s = *state;
    for (size_t i = 0; i < 2; i++) {
        program_scene_open(s);
        kiln_program_desc *desc = describe_image(s, "wanted");
        kiln_kernel_desc *kernel = describe_kernel(desc, "k");
        check_out_of_room(s, kinds[i], &s->devices[0].kernel, NULL, kernel);
        kiln_kernel_desc_release(&kernel);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
}

static void seed_001_out_of_resources_evicts_and_loads_again(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    for (int start = 0; start < 2; start++) {
        assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
        program_scene_open(s);
        kiln_program_desc *desc = describe_image(s, "image"), *other = describe_image(s, "other");
        if (start == 0) {
            touch(desc, KILN_PROGRAM_FROM_BUILD);
        } else {
            touch(other, KILN_PROGRAM_FROM_BUILD);
            script(&s->devices[0].load, 1, KILN_E_RESOURCES);
            touch(desc, KILN_PROGRAM_FROM_STORE);
            assert_int_equal(atomic_load(&s->devices[0].load.count), 2);
            assert_int_equal(program_stats(s).entries, 1);
        }
        kiln_program_desc_release(&desc);
        kiln_program_desc_release(&other);
        kiln_program_context_free(&s->context);
        kiln_store_close(&s->params.store);
    }
    scratch_remove(directory);
}

/* ---- cases of the shipped caches' tests: several devices, and unloaded images ---- */

/* Devices that are not interchangeable have separate programs, in whatever order they are used, and
 * kernels are released as often as they were made. */
static void seed_001_several_devices_in_any_order(void **state)
{
    program_scene *s = *state;
    static const size_t orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}};
    for (size_t order = 0; order < 3; order++) {
        s->params.device_count = 3;
        program_scene_open(s);
        static const char *const texts[] = {"a", "b"};
        for (size_t i = 0; i < 6; i++) {
            kiln_program_desc_params params = image_of(texts[i / 3]);
            params.device = orders[order][i % 3];
            kiln_program_desc *desc = describe(s, &params);
            kiln_kernel_desc *kernel = describe_kernel(desc, "k");
            touch_kernel(kernel);
            touch_kernel(kernel);
            kiln_kernel_desc_release(&kernel);
            kiln_program_desc_release(&desc);
        }
        assert_int_equal(program_stats(s).entries, 6);
        assert_int_equal(kernel_stats(s).entries, 6);
        assert_true(program_scene_close(s));
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(atomic_load(&s->devices[i].kernel.count), 2 * (order + 1));
        }
    }
}

/* Interchangeable devices share a program, whichever device asks for it first; each device has its
 * own kernels. */
static void seed_001_interchangeable_devices_in_any_order(void **state)
{
    program_scene *s = *state;
    static const size_t orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}};
    s->params.device_count = 3;
    for (size_t i = 0; i < 3; i++) {
        s->devices[i].kind = 5;
    }
    for (size_t order = 0; order < 4; order++) {
        program_scene_open(s);
        static const char *const texts[] = {"a", "b"};
        for (size_t i = 0; i < 6; i++) {
            kiln_program_desc_params params = image_of(texts[i / 3]);
            params.device = orders[order][i % 3];
            kiln_program_desc *desc = describe(s, &params);
            touch(desc, i % 3 == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_MEMORY);
            kiln_kernel_desc *kernel = describe_kernel(desc, "k");
            touch_kernel(kernel);
            kiln_kernel_desc_release(&kernel);
            kiln_program_desc_release(&desc);
        }
        assert_int_equal(program_stats(s).entries, 2);
        assert_int_equal(kernel_stats(s).entries, 6);
        assert_true(program_scene_close(s));
    }
}

/* The key of a program does not contain the set of devices, so any number of sets is possible. */
static void seed_001_many_devices_have_a_program_each_or_one(void **state)
{
    enum { MANY = 40 };
    program_scene *s = *state;
    scripted_device *many = test_calloc(MANY, sizeof *many);
    void *handles[MANY];
    s->params.devices = handles;
    s->params.device_count = MANY;
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < MANY; i++) {
            handles[i] = &many[i];
            many[i].kind = kind;
        }
        program_scene_open(s);
        for (size_t i = 0; i < MANY; i++) {
            kiln_program_desc_params params = image_of("image");
            params.device = i;
            kiln_program_desc *desc = describe(s, &params);
            touch(desc, kind == 0 || i == 0 ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_MEMORY);
            kiln_program_desc_release(&desc);
        }
        assert_int_equal(program_stats(s).entries, kind == 0 ? MANY : 1);
        kiln_program_context_free(&s->context);
    }
    test_free(many);
}

/* Equal devices of one context have separate programs, and one entry on disk. */
static void seed_001_some_of_several_devices_after_a_restart(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    s->params.device_count = 3;
    s->devices[0].text = s->devices[2].text = "one kind";
    s->devices[1].text = "another";
    for (int start = 0; start < 2; start++) {
        assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
        program_scene_open(s);
        for (size_t device = 0; device < 3; device += 2) {
            kiln_program_desc_params params = image_of("image");
            params.device = device;
            kiln_program_desc *desc = describe(s, &params);
            const bool is_built = start == 0 && device == 0;
            assert_int_equal(kiln_program_context_drain(s->context, DRAIN_NS), KILN_OK);
            touch(desc, is_built ? KILN_PROGRAM_FROM_BUILD : KILN_PROGRAM_FROM_STORE);
            touch(desc, KILN_PROGRAM_FROM_MEMORY);
            assert_int_equal(kiln_program_context_drain(s->context, DRAIN_NS), KILN_OK);
            kiln_program_desc_release(&desc);
        }
        assert_int_equal(program_stats(s).entries, 2);
        kiln_program_context_free(&s->context);
        kiln_store_close(&s->params.store);
    }
    scratch_remove(directory);
}

static void seed_001_an_image_that_is_unloaded_takes_all_along(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc_params a = image_of("a"), b = image_of("b");
    a.image = 1;
    b.image = 2;
    kiln_program_desc *of_a = describe(s, &a), *of_b = describe(s, &b);
    a.options.compile = "-g";
    kiln_program_desc *more_of_a = describe(s, &a);
    kiln_kernel_desc *kernels[] = {describe_kernel(of_a, "k"), describe_kernel(more_of_a, "k"),
                                   describe_kernel(of_b, "k")};
    for (size_t i = 0; i < 3; i++) {
        touch_kernel(kernels[i]);
    }
    assert_int_equal(kiln_program_context_remove_image(s->context, 0), 0);
    assert_int_equal(kiln_program_context_remove_image(s->context, 1), 2);
    assert_int_equal(program_stats(s).entries, 1);
    assert_int_equal(kernel_stats(s).entries, 1);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 1);
    touch(of_b, KILN_PROGRAM_FROM_MEMORY);
    touch(of_a, KILN_PROGRAM_FROM_BUILD);
    for (size_t i = 0; i < 3; i++) {
        kiln_kernel_desc_release(&kernels[i]);
    }
    kiln_program_desc_release(&of_a);
    kiln_program_desc_release(&more_of_a);
    kiln_program_desc_release(&of_b);
}

/* ---- cases of the shipped caches' tests: capacity in entries, as in the primitive cache ---- */

static uint64_t capacity_of(const program_scene *s)
{
    uint64_t entries = 0;
    assert_int_equal(kiln_program_context_get_capacity(s->context, NULL, &entries), KILN_OK);
    return entries;
}

static void set_capacity(const program_scene *s, uint64_t entries)
{
    assert_int_equal(kiln_program_context_set_capacity(s->context, KILN_UNLIMITED, entries),
                     KILN_OK);
}

static void fill(const program_scene *s, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        char text[32];
        snprintf(text, sizeof text, "image %d", i);
        kiln_program_desc *desc = describe_image(s, text);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
    }
}

static void seed_000_capacity_is_1024_entries_by_default(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    assert_int_equal(capacity_of(s), 1024);
    assert_int_equal(program_stats(s).entries, 0);
    set_capacity(s, 18);
    assert_int_equal(capacity_of(s), 18);
    assert_int_equal(kiln_program_context_set_capacity(NULL, 1, 1), KILN_E_INVALID);
    assert_int_equal(kiln_program_context_get_capacity(NULL, NULL, NULL), KILN_E_INVALID);
}

static void seed_000_capacity_is_kept(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    set_capacity(s, 22);
    fill(s, 0, 30);
    assert_int_equal(program_stats(s).entries, 22);
    kiln_program_context_free(&s->context);
    program_scene_open(s);
    set_capacity(s, 15);
    fill(s, 0, 12);
    set_capacity(s, 13);
    assert_int_equal(program_stats(s).entries, 12);
    set_capacity(s, 10);
    assert_int_equal(program_stats(s).entries, 10);
}

/* Even if as many programs are evicted as remain, the programs that were used last remain. */
static void seed_000_shrinking_evicts_the_excess_alone(void **state)
{
    program_scene *s = *state;
    s->params.policy = KILN_POLICY_LRU;
    program_scene_open(s);
    set_capacity(s, 20);
    fill(s, 0, 20);
    set_capacity(s, 10);
    assert_int_equal(program_stats(s).entries, 10);
    assert_int_equal(builds(s), 20);
    fill(s, 10, 10);
    assert_int_equal(builds(s), 20);
    fill(s, 0, 1);
    assert_int_equal(builds(s), 21);
}

static void seed_000_capacity_zero_empties_and_disables(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    set_capacity(s, 8);
    fill(s, 0, 8);
    assert_int_equal(program_stats(s).entries, 8);
    set_capacity(s, 0);
    assert_int_equal(capacity_of(s), 0);
    assert_int_equal(program_stats(s).entries, 0);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    fill(s, 0, 2);
    fill(s, 0, 2);
    assert_int_equal(builds(s), 12);
    assert_int_equal(program_stats(s).entries, 0);
    set_capacity(s, 8);
    fill(s, 0, 2);
    fill(s, 0, 2);
    assert_int_equal(builds(s), 14);
}

static void seed_000_capacity_counts_bytes_too(void **state)
{
    program_scene *s = *state;
    s->devices[0].bytes = 1000;
    program_scene_open(s);
    fill(s, 0, 10);
    assert_int_equal(program_stats(s).bytes, 10000);
    assert_int_equal(kiln_program_context_set_capacity(s->context, 4500, KILN_UNLIMITED), KILN_OK);
    assert_int_equal(program_stats(s).entries, 4);
    uint64_t bytes = 0;
    assert_int_equal(kiln_program_context_get_capacity(s->context, &bytes, NULL), KILN_OK);
    assert_int_equal(bytes, 4500);
    fill(s, 20, 1);
    assert_int_equal(program_stats(s).entries, 4);
}

static const char *look_up_capacity(void *user, const char *name)
{
    const char *const *set = user;
    return strcmp(set[0], name) == 0 ? set[1] : NULL;
}

static void seed_000_capacity_by_the_environment(void **state)
{
    program_scene *s = *state;
    static const struct {
        const char *set[2];
        uint64_t capacity;
    } cases[] = {
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "11"}, 11},
        {{"DNNL_PRIMITIVE_CACHE_CAPACITY", "10"}, 10},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"}, 0},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "abc"}, 1024},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "-5"}, 1024},
        {{"UNRELATED", "7"}, 1024},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_config *config = NULL;
        const char *set[] = {cases[i].set[0], cases[i].set[1]};
        assert_int_equal(
            kiln_config_from_profile(KILN_PROFILE_ONEDNN, look_up_capacity, set, &config), KILN_OK);
        assert_int_equal(kiln_config_get_programs(config, &s->params), KILN_OK);
        kiln_config_free(&config);
        program_scene_open(s);
        assert_int_equal(capacity_of(s), cases[i].capacity);
        /* The call takes precedence over the variable. */
        set_capacity(s, 8);
        assert_int_equal(capacity_of(s), 8);
        kiln_program_context_free(&s->context);
    }
}

static void seed_000_contexts_of_one_device_share_nothing_in_memory(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    fill(s, 0, 1);
    program_scene other = *s;
    program_scene_open(&other);
    fill(&other, 0, 1);
    assert_int_equal(builds(s), 2);
    kiln_program_context_free(&other.context);
}

static void *fill_twelve(void *user)
{
    fill(user, 0, 12);
    return NULL;
}

static void seed_000_threads_fill_and_hit(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fill_twelve, s), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(program_stats(s).entries, 12);
    assert_int_equal(builds(s), 12);
}

typedef struct nest {
    kiln_program_desc *outer[4], *inner[3];
    atomic_int failures;
} nest;

static _Thread_local bool is_inside;

static void get_all(nest *n, kiln_program_desc *const *descs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_program *program = NULL;
        atomic_fetch_add(&n->failures, kiln_program_get(descs[i], &program, NULL, NULL) != KILN_OK);
        kiln_program_release(&program);
    }
}

/* Gets three programs inside a build. Other builds need the same programs. */
static void get_inner_ones(void *user)
{
    if (!is_inside) {
        is_inside = true;
        get_all(user, ((nest *)user)->inner, 3);
        is_inside = false;
    }
}

static void *get_outer_ones(void *user)
{
    get_all(user, ((nest *)user)->outer, 4);
    return NULL;
}

static void seed_000_threads_build_what_is_nested(void **state)
{
    program_scene *s = *state;
    static const char *const texts[] = {"a", "b", "c", "d", "1", "2", "3"};
    nest n = {.failures = 0};
    program_scene_open(s);
    for (size_t i = 0; i < 7; i++) {
        *(i < 4 ? &n.outer[i] : &n.inner[i - 4]) = describe_image(s, texts[i]);
    }
    s->devices[0].while_building = get_inner_ones;
    s->devices[0].user = &n;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, get_outer_ones, &n), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&n.failures), 0);
    assert_int_equal(builds(s), 7);
    assert_int_equal(program_stats(s).entries, 7);
    for (size_t i = 0; i < 7; i++) {
        kiln_program_desc_release(i < 4 ? &n.outer[i] : &n.inner[i - 4]);
    }
}

/* A program stays valid for threads that hold it while the capacity changes. */
static void seed_000_eviction_spares_held_programs(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    set_capacity(s, 0);
    assert_true(value_of(program) == expected_value("image", ""));
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_OK);
    kiln_kernel_release(&kernel);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(seed_001_one_kernel_in_a_loop),
        TEST(seed_001_many_kernels_of_one_program),
        TEST(seed_001_programs_are_found_after_a_restart),
        TEST(seed_001_contents_decide_after_a_restart),
        TEST(seed_000_a_revision_of_the_library_has_separate_entries),
        TEST(seed_001_each_component_is_a_level_of_folders),
        TEST(seed_000_memory_and_disk_do_not_need_each_other),
        TEST(seed_001_four_parts_distinguish_programs),
        TEST(seed_001_spec_constants_have_no_order),
        TEST(seed_001_program_and_name_distinguish_kernels),
        TEST(seed_001_each_context_has_its_own),
        TEST(seed_001_options_come_from_image_environment_and_caller),
        TEST(seed_001_options_of_each_source_are_in_the_key),
        TEST(seed_001_options_of_compiler_and_linker_stay_apart),
        TEST(seed_001_programs_from_source_are_not_cached),
        TEST(seed_001_source_never_meets_an_image),
        TEST(seed_001_linked_programs_are_not_cached),
        TEST(seed_001_inputs_and_options_distinguish_links),
        TEST(seed_001_the_users_own_programs_are_not_cached),
        TEST(seed_001_other_rules_keep_source_and_links),
        TEST(seed_001_a_kernel_is_cached_if_its_program_is),
        TEST(seed_001_it_can_be_asked_why_something_is_not_cached),
        TEST(seed_001_threads_build_once_and_share),
        TEST(seed_001_waiters_get_the_builders_failure),
        TEST(seed_001_after_a_transient_failure_a_waiter_builds),
        TEST(seed_001_other_programs_go_on_while_one_builds),
        TEST(seed_001_a_failed_build_is_reported_again_unchanged),
        TEST(seed_001_a_failed_build_is_tried_again_after_a_restart),
        TEST(seed_000_gap_a_flush_beside_a_build),
        TEST(seed_001_an_image_that_is_unloaded_beside_a_build),
        TEST(seed_004_least_recently_used_programs_are_evicted),
        TEST(seed_004_programs_with_build_options_are_cached),
        TEST(seed_004_interchangeable_devices_share_what_is_built),
        TEST(seed_004_devices_distinguish_kernels),
        TEST(seed_004_programs_of_kernels_that_are_peeked_at_stay),
        TEST(seed_001_kernels_that_are_peeked_at_are_not_held),
        TEST(seed_001_threads_insert_and_evict_together),
        TEST(seed_001_threads_use_a_map_that_holds_nothing),
        TEST(seed_001_an_evicted_program_takes_its_kernels_along),
        TEST(seed_001_programs_outside_the_maps_are_not_held),
        TEST(seed_001_image_sizes_bound_what_is_on_disk),
        TEST(seed_001_out_of_resources_evicts_kernels_of_held_programs),
        TEST(seed_001_out_of_resources_evicts_and_builds_again),
        TEST(seed_001_out_of_resources_evicts_and_links_again),
        TEST(seed_001_out_of_resources_evicts_and_makes_the_kernel_again),
        TEST(seed_001_out_of_resources_evicts_and_loads_again),
        TEST(seed_001_several_devices_in_any_order),
        TEST(seed_001_interchangeable_devices_in_any_order),
        TEST(seed_001_many_devices_have_a_program_each_or_one),
        TEST(seed_001_some_of_several_devices_after_a_restart),
        TEST(seed_001_an_image_that_is_unloaded_takes_all_along),
        TEST(seed_000_capacity_is_1024_entries_by_default),
        TEST(seed_000_capacity_is_kept),
        TEST(seed_000_shrinking_evicts_the_excess_alone),
        TEST(seed_000_capacity_zero_empties_and_disables),
        TEST(seed_000_capacity_counts_bytes_too),
        TEST(seed_000_capacity_by_the_environment),
        TEST(seed_000_contexts_of_one_device_share_nothing_in_memory),
        TEST(seed_000_threads_fill_and_hit),
        TEST(seed_000_threads_build_what_is_nested),
        TEST(seed_000_eviction_spares_held_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
