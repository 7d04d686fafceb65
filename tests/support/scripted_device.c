/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BINARY_SIZE 512u
#define BINARY_MARK "scripted"

void script(scripted_call *call, int failing, kiln_status failure)
{
    call->failing = failing;
    call->failure = failure;
    atomic_store(&call->count, 0);
}

static kiln_status answer(scripted_call *call)
{
    return atomic_fetch_add(&call->count, 1) < call->failing ? call->failure : KILN_OK;
}

/* Returns the FNV-1a hash with its lowest bit set, so that it is never 0. */
uint64_t scripted_value(uint64_t sum, const void *bytes, size_t size)
{
    uint64_t value = sum ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        value = (value ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
    return value | 1;
}

/* posix_memalign, because failing_malloc.h does not wrap it. */
static void *allocate(size_t size)
{
    void *made;
    if (posix_memalign(&made, 16, size) != 0) {
        abort();
    }
    return made;
}

static scripted_program *new_program(scripted_device *device, uint64_t value)
{
    scripted_program *program = allocate(sizeof *program);
    program->value = value;
    atomic_fetch_add(&device->live_programs, 1);
    return program;
}

kiln_status scripted_build(scripted_device *device, uint64_t value, scripted_program **ret_program)
{
    const kiln_status status = answer(&device->build);
    if (device->while_building) {
        device->while_building(device->user);
    }
    if (status == KILN_OK) {
        *ret_program = new_program(device, value);
    }
    return status;
}

kiln_status scripted_capture(scripted_device *device, uint64_t value, kiln_capture *ret_capture)
{
    const kiln_status status = answer(&device->capture);
    if (status != KILN_OK) {
        return status;
    }
    if (device->captures_nothing) {
        *ret_capture = (kiln_capture){0};
        return KILN_OK;
    }
    unsigned char *binary = allocate(BINARY_SIZE);
    memset(binary, 0xa5, BINARY_SIZE);
    memcpy(binary, BINARY_MARK, sizeof BINARY_MARK - 1);
    memcpy(binary + sizeof BINARY_MARK - 1, &value, sizeof value);
    *ret_capture = (kiln_capture){.payload = binary, .payload_size = BINARY_SIZE};
    return KILN_OK;
}

uint64_t scripted_read(kiln_bytes binary)
{
    const unsigned char *bytes = binary.data;
    if (binary.size != BINARY_SIZE || memcmp(bytes, BINARY_MARK, sizeof BINARY_MARK - 1) != 0) {
        return 0;
    }
    uint64_t value;
    memcpy(&value, bytes + sizeof BINARY_MARK - 1, sizeof value);
    return value;
}

kiln_status scripted_load(scripted_device *device, uint64_t value, scripted_program **ret_program)
{
    const kiln_status status = answer(&device->load);
    if (status == KILN_OK) {
        *ret_program = new_program(device, value);
    }
    return status;
}

void scripted_release(scripted_device *device, scripted_program *program)
{
    atomic_fetch_sub(&device->live_programs, 1);
    free(program);
}

/* ---- the device ops ---- */

static bool is_text(const kiln_program_source *source, const char *text)
{
    return source->code.size == strlen(text) && memcmp(source->code.data, text, strlen(text)) == 0;
}

/* Returns what a source reads; 0: it reads nothing. */
static uint64_t revision_of(const scripted_device *device, const kiln_program_source *source)
{
    const bool reads = !device->reader || is_text(source, device->reader);
    return reads ? atomic_load(&device->revision) : 0;
}

static uint64_t value_of(const scripted_device *device, const kiln_program_source *source)
{
    const char *options = source->options ? source->options : "";
    const uint64_t read = revision_of(device, source);
    uint64_t value = scripted_value(0, source->code.data, source->code.size);
    for (size_t i = 0; i < source->constant_count; i++) {
        const kiln_spec_constant *constant = &source->constants[i];
        value = scripted_value(value, &constant->id, sizeof constant->id);
        value = scripted_value(value, constant->value.data, constant->value.size);
    }
    value = scripted_value(value, options, strlen(options));
    return read ? scripted_value(value, &read, sizeof read) : value;
}

static void note_options(scripted_device *device, const char *options)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    device->options[0] = '\0';
    if (options && strlen(options) < sizeof device->options) {
        strcpy(device->options, options);
    }
    pthread_mutex_unlock(&lock);
}

static kiln_status identity(void *device, kiln_key_builder *key)
{
    scripted_device *d = device;
    const kiln_status status = answer(&d->identity);
    return status == KILN_OK ? kiln_key_builder_add_text(key, "device", d->text ? d->text : "")
                             : status;
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    scripted_device *d = device;
    kiln_status status = answer(&d->describe);
    if (status != KILN_OK) {
        error->text[0] = '\0'; /* never NULL */
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(key, "options", source->options ? source->options : "");
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_add(key, "source", source->code.data, source->code.size);
    }
    const uint64_t included = atomic_load(&d->included);
    return status == KILN_OK && included ? kiln_key_builder_add_number(key, "included", included)
                                         : status;
}

static kiln_status revision(void *device, const kiln_program_source *source, uint64_t *ret_revision,
                            kiln_error *error)
{
    scripted_device *d = device;
    const kiln_status status = answer(&d->revise);
    if (status == KILN_OK) {
        *ret_revision = revision_of(d, source);
    } else {
        strcpy(error->text, SCRIPTED_NO_REVISION); /* never NULL */
    }
    return status;
}

static char *copy_text(const char *text)
{
    char *copy = allocate(strlen(text) + 1);
    strcpy(copy, text);
    return copy;
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    scripted_device *d = device;
    scripted_program *program = NULL;
    const kiln_status status = scripted_build(d, value_of(d, source), &program);
    if (status == KILN_OK) {
        *ret_program = program;
    } else if (d->build_text) {
        *ret_log = copy_text(d->build_text);
    }
    return status;
}

static kiln_status build_noting(void *device, const kiln_program_source *source, void **ret_program,
                                char **ret_log)
{
    note_options(device, source->options);
    return build(device, source, ret_program, ret_log);
}

static kiln_status compile(void *device, const kiln_program_source *source, void **ret_object,
                           char **ret_log)
{
    (void)ret_log;
    scripted_device *d = device;
    note_options(d, source->options);
    const kiln_status status = answer(&d->compile);
    if (status == KILN_OK) {
        *ret_object = new_program(d, value_of(d, source));
    }
    return status;
}

static kiln_status link_objects(void *device, void *const *objects, size_t count,
                                const char *options, void **ret_program, char **ret_log)
{
    (void)ret_log;
    scripted_device *d = device;
    note_options(d, options);
    const kiln_status status = answer(&d->link);
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        const scripted_program *object = objects[i];
        value = scripted_value(value, &object->value, sizeof object->value);
    }
    value = scripted_value(value, options ? options : "", options ? strlen(options) : 0);
    if (status == KILN_OK) {
        *ret_program = new_program(d, value);
    }
    return status;
}

static uint64_t program_bytes(void *device, void *program)
{
    (void)program;
    const scripted_device *d = device;
    return d->bytes;
}

static int interchangeable(void *device, void *other)
{
    const scripted_device *a = device, *b = other;
    return a == b || (a->kind && a->kind == b->kind);
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    const scripted_program *built = program;
    return scripted_capture(device, built->value, ret_capture);
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    scripted_device *d = device;
    const uint64_t value = scripted_read(kiln_entry_payload(entry));
    if (source->form != 0 && value != value_of(d, source)) {
        atomic_fetch_add(&d->wrong, 1);
    }
    scripted_program *program = NULL;
    const kiln_status status = scripted_load(d, value, &program);
    if (status == KILN_OK) {
        *ret_program = program;
    }
    return status;
}

/* The binary of a source that reads files is valid only if the build had read the same content. */
static kiln_status load_revised(void *device, const kiln_program_source *source,
                                const kiln_entry *entry, void **ret_program)
{
    scripted_device *d = device;
    const uint64_t value = scripted_read(kiln_entry_payload(entry));
    if (source->form != 0 && value != value_of(d, source)) {
        atomic_fetch_add(&d->load.count, 1);
        return KILN_MISS;
    }
    scripted_program *program = NULL;
    const kiln_status status = scripted_load(d, value, &program);
    if (status == KILN_OK) {
        *ret_program = program;
    }
    return status;
}

static kiln_status kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    (void)program;
    scripted_device *d = device;
    if (strcmp(name, SCRIPTED_NO_KERNEL) == 0) {
        return KILN_MISS;
    }
    const kiln_status status = answer(&d->kernel);
    if (status == KILN_OK) {
        atomic_fetch_add(&d->live_kernels, 1);
        *ret_kernel = copy_text(name);
    }
    return status;
}

static void release_program(void *device, void *program)
{
    scripted_release(device, program);
}

static void release_kernel(void *device, void *held_kernel)
{
    scripted_device *d = device;
    atomic_fetch_sub(&d->live_kernels, 1);
    free(held_kernel);
}

#define OPS(cost, loading, revising)                                                               \
    {                                                                                              \
        .struct_size = sizeof(kiln_device_ops), .name = "scripted", .capture_cost = (cost),        \
        .identity = identity, .describe = describe, .build = build_noting, .capture = capture,     \
        .load = loading, .kernel = kernel, .release_program = release_program,                     \
        .release_kernel = release_kernel, .interchangeable = interchangeable, .compile = compile,  \
        .link = link_objects, .program_bytes = program_bytes, .revision = revising,                \
    }

const kiln_device_ops scripted_cheap_ops = OPS(KILN_CAPTURE_CHEAP, load, NULL);
const kiln_device_ops scripted_expensive_ops = OPS(KILN_CAPTURE_EXPENSIVE, load, NULL);
const kiln_device_ops scripted_never_ops = OPS(KILN_CAPTURE_NEVER, load, NULL);
const kiln_device_ops scripted_revised_ops = OPS(KILN_CAPTURE_CHEAP, load_revised, revision);
