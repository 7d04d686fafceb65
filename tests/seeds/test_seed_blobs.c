/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the documents' statements about cache blobs and their IDs. Then come the cases of the
 * shipped implementations' own tests, and cases that those tests lack. docs/seeds.md lists the
 * statements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/program_scene.h"

#define THREADS 8

/* ---- the user's copies of bytes ---- */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes copy_id(const kiln_program_desc *desc)
{
    bytes id = {0};
    const uint8_t *data = NULL;
    assert_int_equal(kiln_program_desc_cache_blob_id(desc, &id.size, &data), KILN_OK);
    id.data = test_malloc(id.size + 1);
    if (id.size > 0) {
        memcpy(id.data, data, id.size);
    }
    return id;
}

static bytes get_blob(const kiln_program *program)
{
    bytes blob = {0};
    assert_int_equal(kiln_program_get_cache_blob(program, &blob.size, NULL), KILN_OK);
    blob.data = test_malloc(blob.size + 1);
    assert_int_equal(kiln_program_get_cache_blob(program, &blob.size, blob.data), KILN_OK);
    return blob;
}

/* Returns the blob of a program, and releases the program. */
static bytes make_blob(const program_scene *s, const kiln_program_desc *desc)
{
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
    bytes blob = get_blob(program);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    return blob;
}

static bool are_equal(bytes a, bytes b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static void drop(bytes *b)
{
    test_free(b->data);
    *b = (bytes){0};
}

static kiln_status create(const kiln_program_desc *desc, bytes blob, kiln_program **ret_program,
                          uint32_t *ret_from, kiln_error *error)
{
    kiln_program_result result = {.struct_size = sizeof result};
    const kiln_status status = kiln_program_create_from_cache_blob(desc, blob.size, blob.data,
                                                                   ret_program, &result, error);
    if (ret_from) {
        *ret_from = result.from;
    }
    return status;
}

static uint64_t value_of(const kiln_program *program)
{
    return ((const scripted_program *)kiln_program_handle(program))->value;
}

static int count(const scripted_call *call)
{
    return atomic_load(&call->count);
}

/* ---- IDs ---- */

static void seed_000_an_id_belongs_to_its_description(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    size_t size = 0, again = 0;
    const uint8_t *id = NULL, *same = NULL;
    assert_int_equal(kiln_program_desc_cache_blob_id(desc, &size, NULL), KILN_OK);
    assert_true(size > 0);
    assert_int_equal(kiln_program_desc_cache_blob_id(desc, &again, &id), KILN_OK);
    assert_int_equal(again, size);
    assert_int_equal(kiln_program_desc_cache_blob_id(desc, &again, &same), KILN_OK);
    assert_ptr_equal(id, same);
    assert_int_equal(kiln_program_desc_cache_blob_id(desc, NULL, &id), KILN_E_INVALID);
    bytes before = copy_id(desc);
    kiln_program_desc *never_asked = describe_image(s, "image");
    kiln_program *held = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_program_context_free(&s->context);
    /* An ID is valid as long as its description exists, and a blob is valid as long as its program
     * exists, even after the context has been freed. */
    assert_memory_equal(id, before.data, before.size);
    bytes late = copy_id(never_asked), blob = get_blob(held);
    assert_true(are_equal(late, before));
    assert_true(blob.size > 512);
    drop(&late);
    drop(&blob);
    drop(&before);
    kiln_program_release(&held);
    kiln_program_desc_release(&never_asked);
    kiln_program_desc_release(&desc);
    assert_int_equal(kiln_program_desc_cache_blob_id(NULL, &size, &id), KILN_E_INVALID);
}

static bytes id_of(const program_scene *s, const kiln_program_desc_params *params)
{
    kiln_program_desc *desc = describe(s, params);
    bytes id = copy_id(desc);
    kiln_program_desc_release(&desc);
    return id;
}

static void assert_apart(bytes a, bytes b, bool is_apart)
{
    assert_int_equal(are_equal(a, b), !is_apart);
    drop(&b);
}

static void seed_000_an_id_covers_all_that_decides_the_binary(void **state)
{
    program_scene *s = *state;
    s->devices[0].text = "one driver";
    s->devices[1].text = "another";
    s->devices[2].text = "one driver";
    s->params.device_count = 3;
    s->params.library = "library 1.0 abcdef";
    program_scene_open(s);
    const int one = 1;
    const kiln_spec_constant constant = {1, {&one, sizeof one}};
    kiln_program_desc_params params = image_of("image"), other;
    bytes id = id_of(s, &params);
    assert_apart(id, id_of(s, &params), false);
    other = image_of("imagf");
    assert_apart(id, id_of(s, &other), true);
    other = params;
    other.options.compile = "-g";
    assert_apart(id, id_of(s, &other), true);
    other = params;
    other.options.link = "-g";
    assert_apart(id, id_of(s, &other), true);
    other = params;
    other.constants = &constant;
    other.constant_count = 1;
    assert_apart(id, id_of(s, &other), true);
    other = params;
    other.device = 1;
    assert_apart(id, id_of(s, &other), true);
    other.device = 2; /* of the same kind: its binaries are the same */
    assert_apart(id, id_of(s, &other), false);
    other = params;
    other.name = "for people";
    assert_apart(id, id_of(s, &other), false);

    kiln_program_context_free(&s->context);
    program_scene_open(s);
    assert_apart(id, id_of(s, &params), false);
    kiln_program_context_free(&s->context);
    s->params.library = "library 1.0 abcdee";
    program_scene_open(s);
    assert_apart(id, id_of(s, &params), true);
    drop(&id);
}

static const void *part_of(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, name) == 0 && part.size > 0) {
            return part.bytes;
        }
    }
    return NULL;
}

/* The ID contains the version and the revision, even if Kiln was built without a source
 * repository. */
static void seed_000_version_and_revision_are_in_the_id(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes id = copy_id(desc);
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_decode(id.data, id.size, &key), KILN_OK);
    assert_non_null(part_of(key, "kiln.version"));
    const char *revision = part_of(key, "kiln.revision");
    assert_non_null(revision);
    assert_memory_not_equal(revision, "unknown", 7);
    kiln_key_release(&key);
    drop(&id);
    kiln_program_desc_release(&desc);
}

/* A different revision has different IDs, so its blobs are refused. */
static void seed_000_a_blob_of_another_revision_is_refused(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes id = copy_id(desc), blob = make_blob(s, desc);
    kiln_key *key = NULL, *older = NULL;
    kiln_key_builder *builder = NULL;
    assert_int_equal(kiln_key_decode(id.data, id.size, &key), KILN_OK);
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        const bool is_revision = strcmp(part.name, "kiln.revision") == 0;
        const void *value = is_revision ? "older" : part.bytes;
        const size_t size = is_revision ? 5 : (size_t)part.size;
        assert_int_equal(kiln_key_builder_add(builder, part.name, value, size), KILN_OK);
    }
    assert_int_equal(kiln_key_builder_finish(builder, &older), KILN_OK);
    assert_false(kiln_key_equals(older, key));
    kiln_entry *entry = NULL, *of_older = NULL;
    assert_int_equal(kiln_entry_decode(blob.data, blob.size, &entry), KILN_OK);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = older,
                                      .kind = KILN_ENTRY_BLOB,
                                      .provenance.struct_size = sizeof params.provenance,
                                      .payload = kiln_entry_payload(entry)};
    assert_int_equal(kiln_entry_new(&params, &of_older), KILN_OK);
    const kiln_bytes encoding = kiln_entry_encoding(of_older);
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_create_from_cache_blob(desc, encoding.size, encoding.data,
                                                         &program, NULL, &error),
                     KILN_E_REFUSED);
    assert_non_null(strstr(error.text, "kiln.revision"));
    kiln_entry_release(&of_older);
    kiln_entry_release(&entry);
    kiln_key_release(&older);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
    drop(&id);
    drop(&blob);
    kiln_program_desc_release(&desc);
}

/* ---- blobs ---- */

static void seed_000_the_usage_example(void **state)
{
    program_scene *s = *state;
    bytes key, value;
    uint64_t expected;
    {
        program_scene_open(s);
        kiln_program_desc *conv_pd = describe_image(s, "convolution");
        kiln_program *conv = get_from(conv_pd, KILN_PROGRAM_FROM_BUILD);
        key = copy_id(conv_pd);
        value = get_blob(conv);
        expected = value_of(conv);
        kiln_program_release(&conv);
        kiln_program_desc_release(&conv_pd);
        kiln_program_context_free(&s->context);
    }
    {
        program_scene_open(s);
        kiln_program_desc *conv_pd = describe_image(s, "convolution");
        bytes wanted = copy_id(conv_pd);
        assert_true(are_equal(wanted, key));
        kiln_program *conv_from_cache_blob = NULL;
        uint32_t from = 0;
        assert_int_equal(create(conv_pd, value, &conv_from_cache_blob, &from, NULL), KILN_OK);
        assert_int_equal(from, KILN_PROGRAM_FROM_BLOB);
        assert_true(value_of(conv_from_cache_blob) == expected);
        kiln_program_release(&conv_from_cache_blob);
        kiln_program_desc_release(&conv_pd);
        drop(&wanted);
    }
    assert_int_equal(count(&s->devices[0].build), 1);
    assert_int_equal(count(&s->devices[0].load), 1);
    drop(&key);
    drop(&value);
}

static void seed_000_size_and_bytes_in_two_calls(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    size_t needed = 7;
    assert_int_equal(kiln_program_get_cache_blob(program, &needed, NULL), KILN_OK);
    assert_true(needed > 512);

    uint8_t *large = test_malloc(needed + 100);
    memset(large, 0x5a, needed + 100);
    const size_t short_ones[] = {0, 1, needed - 1};
    for (size_t i = 0; i < 3; i++) {
        size_t size = short_ones[i];
        assert_int_equal(kiln_program_get_cache_blob(program, &size, large), KILN_E_TOO_LARGE);
        assert_int_equal(size, needed);
        for (size_t at = 0; at < needed + 100; at++) {
            assert_int_equal(large[at], 0x5a);
        }
    }
    size_t size = needed + 100;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, large), KILN_OK);
    assert_int_equal(size, needed);
    for (size_t at = needed; at < needed + 100; at++) {
        assert_int_equal(large[at], 0x5a);
    }
    assert_int_equal(kiln_program_get_cache_blob(NULL, &size, large), KILN_E_INVALID);
    assert_int_equal(kiln_program_get_cache_blob(program, NULL, large), KILN_E_INVALID);
    test_free(large);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
}

/* A blob is not kept with each program: the device makes it when a caller requests it. */
static void seed_000_a_blob_is_made_on_demand(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    const int before = count(&s->devices[0].capture);
    bytes first = get_blob(program), second = get_blob(program);
    assert_int_equal(count(&s->devices[0].capture), before + 1);
    assert_true(are_equal(first, second));
    drop(&first);
    drop(&second);
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
}

/* A device with expensive captures makes blobs too, because a caller requests them. */
static void seed_000_a_blob_of_a_device_with_expensive_captures(void **state)
{
    program_scene *s = *state;
    s->params.ops = &scripted_expensive_ops;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(count(&s->devices[0].capture), 0);
    bytes blob = make_blob(s, desc);
    assert_int_equal(count(&s->devices[0].capture), 1);
    kiln_program *program = NULL;
    assert_int_equal(create(desc, blob, &program, NULL, NULL), KILN_OK);
    kiln_program_release(&program);
    drop(&blob);
    kiln_program_desc_release(&desc);
}

/* A program made from a blob returns the same blob again, although the user's bytes have been
 * freed. */
static void seed_000_a_program_of_a_blob_is_as_good(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes blob = make_blob(s, desc), given = {test_malloc(blob.size), blob.size};
    memcpy(given.data, blob.data, blob.size);
    kiln_program *program = NULL;
    assert_int_equal(create(desc, given, &program, NULL, NULL), KILN_OK);
    memset(given.data, 0, given.size);
    drop(&given);
    bytes again = get_blob(program);
    assert_true(are_equal(blob, again));
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_OK);
    kiln_kernel_release(&kernel);
    kiln_program_release(&program);
    /* From now on the program is in memory. */
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    drop(&again);
    drop(&blob);
    kiln_program_desc_release(&desc);
}

static void seed_000_memory_takes_precedence_over_a_blob(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *built = get_from(desc, KILN_PROGRAM_FROM_BUILD), *created = NULL;
    uint8_t junk[] = "no blob at all";
    uint32_t from = 0;
    assert_int_equal(create(desc, (bytes){junk, sizeof junk}, &created, &from, NULL), KILN_OK);
    assert_int_equal(from, KILN_PROGRAM_FROM_MEMORY);
    assert_ptr_equal(kiln_program_handle(built), kiln_program_handle(created));
    kiln_program_release(&built);
    kiln_program_release(&created);
    kiln_program_desc_release(&desc);
}

static void seed_000_a_blob_alone_is_not_a_program(void **state)
{
    program_scene *s = *state;
    s->devices[0].text = "a driver";
    s->devices[1].text = "another driver";
    s->params.device_count = 2;
    program_scene_open(s);
    kiln_program_desc_params params = image_of("image");
    kiln_program_desc *desc = describe(s, &params);
    bytes blob = make_blob(s, desc);
    params.options.compile = "-g";
    kiln_program_desc *other_options = describe(s, &params);
    params = image_of("image");
    params.device = 1;
    kiln_program_desc *other_device = describe(s, &params);
    kiln_program_desc *const others[] = {other_options, other_device};
    static const char *const named[] = {"options", "device"};
    for (size_t i = 0; i < 2; i++) {
        kiln_program *program = NULL;
        kiln_error error = {.struct_size = sizeof error};
        assert_int_equal(create(others[i], blob, &program, NULL, &error), KILN_E_REFUSED);
        assert_null(program);
        assert_non_null(strstr(error.text, named[i]));
        /* Nothing was built, and a caller that asks for a build gets one. */
        touch(others[i], KILN_PROGRAM_FROM_BUILD);
    }
    assert_int_equal(count(&s->devices[0].load), 0);
    kiln_program_desc_release(&other_options);
    kiln_program_desc_release(&other_device);
    kiln_program_desc_release(&desc);
    drop(&blob);
}

/* ---- damaged and outdated bytes ---- */

static void seed_000_no_damage_gets_through(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes blob = make_blob(s, desc);
    for (size_t at = 0; at < blob.size; at++) {
        blob.data[at] ^= 1u << (at % 8);
        kiln_program *program = NULL;
        const kiln_status status = create(desc, blob, &program, NULL, NULL);
        assert_true(status == KILN_E_CORRUPT || status == KILN_E_VERSION);
        assert_null(program);
        blob.data[at] ^= 1u << (at % 8);
    }
    for (size_t size = 1; size < blob.size; size++) {
        kiln_program *program = NULL;
        assert_int_equal(create(desc, (bytes){blob.data, size}, &program, NULL, NULL),
                         KILN_E_CORRUPT);
    }
    assert_int_equal(count(&s->devices[0].load), 0);
    kiln_program *program = NULL;
    assert_int_equal(create(desc, blob, &program, NULL, NULL), KILN_OK);
    kiln_program_release(&program);
    drop(&blob);
    kiln_program_desc_release(&desc);
}

static void seed_000_a_blob_that_the_device_refuses(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes blob = make_blob(s, desc);
    script(&s->devices[0].load, 1, KILN_E_REFUSED);
    kiln_program *program = NULL;
    assert_int_equal(create(desc, blob, &program, NULL, NULL), KILN_E_REFUSED);
    assert_null(program);
    assert_int_equal(create(desc, blob, &program, NULL, NULL), KILN_OK);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    /* Lack of resources is not a refusal: programs are evicted, once. */
    script(&s->devices[0].load, 1, KILN_E_RESOURCES);
    assert_int_equal(create(desc, blob, &program, NULL, NULL), KILN_OK);
    assert_int_equal(count(&s->devices[0].load), 2);
    kiln_program_release(&program);
    drop(&blob);
    kiln_program_desc_release(&desc);
}

/* An undamaged entry of a store is not accepted as a blob, not even the entry with the blob's ID as
 * its key. */
static void seed_000_an_entry_is_not_a_blob(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes id = copy_id(desc);
    kiln_key *of_blob = NULL;
    assert_int_equal(kiln_key_decode(id.data, id.size, &of_blob), KILN_OK);
    const kiln_key *const keys[] = {kiln_program_desc_key(desc), of_blob};
    for (size_t i = 0; i < 2; i++) {
        const kiln_entry_params params = {.struct_size = sizeof params,
                                          .key = keys[i],
                                          .kind = KILN_ENTRY_PROGRAM,
                                          .provenance.struct_size = sizeof params.provenance,
                                          .payload = {"code", 4}};
        kiln_entry *entry = NULL;
        assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
        const kiln_bytes encoding = kiln_entry_encoding(entry);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_create_from_cache_blob(desc, encoding.size, encoding.data,
                                                             &program, NULL, NULL),
                         KILN_E_REFUSED);
        kiln_entry_release(&entry);
    }
    assert_int_equal(count(&s->devices[0].load), 0);
    kiln_key_release(&of_blob);
    drop(&id);
    kiln_program_desc_release(&desc);
}

/* ---- devices and programs without blobs ---- */

static void seed_000_an_empty_blob_is_legal(void **state)
{
    program_scene *s = *state;
    s->devices[0].captures_nothing = true;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    size_t size = 7;
    uint8_t byte = 0x5a;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_OK);
    assert_int_equal(size, 0);
    assert_int_equal(kiln_program_get_cache_blob(program, &size, &byte), KILN_OK);
    assert_int_equal(byte, 0x5a);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    uint32_t from = 0;
    assert_int_equal(create(desc, (bytes){NULL, 0}, &program, &from, NULL), KILN_OK);
    assert_int_equal(from, KILN_PROGRAM_FROM_BUILD);
    kiln_program_release(&program);
    assert_int_equal(kiln_program_create_from_cache_blob(desc, 1, NULL, &program, NULL, NULL),
                     KILN_E_INVALID);
    kiln_program_desc_release(&desc);
}

/* The documents' usage example also works on devices without blobs: it builds. */
static void check_unsupported(program_scene *s)
{
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    size_t size = 7;
    const uint8_t *id = (const uint8_t *)"";
    assert_int_equal(kiln_program_desc_cache_blob_id(desc, &size, &id), KILN_OK);
    assert_int_equal(size, 0);
    assert_null(id);
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
    size = 7;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_E_UNSUPPORTED);
    assert_int_equal(size, 0);
    kiln_program_release(&program);
    uint8_t junk[] = "junk";
    assert_int_equal(create(desc, (bytes){NULL, 0}, &program, NULL, NULL), KILN_OK);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    assert_int_equal(create(desc, (bytes){junk, sizeof junk}, &program, NULL, NULL),
                     KILN_E_UNSUPPORTED);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

static void seed_000_a_device_without_blobs_breaks_no_caller(void **state)
{
    program_scene *s = *state;
    s->params.ops = &scripted_never_ops;
    check_unsupported(s);
    s->params.ops = &scripted_cheap_ops;
    script(&s->devices[0].identity, 1, KILN_E_UNSUPPORTED);
    check_unsupported(s);
    script(&s->devices[0].describe, 1, KILN_E_UNSUPPORTED);
    check_unsupported(s);
}

static void seed_000_the_users_own_program_has_no_blob(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    scripted_program *handle = NULL;
    kiln_program *program = NULL;
    assert_int_equal(scripted_build(&s->devices[0], 42, &handle), KILN_OK);
    assert_int_equal(kiln_program_adopt(s->context, 0, handle, &program), KILN_OK);
    size_t size = 7;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_E_UNSUPPORTED);
    assert_int_equal(size, 0);
    kiln_program_release(&program);
}

/* ---- memory that is off, and threads ---- */

static void seed_000_blobs_work_without_memory(void **state)
{
    program_scene *s = *state;
    s->params.flags = KILN_CACHE_DISABLED;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes blob = make_blob(s, desc);
    for (int i = 1; i <= 2; i++) {
        kiln_program *program = NULL;
        uint32_t from = 0;
        assert_int_equal(create(desc, blob, &program, &from, NULL), KILN_OK);
        assert_int_equal(from, KILN_PROGRAM_FROM_BLOB);
        assert_int_equal(count(&s->devices[0].load), i);
        kiln_program_release(&program);
        assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    }
    drop(&blob);
    kiln_program_desc_release(&desc);
}

typedef struct creating {
    const kiln_program_desc *desc;
    bytes blob;
    kiln_program *program;
    kiln_status status;
    bytes again;
} creating;

static void *create_one(void *user)
{
    creating *c = user;
    c->status = create(c->desc, c->blob, &c->program, NULL, NULL);
    if (c->status == KILN_OK) {
        size_t size = c->blob.size;
        kiln_program_get_cache_blob(c->program, &size, c->again.data);
    }
    return NULL;
}

/* Half of the threads have a damaged blob. They fail, or find the program that other threads
 * created. */
static void seed_000_threads_create_together(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    bytes blob = make_blob(s, desc), damaged = {test_malloc(blob.size), blob.size};
    memcpy(damaged.data, blob.data, blob.size);
    damaged.data[damaged.size / 2] ^= 1;
    pthread_t threads[THREADS];
    creating c[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (creating){.desc = desc,
                          .blob = i % 2 == 0 ? blob : damaged,
                          .again = {test_malloc(blob.size), blob.size}};
        assert_int_equal(pthread_create(&threads[i], NULL, create_one, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_true(c[i].status == KILN_OK || (i % 2 == 1 && c[i].status == KILN_E_CORRUPT));
        if (c[i].status == KILN_OK) {
            assert_true(are_equal(c[i].again, blob));
            kiln_program_release(&c[i].program);
        }
        drop(&c[i].again);
    }
    assert_int_equal(count(&s->devices[0].load), 1);
    drop(&damaged);
    drop(&blob);
    kiln_program_desc_release(&desc);
}

/* ---- a cache that a user writes in a few lines ---- */

enum { SLOTS = 2 };

typedef struct user_cache {
    bytes ids[SLOTS], blobs[SLOTS];
    size_t next; /* the first entry is evicted first */
} user_cache;

static bytes find_blob(const user_cache *cache, bytes id)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (cache->ids[i].data && are_equal(cache->ids[i], id)) {
            return cache->blobs[i];
        }
    }
    return (bytes){0};
}

static uint32_t get_through(user_cache *cache, const program_scene *s, const char *text)
{
    kiln_program_desc *desc = describe_image(s, text);
    bytes id = copy_id(desc);
    kiln_program *program = NULL;
    uint32_t from = 0;
    assert_int_equal(create(desc, find_blob(cache, id), &program, &from, NULL), KILN_OK);
    if (from == KILN_PROGRAM_FROM_BUILD || from == KILN_PROGRAM_FROM_PRIVATE_BUILD) {
        const size_t at = cache->next++ % SLOTS;
        drop(&cache->ids[at]);
        drop(&cache->blobs[at]);
        cache->ids[at] = id;
        cache->blobs[at] = get_blob(program);
    } else {
        drop(&id);
    }
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
    kiln_program_context_clear(s->context);
    return from;
}

static void seed_000_users_may_have_a_custom_policy(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    user_cache cache = {0};
    assert_int_equal(get_through(&cache, s, "a"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(get_through(&cache, s, "b"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(get_through(&cache, s, "a"), KILN_PROGRAM_FROM_BLOB);
    assert_int_equal(get_through(&cache, s, "c"), KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(get_through(&cache, s, "b"), KILN_PROGRAM_FROM_BLOB);
    assert_int_equal(get_through(&cache, s, "a"), KILN_PROGRAM_FROM_BUILD);
    for (size_t i = 0; i < SLOTS; i++) {
        drop(&cache.ids[i]);
        drop(&cache.blobs[i]);
    }
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(seed_000_an_id_belongs_to_its_description),
        TEST(seed_000_an_id_covers_all_that_decides_the_binary),
        TEST(seed_000_version_and_revision_are_in_the_id),
        TEST(seed_000_a_blob_of_another_revision_is_refused),
        TEST(seed_000_the_usage_example),
        TEST(seed_000_size_and_bytes_in_two_calls),
        TEST(seed_000_a_blob_is_made_on_demand),
        TEST(seed_000_a_blob_of_a_device_with_expensive_captures),
        TEST(seed_000_a_program_of_a_blob_is_as_good),
        TEST(seed_000_memory_takes_precedence_over_a_blob),
        TEST(seed_000_a_blob_alone_is_not_a_program),
        TEST(seed_000_no_damage_gets_through),
        TEST(seed_000_a_blob_that_the_device_refuses),
        TEST(seed_000_an_entry_is_not_a_blob),
        TEST(seed_000_an_empty_blob_is_legal),
        TEST(seed_000_a_device_without_blobs_breaks_no_caller),
        TEST(seed_000_the_users_own_program_has_no_blob),
        TEST(seed_000_blobs_work_without_memory),
        TEST(seed_000_threads_create_together),
        TEST(seed_000_users_may_have_a_custom_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
