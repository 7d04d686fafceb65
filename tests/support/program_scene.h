/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts of programs over scripted devices.
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include <kiln/program.h>

#include "support/get_program.h"
#include "support/scripted_device.h"

/* Returns an image of this text. */
static inline kiln_program_desc_params image_of(const char *text)
{
    return (kiln_program_desc_params){.struct_size = sizeof(kiln_program_desc_params),
                                      .form = KILN_SOURCE_IL,
                                      .code = {text, strlen(text)}};
}

#define SCENE_DEVICES 3

/* Three devices, and the parameters of a context that uses the first or several of them. */
typedef struct program_scene {
    scripted_device devices[SCENE_DEVICES];
    void *handles[SCENE_DEVICES];
    kiln_program_context_params params;
    kiln_program_context *context;
} program_scene;

static inline void program_scene_init(program_scene *s)
{
    for (int i = 0; i < SCENE_DEVICES; i++) {
        s->handles[i] = &s->devices[i];
    }
    s->params = (kiln_program_context_params){.struct_size = sizeof s->params,
                                              .ops = &scripted_cheap_ops,
                                              .devices = s->handles,
                                              .device_count = 1};
}

static inline void program_scene_open(program_scene *s)
{
    assert_int_equal(kiln_program_context_new(&s->params, &s->context), KILN_OK);
}

/* Returns whether everything that the devices made was released, and no binary was loaded for the
 * wrong source. */
static inline bool program_scene_close(program_scene *s)
{
    kiln_program_context_free(&s->context);
    bool is_clean = true;
    for (int i = 0; i < SCENE_DEVICES; i++) {
        is_clean = is_clean && atomic_load(&s->devices[i].live_programs) == 0 &&
                   atomic_load(&s->devices[i].live_kernels) == 0 &&
                   atomic_load(&s->devices[i].wrong) == 0;
    }
    return is_clean;
}

/* Before each test: initializes a scene without opening it. */
static inline int program_scene_set_up(void **state)
{
    program_scene *s = test_calloc(1, sizeof *s);
    program_scene_init(s);
    *state = s;
    return 0;
}

static inline int program_scene_tear_down(void **state)
{
    program_scene *s = *state;
    const bool is_clean = program_scene_close(s);
    test_free(s);
    return is_clean ? 0 : -1;
}

static inline kiln_program_desc *describe(const program_scene *s,
                                          const kiln_program_desc_params *params)
{
    kiln_program_desc *desc = NULL;
    assert_int_equal(kiln_program_desc_new(s->context, params, &desc, NULL), KILN_OK);
    return desc;
}

static inline kiln_program_desc *describe_image(const program_scene *s, const char *text)
{
    const kiln_program_desc_params params = image_of(text);
    return describe(s, &params);
}

/* Gets a program, and checks where it came from. */
static inline kiln_program *get_from(const kiln_program_desc *desc, uint32_t from)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(kiln_program_get(desc, &program, &result, NULL), KILN_OK);
    assert_int_equal(result.from, from);
    return program;
}

/* Gets a program, checks where it came from, and releases it. */
static inline void touch(const kiln_program_desc *desc, uint32_t from)
{
    kiln_program *program = get_from(desc, from);
    kiln_program_release(&program);
}

/* Gets and releases a kernel. Returns its handle, which may only be compared. */
static inline void *touch_kernel(const kiln_kernel_desc *desc)
{
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_kernel_get(desc, &kernel, NULL), KILN_OK);
    void *handle = kiln_kernel_handle(kernel);
    assert_non_null(handle);
    kiln_kernel_release(&kernel);
    return handle;
}

static inline kiln_kernel_desc *describe_kernel(const kiln_program_desc *program, const char *name)
{
    kiln_kernel_desc *desc = NULL;
    assert_int_equal(kiln_kernel_desc_new(program, name, &desc), KILN_OK);
    return desc;
}

static inline kiln_cache_stats program_stats(const program_scene *s)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_program_context_get_program_stats(s->context, &stats), KILN_OK);
    return stats;
}

static inline kiln_cache_stats kernel_stats(const program_scene *s)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_program_context_get_kernel_stats(s->context, &stats), KILN_OK);
    return stats;
}

static inline kiln_program_caching caching_of(const kiln_program_desc *desc)
{
    kiln_program_caching caching = {.struct_size = sizeof caching};
    assert_int_equal(kiln_program_desc_get_caching(desc, &caching), KILN_OK);
    return caching;
}
