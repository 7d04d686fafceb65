/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/persistent.h"

/* What memory keeps: enough to release the program without its context. */
typedef struct live_program {
    const kiln_device_ops *ops;
    void *device;
    void *handle;
} live_program;

struct kilni_program_context {
    const kiln_device_ops *ops;
    void *device;
    kilni_request_context request;
    kiln_cache *memory;
    kiln_key *identity;     /* NULL: can't be told, so nothing is cached */
    uint32_t governed_kind; /* whose persistent cache is the context's store; 0: none */
    uint64_t min_stored_bytes, max_stored_bytes; /* of code */
};

struct kilni_program {
    kiln_pin *pin;         /* shared, or */
    live_program *private; /* this caller's alone */
};

/* One call of obtain: what its ops work on. */
typedef struct obtaining {
    kilni_program_context *context;
    const kiln_program_source *source;
    const kiln_key *key;
    live_program *program;
    uint64_t bytes;
} obtaining;

static void destroy_program(void *user, void *object)
{
    (void)user;
    live_program *program = object;
    if (program->handle) {
        program->ops->release_program(program->device, program->handle);
    }
    free(program);
}

static kiln_status identify(kilni_program_context *context)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = context->ops->identity(context->device, builder);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &context->identity);
    }
    kiln_key_builder_free(&builder);
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

kiln_status kilni_program_context_new(const kilni_program_context_params *params,
                                      kilni_program_context **ret_context)
{
    if (!params || !params->ops || !params->writer || !ret_context ||
        (params->engine_kind && !kilni_engine_kind_is_known(params->engine_kind))) {
        return KILN_E_INVALID;
    }
    kilni_program_context *context = calloc(1, sizeof *context);
    if (!context) {
        return KILN_E_NO_MEMORY;
    }
    context->ops = params->ops;
    context->device = params->device;

    kiln_cache_params memory = {.struct_size = sizeof memory};
    if (params->memory) {
        memory = *params->memory;
    }
    memory.destroy = destroy_program;
    kiln_status status = kiln_cache_new(&memory, &context->memory);
    if (status == KILN_OK) {
        status = identify(context);
    }
    if (status != KILN_OK) {
        kilni_program_context_free(&context);
        return status;
    }
    context->request = (kilni_request_context){
        .memory = context->memory, .store = params->store, .writer = params->writer};
    context->min_stored_bytes = params->min_stored_bytes;
    context->max_stored_bytes =
        params->max_stored_bytes ? params->max_stored_bytes : KILN_UNLIMITED;
    if (params->engine_kind && !params->store) {
        context->governed_kind = params->engine_kind;
        kilni_persistent_enter();
    }
    *ret_context = context;
    return KILN_OK;
}

void kilni_program_context_free(kilni_program_context **context)
{
    if (!context || !*context) {
        return;
    }
    if ((*context)->governed_kind) {
        kilni_persistent_leave();
    }
    kiln_cache_free(&(*context)->memory);
    kiln_key_release(&(*context)->identity);
    free(*context);
    *context = NULL;
}

/* The key of a source: the device's identity, then what the source adds. */
static kiln_status make_key(const kilni_program_context *context, const kiln_program_source *source,
                            kiln_key **ret_key, kiln_error *error)
{
    if (!context->identity) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    for (size_t i = 0; status == KILN_OK && i < kiln_key_part_count(context->identity); i++) {
        kiln_key_part part;
        kiln_key_part_at(context->identity, i, &part);
        status = kiln_key_builder_add(builder, part.name, part.bytes, (size_t)part.size);
    }
    if (status == KILN_OK) {
        status = context->ops->describe(context->device, source, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

/* ---- the request's ops, over the device's ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    obtaining *o = user;
    o->bytes = kiln_entry_payload(entries[0]).size;
    return o->context->ops->load(o->context->device, o->source, entries[0], &o->program->handle);
}

static kiln_status build(void *user, kiln_error *error)
{
    obtaining *o = user;
    char *log = NULL;
    o->bytes = o->source->code.size;
    const kiln_status status =
        o->context->ops->build(o->context->device, o->source, &o->program->handle, &log);
    if (status != KILN_OK) {
        kilni_error_set(error, status, 0, "%s", log ? log : kiln_status_text(status));
    }
    free(log);
    return status;
}

/* What the source reads from may have changed while it was built: then what was built is not what
 * the key says. */
static kiln_status check_key(void *user)
{
    const obtaining *o = user;
    kiln_key *again = NULL;
    kiln_status status = make_key(o->context, o->source, &again, NULL);
    if (status == KILN_OK && !kiln_key_equals(again, o->key)) {
        status = KILN_E_UNSUPPORTED;
    }
    kiln_key_release(&again);
    return status;
}

static kiln_status capture(void *user, size_t index, uint64_t build_ns, kiln_entry **ret_entry)
{
    (void)index;
    obtaining *o = user;
    kiln_capture taken = {0};
    kiln_status status = o->context->ops->capture(o->context->device, o->program->handle, &taken);
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = o->key,
            .kind = KILN_ENTRY_PROGRAM,
            .provenance = {.struct_size = sizeof params.provenance,
                           .device = taken.device ? taken.device : o->context->ops->name,
                           .name = o->source->name ? o->source->name : taken.name,
                           .build_ns = build_ns},
            .answers = {taken.answers, taken.answers_size},
            .log = {taken.log, taken.log ? strlen(taken.log) : 0},
            .payload = {taken.payload, taken.payload_size},
        };
        status = kiln_entry_new(&params, ret_entry);
    }
    kiln_capture_done(&taken);
    return status;
}

static void *take_program(void *user, uint64_t *ret_bytes)
{
    obtaining *o = user;
    *ret_bytes = o->bytes;
    return o->program;
}

static const kilni_request_ops capturing_ops = {.load = load,
                                                .build = build,
                                                .check_key = check_key,
                                                .capture = capture,
                                                .take_program = take_program};
static const kilni_request_ops building_ops = {
    .load = load, .build = build, .check_key = check_key, .take_program = take_program};

/* ---- obtain ---- */

static int is_to_be_stored(const kilni_program_context *context, const kiln_program_source *source)
{
    return source->code.size >= context->min_stored_bytes &&
           source->code.size <= context->max_stored_bytes;
}

/* What one request works with. A context that is governed has whatever store the settings name at
 * this moment, and @ret_held keeps that open. */
static kilni_request_context request_context(const obtaining *o, kilni_governed_store **ret_held)
{
    kilni_request_context request = o->context->request;
    if (!is_to_be_stored(o->context, o->source)) {
        request.store = NULL;
    } else if (o->context->governed_kind) {
        kilni_governed_store *held = kilni_persistent_hold(o->context->governed_kind);
        if (held) {
            request.store = kilni_governed_store_of(held);
            request.writer = kilni_governed_writer_of(held);
        }
        *ret_held = held;
    }
    return request;
}

static kiln_status run_request(obtaining *o, kilni_request_result *result, kiln_error *error)
{
    const int cheap = o->context->ops->capture_cost == KILN_CAPTURE_CHEAP;
    const kilni_request request = {
        .ending = KILNI_KEEP_PROGRAM,
        .keys = &o->key,
        .key_count = 1,
        .ops = cheap ? &capturing_ops : &building_ops,
        .user = o,
    };
    kilni_governed_store *held = NULL;
    const kilni_request_context context = request_context(o, &held);
    const kiln_status status = kilni_request_run(&context, &request, result, error);
    kilni_governed_release(&held);
    return status;
}

/* Builds for this caller alone, since its key can't be told. */
static kiln_status build_unkeyed(obtaining *o, kilni_request_result *result, kiln_error *error)
{
    const kiln_stats counted = {.passed_through = 1};
    kilni_writer_count(o->context->request.writer, &counted);
    result->source = KILNI_FROM_PRIVATE_BUILD;
    return build(o, error);
}

static kiln_status obtain(obtaining *o, kilni_program *ret_program, kilni_request_result *result,
                          kiln_error *error)
{
    kiln_key *key = NULL;
    kiln_status status = make_key(o->context, o->source, &key, error);
    if (status == KILN_E_UNSUPPORTED) {
        status = build_unkeyed(o, result, error);
    } else if (status == KILN_OK) {
        o->key = key;
        status = run_request(o, result, error);
    }
    kiln_key_release(&key);
    if (status == KILN_OK) {
        ret_program->pin = result->pin;
        result->pin = NULL;
    }
    return status;
}

kiln_status kilni_program_obtain(kilni_program_context *context, const kiln_program_source *source,
                                 kilni_program **ret_program, kilni_request_result *ret_result,
                                 kiln_error *error)
{
    if (!context || !source || !ret_program || (!source->code.data && source->code.size)) {
        return KILN_E_INVALID;
    }
    kilni_program *program = calloc(1, sizeof *program);
    live_program *live = calloc(1, sizeof *live);
    if (!program || !live) {
        free(program);
        free(live);
        return KILN_E_NO_MEMORY;
    }
    *live = (live_program){.ops = context->ops, .device = context->device};

    obtaining o = {.context = context, .source = source, .program = live};
    kilni_request_result result = {0};
    const kiln_status status = obtain(&o, program, &result, error);

    /* The live program went to memory, or is this caller's, or was not needed. */
    const int in_memory = program->pin && kiln_pin_object(program->pin) == live;
    if (status == KILN_OK && !program->pin) {
        program->private = live;
    } else if (!in_memory) {
        destroy_program(NULL, live);
    }
    if (status != KILN_OK) {
        free(program);
        return status;
    }
    if (ret_result) {
        *ret_result = result;
    }
    *ret_program = program;
    return KILN_OK;
}

void *kilni_program_handle(const kilni_program *program)
{
    const live_program *live = program->pin ? kiln_pin_object(program->pin) : program->private;
    return live->handle;
}

void kilni_program_release(kilni_program **program)
{
    if (!program || !*program) {
        return;
    }
    if ((*program)->pin) {
        kiln_pin_release(&(*program)->pin);
    } else {
        destroy_program(NULL, (*program)->private);
    }
    free(*program);
    *program = NULL;
}
