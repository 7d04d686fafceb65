/* SPDX-License-Identifier: Apache-2.0
 *
 * faces_programs ROUNDS: measures what runtimes pay for a cached program and a cached kernel, and
 * compares it with the cache engine below.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/program.h>

#include "face.h"

enum { KEYS = 64, SEQUENCE = 4096, STRETCH = 200000, SOURCE_SIZE = 64 << 10 };

/* The same programs, both in a context and as objects of the engine, under the same keys. */
typedef struct scene {
    kiln_program_context *context;
    kiln_program_desc *programs[KEYS];
    kiln_kernel_desc *kernels[KEYS];
    kiln_program_desc *equal_programs[KEYS]; /* equal descriptions of the same programs */
    kiln_kernel_desc *equal_kernels[KEYS];
    kiln_cache *engine;
    unsigned char sequence[SEQUENCE]; /* the programs to request, in order */
    const kiln_key *keys[KEYS];       /* the keys of the programs */
    uint64_t objects[KEYS];
} scene;

/* ---- a device that builds nothing ---- */

static uint64_t made = 1;

static kiln_status identity(void *device, kiln_key_builder *key)
{
    (void)device;
    return kiln_key_builder_add_text(key, "device", "of a bench");
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    (void)device;
    (void)error;
    return kiln_key_builder_add(key, "source", source->code.data, source->code.size);
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    (void)device;
    (void)source;
    (void)ret_log;
    *ret_program = &made;
    return KILN_OK;
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    (void)device;
    (void)program;
    (void)ret_capture;
    return KILN_E_UNSUPPORTED;
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    (void)device;
    (void)source;
    (void)entry;
    (void)ret_program;
    return KILN_E_REFUSED;
}

static kiln_status kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    (void)device;
    (void)program;
    (void)name;
    *ret_kernel = &made;
    return KILN_OK;
}

static void release(void *device, void *handle)
{
    (void)device;
    (void)handle;
}

static const kiln_device_ops ops = {.struct_size = sizeof ops,
                                    .name = "bench",
                                    .capture_cost = KILN_CAPTURE_NEVER,
                                    .identity = identity,
                                    .describe = describe,
                                    .build = build,
                                    .capture = capture,
                                    .load = load,
                                    .kernel = kernel,
                                    .release_program = release,
                                    .release_kernel = release};

/* ---- set-up ---- */

static void describe_one(scene *s, size_t i, const char *source, kiln_program_desc **ret_program,
                         kiln_kernel_desc **ret_kernel)
{
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .form = KILN_SOURCE_TEXT, .code = {source, SOURCE_SIZE}};
    char name[32];
    snprintf(name, sizeof name, "a_kernel_of_some_program_%zu", i);
    require(kiln_program_desc_new(s->context, &params, ret_program, NULL) == KILN_OK &&
                kiln_kernel_desc_new(*ret_program, name, ret_kernel) == KILN_OK,
            "describing");
    kiln_kernel *first = NULL;
    require(kiln_kernel_get(*ret_kernel, &first, NULL) == KILN_OK, "making a kernel");
    kiln_kernel_release(&first);
}

static void put_object(scene *s, size_t i)
{
    kiln_reservation answer;
    s->objects[i] = i;
    s->keys[i] = kiln_program_desc_key(s->programs[i]);
    require(kiln_cache_reserve(s->engine, s->keys[i], NULL, &answer, NULL) == KILN_OK &&
                kiln_ticket_fulfil(&answer.ticket, &s->objects[i], SOURCE_SIZE, 1, NULL) == KILN_OK,
            "putting an object in");
}

static void scene_begin(scene *s)
{
    void *devices[] = {s};
    const kiln_program_context_params params = {
        .struct_size = sizeof params, .ops = &ops, .devices = devices, .device_count = 1};
    const kiln_cache_params engine = {.struct_size = sizeof engine};
    char *source = malloc(SOURCE_SIZE);
    require(source && kiln_program_context_new(&params, &s->context) == KILN_OK &&
                kiln_cache_new(&engine, &s->engine) == KILN_OK,
            "making caches");
    memset(source, 'x', SOURCE_SIZE);
    for (size_t i = 0; i < KEYS; i++) {
        memcpy(source + SOURCE_SIZE - sizeof i, &i, sizeof i);
        describe_one(s, i, source, &s->programs[i], &s->kernels[i]);
        describe_one(s, i, source, &s->equal_programs[i], &s->equal_kernels[i]);
        put_object(s, i);
    }
    free(source);
    uint32_t random = 1;
    for (size_t i = 0; i < SEQUENCE; i++) {
        random = random * 1664525u + 1013904223u;
        s->sequence[i] = (unsigned char)((random >> 24) % KEYS);
    }
}

static void scene_end(scene *s)
{
    for (size_t i = 0; i < KEYS; i++) {
        kiln_kernel_desc_release(&s->kernels[i]);
        kiln_program_desc_release(&s->programs[i]);
        kiln_kernel_desc_release(&s->equal_kernels[i]);
        kiln_program_desc_release(&s->equal_programs[i]);
    }
    kiln_program_context_free(&s->context);
    kiln_cache_free(&s->engine);
}

/* ---- requests ---- */

static uint64_t get_kernels(const scene *s, kiln_kernel_desc *const *kernels, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_kernel *found;
        require(kiln_kernel_get(kernels[s->sequence[i % SEQUENCE]], &found, NULL) == KILN_OK,
                "a kernel");
        sum += *(const uint64_t *)kiln_kernel_handle(found);
        kiln_kernel_release(&found);
    }
    return sum;
}

static uint64_t run_kernel(void *user, size_t count)
{
    const scene *s = user;
    return get_kernels(s, s->kernels, count);
}

static uint64_t run_equal_kernel(void *user, size_t count)
{
    const scene *s = user;
    return get_kernels(s, s->equal_kernels, count);
}

static uint64_t run_kernel_peek(void *user, size_t count)
{
    const scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_section section;
        kiln_kernel_section_enter(s->context, &section);
        sum += *(const uint64_t *)kiln_kernel_peek(&section, s->kernels[s->sequence[i % SEQUENCE]]);
        kiln_section_leave(&section);
    }
    return sum;
}

static uint64_t run_peek(void *user, size_t count)
{
    const scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_section section;
        kiln_section_enter(s->engine, &section);
        sum += *(const uint64_t *)kiln_cache_peek(&section, s->keys[s->sequence[i % SEQUENCE]]);
        kiln_section_leave(&section);
    }
    return sum;
}

static uint64_t get_programs(const scene *s, kiln_program_desc *const *programs, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_program *program;
        require(kiln_program_get(programs[s->sequence[i % SEQUENCE]], &program, NULL, NULL) ==
                    KILN_OK,
                "a program");
        sum += *(const uint64_t *)kiln_program_handle(program);
        kiln_program_release(&program);
    }
    return sum;
}

static uint64_t run_program(void *user, size_t count)
{
    const scene *s = user;
    return get_programs(s, s->programs, count);
}

static uint64_t run_equal_program(void *user, size_t count)
{
    const scene *s = user;
    return get_programs(s, s->equal_programs, count);
}

static uint64_t run_pin(void *user, size_t count)
{
    const scene *s = user;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_pin *pin;
        require(kiln_cache_pin(s->engine, s->keys[s->sequence[i % SEQUENCE]], &pin) == KILN_OK,
                "a pin");
        sum += *(const uint64_t *)kiln_pin_object(pin);
        kiln_pin_release(&pin);
    }
    return sum;
}

int main(int argc, char **argv)
{
    static scene s;
    scene_begin(&s);
    const face faces[] = {
        {"kernel", run_kernel, &s, STRETCH},
        {"kernel peek", run_kernel_peek, &s, STRETCH},
        {"peek", run_peek, &s, STRETCH},
        {"program", run_program, &s, STRETCH},
        {"pin", run_pin, &s, STRETCH},
        {"equal kernel", run_equal_kernel, &s, STRETCH},
        {"equal program", run_equal_program, &s, STRETCH},
    };
    measure_faces(faces, sizeof faces / sizeof faces[0], argc > 1 ? atoi(argv[1]) : 5);
    scene_end(&s);
    return 0;
}
