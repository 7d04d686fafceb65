/* SPDX-License-Identifier: Apache-2.0
 *
 *     context [DIRECTORY]
 *
 * A runtime that lets Kiln manage its programs: it gives Kiln functions that build and load a
 * program, and Kiln keeps both levels of cache. docs/guide.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/program.h>

#include "runtime.h"

/* ---- the device ops ---- */

static kiln_status identity(void *device, kiln_key_builder *key)
{
    (void)device;
    return kiln_key_builder_add_text(key, "runtime", runtime_version());
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    (void)device, (void)error;
    return kiln_key_builder_add(key, "source", source->code.data, source->code.size);
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    (void)device;
    char *text = calloc(1, source->code.size + 1); /* code has no terminating zero */
    if (!text) {
        return KILN_E_NO_MEMORY;
    }
    *ret_program = runtime_compile(memcpy(text, source->code.data, source->code.size));
    free(text);
    *ret_log = *ret_program ? NULL : strdup("expected numbers with spaces between");
    return *ret_program ? KILN_OK : KILN_E_BUILD;
}

static kiln_status capture(void *device, void *made, kiln_capture *ret_capture)
{
    (void)device;
    const size_t size = program_size(made);
    void *copy = malloc(size);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    *ret_capture = (kiln_capture){
        .payload = memcpy(copy, program_binary(made), size),
        .payload_size = size,
    };
    return KILN_OK;
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    (void)device, (void)source;
    const kiln_bytes binary = kiln_entry_payload(entry);
    *ret_program = program_load(binary.data, binary.size);
    return *ret_program ? KILN_OK : KILN_E_REFUSED;
}

/* A program has one kernel, which is the polynomial itself. */
static kiln_status kernel(void *device, void *made, const char *name, void **ret_kernel)
{
    (void)device, (void)name;
    *ret_kernel = made;
    return KILN_OK;
}

static void release_program(void *device, void *made)
{
    (void)device;
    program_release(made);
}

static void release_kernel(void *device, void *made)
{
    (void)device, (void)made;
}

static const kiln_device_ops ops = {
    .struct_size = sizeof ops,
    .name = "polynomials",
    .capture_cost = KILN_CAPTURE_CHEAP,
    .identity = identity,
    .describe = describe,
    .build = build,
    .capture = capture,
    .load = load,
    .kernel = kernel,
    .release_program = release_program,
    .release_kernel = release_kernel,
};

/* ---- the runtime's user ---- */

static void compute(kiln_program_context *context, const char *source, double x)
{
    const kiln_program_desc_params params = {
        .struct_size = sizeof params,
        .form = KILN_SOURCE_TEXT,
        .code = {source, strlen(source)},
        .name = source,
    };
    kiln_program_desc *desc = NULL;
    kiln_program *found = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_program_desc_new(context, &params, &desc, &error) == KILN_OK &&
        kiln_program_get(desc, &found, NULL, &error) == KILN_OK) {
        printf("%s at %g is %g\n", source, x, program_run(kiln_program_handle(found), x));
    } else {
        printf("%s: %s\n", source, error.text);
    }
    kiln_program_release(&found);
    kiln_program_desc_release(&desc);
}

int main(int count, char **arguments)
{
    const char *directory = count > 1 ? arguments[1] : "./guide_cache";
    void *device = NULL; /* there is only one, and it has no handle */
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *store = NULL;
    if (kiln_store_open(directory, NULL, &store, &error) != KILN_OK) {
        fprintf(stderr, "nothing is kept on disk: %s\n", error.text);
    }
    const kiln_program_context_params params = {
        .struct_size = sizeof params,
        .ops = &ops,
        .devices = &device,
        .device_count = 1,
        .store = store,
    };
    kiln_program_context *context = NULL;
    if (kiln_program_context_new(&params, &context) != KILN_OK) {
        return 1;
    }
    compute(context, "3 0 2", 10);
    compute(context, "3 0 2", 20);
    compute(context, "1 1", 5);
    compute(context, "1 one", 5);
    kiln_program_context_free(&context);
    kiln_store_close(&store);
    return 0;
}
