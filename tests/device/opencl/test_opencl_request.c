/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/opencl.h>
#include <kiln/store.h>

#include "device/opencl/build_key.h"
#include "device/opencl/build_request.h"
#include "os/clock.h"
#include "support/failing_malloc.h"

#define POCL "Portable Computing Language"

/* ---- a runtime with three devices ---- */

static int devices[3], sub_device;
static int are_devices_listed = 1;

static cl_device_id device_at(size_t place)
{
    return (cl_device_id)&devices[place];
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t room,
                                          void *ret_value, size_t *ret_size)
{
    (void)device;
    const cl_platform_id platform = (cl_platform_id)devices;
    const char name[] = "name";
    const int is_platform = what == CL_DEVICE_PLATFORM;
    const size_t size = is_platform ? sizeof platform : sizeof name;
    if (ret_value && room < size) {
        return CL_INVALID_VALUE;
    }
    if (ret_value) {
        memcpy(ret_value, is_platform ? (const void *)&platform : name, size);
    }
    if (ret_size) {
        *ret_size = size;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info what,
                                            size_t room, void *ret_value, size_t *ret_size)
{
    (void)platform;
    (void)what;
    const char name[] = POCL;
    if (ret_value && room < sizeof name) {
        return CL_INVALID_VALUE;
    }
    if (ret_value) {
        memcpy(ret_value, name, sizeof name);
    }
    if (ret_size) {
        *ret_size = sizeof name;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                                         cl_device_id *ret_devices, cl_uint *ret_count)
{
    (void)platform;
    (void)type;
    if (!are_devices_listed) {
        return CL_DEVICE_NOT_FOUND;
    }
    for (cl_uint i = 0; ret_devices && i < room && i < 3; i++) {
        ret_devices[i] = device_at(i);
    }
    if (ret_count) {
        *ret_count = 3;
    }
    return CL_SUCCESS;
}

static const cl_icd_dispatch runtime = {
    .clGetDeviceInfo = get_device_info,
    .clGetPlatformInfo = get_platform_info,
    .clGetDeviceIDs = get_device_ids,
};

/* ---- builds ---- */

static const char text[] = "__kernel void f(void) {}";

typedef struct scene {
    kiln_key *keys[2];
    cl_device_id of[2];
    kiln_program_source source;
    kilni_opencl_constants constants;
    kilni_opencl_described_build build;
    kiln_key *request_key;
} scene;

static kiln_key *key_named(const char *name)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "name", name), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static kiln_key *request_key_of(const scene *s, size_t count)
{
    kiln_key *key = NULL;
    assert_int_equal(kilni_opencl_request_key((const kiln_key *const *)s->keys, count, &key),
                     KILN_OK);
    return key;
}

static void set_up(scene *s)
{
    *s = (scene){.of = {device_at(2), device_at(0)}};
    s->keys[0] = key_named("first");
    s->keys[1] = key_named("second");
    s->source = (kiln_program_source){
        .struct_size = sizeof s->source,
        .form = KILN_SOURCE_TEXT,
        .code = {text, sizeof text - 1},
        .options = "-DA=1",
    };
    s->build = (kilni_opencl_described_build){
        .cl = &runtime,
        .platform_name = POCL,
        .device_count = 2,
        .devices = s->of,
        .keys = (const kiln_key *const *)s->keys,
        .source = &s->source,
        .constants = &s->constants,
        .build_ns = 12345,
    };
    s->request_key = request_key_of(s, 2);
}

static void tear_down(scene *s)
{
    kiln_key_release(&s->keys[0]);
    kiln_key_release(&s->keys[1]);
    kiln_key_release(&s->request_key);
    kilni_opencl_constants_done(&s->constants);
}

static kiln_entry *request_of(const scene *s)
{
    kiln_entry *request = NULL;
    assert_int_equal(kilni_opencl_request_new(&s->build, s->request_key, &request), KILN_OK);
    return request;
}

static void assert_bytes(kiln_bytes bytes, const void *expected, size_t size)
{
    assert_int_equal(bytes.size, size);
    assert_memory_equal(bytes.data, expected, size);
}

/* ---- a request contains its build ---- */

static void test_a_request_contains_the_whole_build(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    assert_int_equal(kilni_opencl_constants_set(&s.constants, 7, 4, "\1\2\3\4"), KILN_OK);
    assert_int_equal(kilni_opencl_constants_set(&s.constants, 3, 0, NULL), KILN_OK);
    kiln_entry *request = request_of(&s);
    assert_int_equal(kiln_entry_kind_of(request), KILN_ENTRY_REQUEST);
    assert_int_equal(kiln_entry_provenance(request).build_ns, 12345);
    assert_true(kiln_key_equals(kiln_entry_key(request), s.request_key));
    assert_true(kilni_opencl_request_is_open(request));
    assert_false(kilni_opencl_request_has_expired(request));

    kilni_opencl_request_parts read;
    assert_int_equal(kilni_opencl_request_read(request, &read), KILN_OK);
    assert_string_equal(read.platform_name, POCL);
    char *here = getcwd(NULL, 0);
    assert_string_equal(read.folder, here);
    free(here);
    assert_string_equal(read.options, "-DA=1");
    assert_int_equal(read.source.form, KILN_SOURCE_TEXT);
    assert_string_equal(read.source.options, "-DA=1");
    assert_bytes(read.source.code, text, sizeof text - 1);
    assert_int_equal(read.device_count, 2);
    assert_int_equal(read.devices[0], 2);
    assert_int_equal(read.devices[1], 0);
    assert_int_equal(read.constants.count, 2);
    assert_int_equal(read.constants.items[0].id, 3);
    assert_int_equal(read.constants.items[0].size, 0);
    assert_int_equal(read.constants.items[1].id, 7);
    assert_bytes((kiln_bytes){read.constants.items[1].value, read.constants.items[1].size},
                 "\1\2\3\4", 4);
    kilni_opencl_request_parts_done(&read);
    kiln_entry_release(&request);
    tear_down(&s);
}

static void test_no_options_are_not_empty_options(void **state)
{
    (void)state;
    const char *const given[] = {NULL, ""};
    for (size_t i = 0; i < 2; i++) {
        scene s;
        set_up(&s);
        s.source.options = given[i];
        kiln_entry *request = request_of(&s);
        kilni_opencl_request_parts read;
        assert_int_equal(kilni_opencl_request_read(request, &read), KILN_OK);
        assert_int_equal(read.source.options == NULL, given[i] == NULL);
        kilni_opencl_request_parts_done(&read);
        kiln_entry_release(&request);
        tear_down(&s);
    }
}

static void test_intermediate_language_is_kept(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    s.source.form = KILN_SOURCE_IL;
    s.source.code = (kiln_bytes){"\3\2#\7\0\0", 6};
    kiln_entry *request = request_of(&s);
    kilni_opencl_request_parts read;
    assert_int_equal(kilni_opencl_request_read(request, &read), KILN_OK);
    assert_int_equal(read.source.form, KILN_SOURCE_IL);
    assert_bytes(read.source.code, "\3\2#\7\0\0", 6);
    kilni_opencl_request_parts_done(&read);
    kiln_entry_release(&request);
    tear_down(&s);
}

static kilni_floating_point mode_of_request(const scene *s)
{
    kiln_entry *request = request_of(s);
    kilni_opencl_request_parts read;
    assert_int_equal(kilni_opencl_request_read(request, &read), KILN_OK);
    const kilni_floating_point mode = read.mode;
    kilni_opencl_request_parts_done(&read);
    kiln_entry_release(&request);
    return mode;
}

static void test_the_floating_point_mode_is_included(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    assert_true(kilni_floating_point_equals(mode_of_request(&s), kilni_floating_point_default()));
    assert_int_equal(fesetround(FE_UPWARD), 0);
    assert_true(kilni_floating_point_equals(mode_of_request(&s), kilni_floating_point_get()));
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    tear_down(&s);
}

/* ---- its key ---- */

static void test_a_request_has_a_separate_key(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    kiln_key *of_one = request_key_of(&s, 1), *again = request_key_of(&s, 2);
    assert_true(kiln_key_equals(again, s.request_key));
    assert_false(kiln_key_equals(of_one, s.request_key));
    assert_false(kiln_key_equals(of_one, s.keys[0]));
    kiln_key_part first;
    assert_int_equal(kiln_key_part_at(of_one, 0, &first), KILN_OK);
    assert_string_equal(first.name, KILN_REQUEST_PART);
    kiln_key_release(&of_one);
    kiln_key_release(&again);
    tear_down(&s);
}

static kiln_key *build_key_of(const kilni_opencl_site *site, const kiln_program_source *source,
                              const kilni_opencl_constants *constants)
{
    kiln_key *key = NULL;
    kilni_opencl_texts unused;
    assert_int_equal(kilni_opencl_build_key(site, source, constants, &unused, &key, NULL), KILN_OK);
    return key;
}

/* The decoded request leads to exactly the key that the build had. */
static void test_a_decoded_request_has_the_key_of_its_build(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    const kilni_opencl_site site = {.identity = s.keys[0], .platform_name = POCL};
    assert_int_equal(kilni_opencl_constants_set(&s.constants, 7, 4, "\1\2\3\4"), KILN_OK);
    kiln_key *built = build_key_of(&site, &s.source, &s.constants);
    kiln_entry *request = request_of(&s);
    kilni_opencl_request_parts read;
    assert_int_equal(kilni_opencl_request_read(request, &read), KILN_OK);
    kiln_key *repeated = build_key_of(&site, &read.source, &read.constants);
    assert_true(kiln_key_equals(built, repeated));

    assert_int_equal(kilni_opencl_constants_set(&read.constants, 7, 4, "\1\2\3\5"), KILN_OK);
    kiln_key *other = build_key_of(&site, &read.source, &read.constants);
    assert_false(kiln_key_equals(built, other));
    kiln_key_release(&built);
    kiln_key_release(&repeated);
    kiln_key_release(&other);
    kilni_opencl_request_parts_done(&read);
    kiln_entry_release(&request);
    tear_down(&s);
}

/* ---- variables ---- */

static void collect(void *user, const char *name, const char *value)
{
    char *all = user;
    const size_t length = strlen(all);
    if (strncmp(name, "POCL_TEST", 9) == 0 || strncmp(name, "OPENCL_", 7) == 0 ||
        strncmp(name, "LD_", 3) == 0 || strncmp(name, "MY_", 3) == 0 ||
        strncmp(name, "KILN_", 5) == 0) {
        snprintf(all + length, 512 - length, "%s=%s;", name, value);
    }
}

static void test_variables_are_included_unless_they_load_code(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    const char *const patterns[] = {"MY_*", "OPENCL_LAYERS", "LD_*", "KILN_*", NULL};
    const kilni_opencl_environment more = {.variables = patterns};
    s.build.key_environment = &more;
    setenv("POCL_TEST", "a=b", 1);
    setenv("MY_OWN", "", 1);
    setenv("OPENCL_LAYERS", "/a/layer.so", 1);
    setenv("LD_PRELOAD", "", 1);
    setenv("LD_PROFILE_OUTPUT", "", 1);
    setenv("KILN_SIGNING_KEY_FILE", "/a/key", 1);
    setenv("KILN_KEY_ENV", "MY_*", 1);
    kiln_entry *request = request_of(&s);
    char all[512] = "";
    assert_int_equal(kiln_opencl_report_request(request, collect, all), KILN_OK);
    assert_non_null(strstr(all, "POCL_TEST=a=b;"));
    assert_non_null(strstr(all, "MY_OWN=;"));
    assert_null(strstr(all, "OPENCL_LAYERS"));
    assert_null(strstr(all, "LD_PRELOAD"));
    assert_null(strstr(all, "LD_PROFILE_OUTPUT"));
    assert_null(strstr(all, "KILN_SIGNING_KEY_FILE"));
    assert_non_null(strstr(all, "KILN_KEY_ENV=MY_*;"));
    unsetenv("POCL_TEST");
    unsetenv("MY_OWN");
    unsetenv("OPENCL_LAYERS");
    unsetenv("LD_PRELOAD");
    unsetenv("LD_PROFILE_OUTPUT");
    unsetenv("KILN_SIGNING_KEY_FILE");
    unsetenv("KILN_KEY_ENV");
    assert_int_equal(kiln_opencl_report_request(request, NULL, all), KILN_E_INVALID);
    assert_int_equal(kiln_opencl_report_request(NULL, collect, all), KILN_E_INVALID);
    kiln_entry_release(&request);
    tear_down(&s);
}

/* ---- builds that cannot be requested ---- */

static void test_sub_devices_and_unlisted_devices_are_refused(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    kiln_entry *request = NULL;
    s.of[1] = (cl_device_id)&sub_device;
    assert_int_equal(kilni_opencl_request_new(&s.build, s.request_key, &request),
                     KILN_E_UNSUPPORTED);
    s.of[1] = device_at(1);
    are_devices_listed = 0;
    assert_int_equal(kilni_opencl_request_new(&s.build, s.request_key, &request),
                     KILN_E_UNSUPPORTED);
    are_devices_listed = 1;
    assert_null(request);
    tear_down(&s);
}

/* ---- invalid requests ---- */

/* A part of a request that the test makes. */
typedef struct hand_part {
    const char *name;
    const void *bytes;
    size_t size;
} hand_part;

#define TEXT(name, text)                                                                           \
    {                                                                                              \
        name, text, sizeof text - 1                                                                \
    }
#define NUMBER(name, low)                                                                          \
    {                                                                                              \
        name, low "\0\0\0\0\0\0\0", 8                                                              \
    }

static kiln_entry *entry_of(const void *payload, size_t size, uint32_t kind, int64_t created_s)
{
    kiln_key *key = key_named("any");
    kiln_entry *entry = NULL;
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = kind,
        .provenance = {.struct_size = sizeof params.provenance, .created_s = created_s},
        .payload = {payload, size},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    return entry;
}

static kiln_status read_parts(const hand_part *parts, size_t count, uint32_t kind)
{
    kiln_key_builder *builder = NULL;
    kiln_key *made = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].name) {
            assert_int_equal(
                kiln_key_builder_add(builder, parts[i].name, parts[i].bytes, parts[i].size),
                KILN_OK);
        }
    }
    assert_int_equal(kiln_key_builder_finish(builder, &made), KILN_OK);
    kiln_key_builder_free(&builder);
    size_t size = 0;
    const void *bytes = kiln_key_encoding(made, &size);
    kiln_entry *entry = entry_of(bytes, size, kind, 0);
    kilni_opencl_request_parts read;
    const kiln_status status = kilni_opencl_request_read(entry, &read);
    if (status == KILN_OK) {
        kilni_opencl_request_parts_done(&read);
    }
    kiln_entry_release(&entry);
    kiln_key_release(&made);
    return status;
}

#ifdef __x86_64__
#define MODE "MXCSR 7f80, x87 033f"
#elif defined(__aarch64__)
#define MODE "FPCR 00400000 0"
#else
#define MODE "rounding 0 0"
#endif

static const hand_part whole[] = {
    NUMBER("request", "\1"),      TEXT("platform", "P"),
    NUMBER("device", "\0"),       TEXT("folder", "/"),
    TEXT("source", "s"),          NUMBER("constant", "\1"),
    TEXT("constant.value", "\1"), TEXT(KILNI_FLOATING_POINT_PART, MODE),
};
#define WHOLE_COUNT (sizeof whole / sizeof whole[0])

static void test_requests_without_a_part_are_refused(void **state)
{
    (void)state;
    assert_int_equal(read_parts(whole, WHOLE_COUNT, KILN_ENTRY_REQUEST), KILN_OK);
    assert_int_equal(read_parts(whole, WHOLE_COUNT, KILN_ENTRY_PROGRAM), KILN_E_CORRUPT);
    for (size_t left_out = 0; left_out < WHOLE_COUNT; left_out++) {
        hand_part parts[WHOLE_COUNT];
        memcpy(parts, whole, sizeof whole);
        parts[left_out].name = NULL;
        const int is_needed = strcmp(whole[left_out].name, "constant") != 0 &&
                              strcmp(whole[left_out].name, KILNI_FLOATING_POINT_PART) != 0;
        assert_int_equal(read_parts(parts, WHOLE_COUNT, KILN_ENTRY_REQUEST),
                         is_needed ? KILN_E_CORRUPT : KILN_OK);
    }
}

static void test_requests_with_wrong_parts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        hand_part part;
    } wrong[] = {
        {"request", NUMBER("request", "\2")},
        {"platform", TEXT("platform", "P\0Q")},
        {"folder", TEXT("folder", "/\0")},
        {"constant", TEXT("constant", "\1\0\0\0\1")},
        {KILNI_FLOATING_POINT_PART, TEXT(KILNI_FLOATING_POINT_PART, "MXCSR 17f80, x87 033f")},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        hand_part parts[WHOLE_COUNT];
        memcpy(parts, whole, sizeof whole);
        for (size_t p = 0; p < WHOLE_COUNT; p++) {
            if (strcmp(parts[p].name, wrong[i].name) == 0) {
                parts[p] = wrong[i].part;
            }
        }
        assert_int_equal(read_parts(parts, WHOLE_COUNT, KILN_ENTRY_REQUEST), KILN_E_CORRUPT);
    }
}

static void test_a_request_that_was_given_up_is_not_open(void **state)
{
    (void)state;
    kiln_entry *given_up = entry_of("", 0, KILN_ENTRY_REQUEST, 0);
    kilni_opencl_request_parts read;
    char all[512] = "";
    assert_false(kilni_opencl_request_is_open(given_up));
    assert_int_equal(kilni_opencl_request_read(given_up, &read), KILN_E_CORRUPT);
    assert_int_equal(kiln_opencl_report_request(given_up, collect, all), KILN_E_CORRUPT);
    kiln_entry_release(&given_up);
}

static void test_requests_expire(void **state)
{
    (void)state;
    const int64_t now_s = kilni_clock_unix_s();
    kiln_entry *young =
        entry_of("x", 1, KILN_ENTRY_REQUEST, now_s - KILN_OPENCL_REQUEST_AGE_S + 3600);
    kiln_entry *old = entry_of("x", 1, KILN_ENTRY_REQUEST, now_s - KILN_OPENCL_REQUEST_AGE_S - 1);
    assert_false(kilni_opencl_request_has_expired(young));
    assert_true(kilni_opencl_request_has_expired(old));
    const int64_t impossible[] = {now_s + KILN_OPENCL_REQUEST_AGE_S + 3600, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 3; i++) {
        kiln_entry *odd = entry_of("x", 1, KILN_ENTRY_REQUEST, impossible[i]);
        assert_true(kilni_opencl_request_has_expired(odd));
        kiln_entry_release(&odd);
    }
    kiln_entry_release(&young);
    kiln_entry_release(&old);
}

/* A request that is truncated at any byte is invalid. */
static void test_truncated_requests_are_refused(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    kiln_entry *request = request_of(&s);
    const kiln_bytes payload = kiln_entry_payload(request);
    for (size_t size = 0; size < payload.size; size++) {
        kiln_entry *cut = entry_of(payload.data, size, KILN_ENTRY_REQUEST, 0);
        kilni_opencl_request_parts read;
        assert_int_equal(kilni_opencl_request_read(cut, &read), KILN_E_CORRUPT);
        kiln_entry_release(&cut);
    }
    kiln_entry_release(&request);
    tear_down(&s);
}

/* ---- no memory ---- */

static void test_no_memory_for_making(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    assert_int_equal(kilni_opencl_constants_set(&s.constants, 7, 4, "\1\2\3\4"), KILN_OK);
    for (size_t n = 1;; n++) {
        kiln_key *key = NULL;
        kiln_entry *request = NULL;
        failing_malloc_arm(n);
        kiln_status status = kilni_opencl_request_key((const kiln_key *const *)s.keys, 2, &key);
        if (status == KILN_OK) {
            status = kilni_opencl_request_new(&s.build, key, &request);
        }
        const size_t asked = failing_malloc_disarm();
        kiln_key_release(&key);
        if (asked < n) {
            assert_int_equal(status, KILN_OK);
            kiln_entry_release(&request);
            break;
        }
        /* The device's text is only displayed: a request works without it. */
        if (status == KILN_OK) {
            assert_true(kilni_opencl_request_is_open(request));
            kiln_entry_release(&request);
        } else {
            assert_int_equal(status, KILN_E_NO_MEMORY);
            assert_null(request);
        }
    }
    tear_down(&s);
}

static void test_no_memory_for_reading(void **state)
{
    (void)state;
    scene s;
    set_up(&s);
    assert_int_equal(kilni_opencl_constants_set(&s.constants, 7, 4, "\1\2\3\4"), KILN_OK);
    kiln_entry *request = request_of(&s);
    for (size_t n = 1;; n++) {
        kilni_opencl_request_parts read = {0};
        failing_malloc_arm(n);
        const kiln_status status = kilni_opencl_request_read(request, &read);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            kilni_opencl_request_parts_done(&read);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(read.parts);
    }
    kiln_entry_release(&request);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_contains_the_whole_build),
        cmocka_unit_test(test_no_options_are_not_empty_options),
        cmocka_unit_test(test_intermediate_language_is_kept),
        cmocka_unit_test(test_the_floating_point_mode_is_included),
        cmocka_unit_test(test_a_request_has_a_separate_key),
        cmocka_unit_test(test_a_decoded_request_has_the_key_of_its_build),
        cmocka_unit_test(test_variables_are_included_unless_they_load_code),
        cmocka_unit_test(test_sub_devices_and_unlisted_devices_are_refused),
        cmocka_unit_test(test_requests_without_a_part_are_refused),
        cmocka_unit_test(test_requests_with_wrong_parts_are_refused),
        cmocka_unit_test(test_a_request_that_was_given_up_is_not_open),
        cmocka_unit_test(test_requests_expire),
        cmocka_unit_test(test_truncated_requests_are_refused),
        cmocka_unit_test(test_no_memory_for_making),
        cmocka_unit_test(test_no_memory_for_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
