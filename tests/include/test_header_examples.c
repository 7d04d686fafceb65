/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples at the top of the public headers, as extract-example extracts them. Each test
 * defines what the example leaves to the reader, runs the example, and checks what it did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>
#include <kiln/constant.h>
#include <kiln/constant_backend.h>
#include <kiln/pack.h>
#include <kiln/persistent.h>
#include <kiln/program.h>

#include "support/scripted_device.h"
#include "support/store_scene.h"

static int happened; /* what the example of the current test did */

static void test_key(void **state)
{
    (void)state;
    happened = 0;
    const char *source = "f";
#define remember(digest) (happened += sizeof(digest) == 16)
#include "key_example.h"
    assert_int_equal(happened, 1);
}

typedef struct folder {
    char path[SCRATCH_DIRECTORY_SIZE];
    kiln_store *store;
    kiln_key *key;
} folder;

static folder open_folder(void)
{
    folder made = {.key = scratch_key(1)};
    scratch_make(made.path);
    assert_int_equal(kiln_store_open(scratch_path(made.path, "store"), NULL, &made.store, NULL),
                     KILN_OK);
    return made;
}

static void close_folder(folder *closed)
{
    kiln_store_close(&closed->store);
    kiln_key_release(&closed->key);
    scratch_remove(closed->path);
}

static void test_entry(void **state)
{
    (void)state;
    folder in = open_folder();
    kiln_store *store = in.store;
    const kiln_key *key = in.key;
    const void *bytes = "payload";
    const size_t size = 7;
    {
#include "entry_example.h"
    } kiln_entry *found = NULL;
    assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
    assert_int_equal(kiln_entry_payload(found).size, 7);
    kiln_entry_release(&found);
    close_folder(&in);
}

static int stored_builds;

static kiln_entry *build_entry(const kiln_key *key)
{
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_BLOB,
                                      .payload = {"payload", 7}};
    kiln_entry *built = NULL;
    assert_int_equal(kiln_entry_new(&params, &built), KILN_OK);
    stored_builds++;
    return built;
}

/* The first run builds and stores the entry, and the second finds it. */
static void test_store(void **state)
{
    (void)state;
    stored_builds = 0;
    happened = 0;
    folder in = open_folder();
    const char *directory = scratch_path(in.path, "of the example");
    const kiln_key *key = in.key;
    kiln_error error = {.struct_size = sizeof error};
#define build build_entry
#define use(payload) (happened += (payload).size == 7)
    for (int i = 0; i < 2; i++) {
#include "store_example.h"
    }
#undef build
#undef use
    assert_int_equal(stored_builds, 1);
    assert_int_equal(happened, 2);
    close_folder(&in);
}

static int object;

static kiln_status build_object(void *user, const kiln_key *key, kiln_built *ret_built,
                                kiln_error *error)
{
    (void)user, (void)key, (void)error;
    happened |= 1;
    ret_built->object = &object;
    return KILN_OK;
}

static void destroy(void *user, void *destroyed)
{
    (void)user;
    happened |= destroyed == &object ? 4 : 8;
}

static void test_cache(void **state)
{
    (void)state;
    happened = 0;
    kiln_key *key = scratch_key(1);
#define build build_object
#define use(used) (happened |= (used) == &object ? 2 : 8)
    {
#include "cache_example.h"
    }
#undef build
#undef use
    assert_int_equal(happened, 1 | 2 | 4);
    kiln_key_release(&key);
}

static void test_config(void **state)
{
    (void)state;
    char path[SCRATCH_DIRECTORY_SIZE];
    scratch_make(path);
    setenv("KILN_DIR", path, 1);
    kiln_config *config = NULL;
    kiln_store *store = NULL;
    kiln_cache *cache = NULL;
    kiln_error error = {.struct_size = sizeof error};
#include "config_example.h"
    assert_non_null(store);
    assert_non_null(cache);
    kiln_cache_free(&cache);
    kiln_store_close(&store);
    kiln_config_free(&config);
    scratch_remove(path);
}

static void test_device(void **state)
{
    (void)state;
    scripted_device scripted = {.text = "device"};
    void *device = &scripted;
    kiln_program_context *programs = NULL;
#define TAKE(slot) const __typeof__(scripted_cheap_ops.slot) slot = scripted_cheap_ops.slot
    TAKE(identity);
    TAKE(describe);
    TAKE(build);
    TAKE(capture);
    TAKE(load);
    TAKE(kernel);
    TAKE(release_program);
    TAKE(release_kernel);
#include "device_example.h"
    assert_non_null(programs);
    assert_int_equal(atomic_load(&scripted.identity.count), 1);
    kiln_program_context_free(&programs);
}

static void test_program(void **state)
{
    (void)state;
    happened = 0;
    folder with = open_folder();
    kiln_store *store = with.store;
    scripted_device scripted = {.text = "device"};
    void *device = &scripted;
    const kiln_device_ops *ops = &scripted_cheap_ops;
    const char *source = "f";
    kiln_program_context *programs = NULL;
    kiln_program_desc *desc = NULL;
    kiln_kernel_desc *blur = NULL;
    kiln_kernel *kernel = NULL;
#define launch(handle) (happened += (handle) != NULL)
#include "program_example.h"
    assert_int_equal(happened, 1);
    kiln_kernel_desc_release(&blur);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&programs);
    close_folder(&with);
}

static void test_pack(void **state)
{
    (void)state;
    folder in = open_folder();
    const char *path = scratch_path(in.path, "pack");
    kiln_entry *entry = scratch_entry(1, 10);
    kiln_error error = {.struct_size = sizeof error};
#include "pack_example.h"
    assert_null(writer);
    assert_int_equal(access(path, R_OK), 0);
    kiln_entry_release(&entry);
    close_folder(&in);
}

static void test_persistent(void **state)
{
    (void)state;
    folder in = open_folder();
    const char *directory = in.path;
    const kiln_key *key = in.key;
    kiln_entry *entry = NULL, *built = scratch_entry(1, 10);
#include "persistent_example.h"
    assert_null(entry);
    assert_int_equal(kiln_persistent_get(KILN_ENGINE_GPU, key, &entry), KILN_OK);
    kiln_entry_release(&entry);
    kiln_entry_release(&built);
    on.changed = KILN_PERSISTENT_CAPACITY;
    on.capacity_mib = 0;
    assert_int_equal(kiln_persistent_set(&on), KILN_OK);
    close_folder(&in);
}

static void test_constant(void **state)
{
    (void)state;
#include "constant_example.h"
    assert_int_equal(budget.capacity_mib, 2048);
    assert_int_equal(budget.policy, KILN_POLICY_LRU);
}

static void *allocate(size_t size, void *engine, void *allocator)
{
    (void)engine, (void)allocator;
    return test_malloc(size);
}

static void give_back(void *data, void *engine, void *allocator)
{
    (void)engine, (void)allocator;
    test_free(data);
}

static void test_constant_backend(void **state)
{
    (void)state;
    happened = 0;
    const kiln_constant_key_params parts = {.struct_size = sizeof parts, .key = "k", .key_size = 1};
    kiln_key *key = NULL;
    assert_int_equal(kiln_constant_key_new(&parts, &key), KILN_OK);
    const kiln_constant_memory memory = {
        .struct_size = sizeof memory, .allocate = allocate, .free = give_back};
    const size_t size = 64;
    kiln_constant_cache *cache = NULL;
    kiln_constant_buffer *buffer = NULL;
    kiln_reservation answer;
#define compute(computed) (happened |= kiln_constant_buffer_size(computed) == size ? 1 : 8)
#define use(used) (happened |= kiln_constant_buffer_size(used) == size ? 2 : 8)
    for (int i = 0; i < 2; i++) {
#include "constant_backend_example.h"
    }
    assert_int_equal(happened, 1 | 2);
    kiln_constant_remove_if_exist(cache, key);
    kiln_key_release(&key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key),      cmocka_unit_test(test_entry),
        cmocka_unit_test(test_cache),    cmocka_unit_test(test_config),
        cmocka_unit_test(test_device),   cmocka_unit_test(test_program),
        cmocka_unit_test(test_pack),     cmocka_unit_test(test_persistent),
        cmocka_unit_test(test_constant), cmocka_unit_test(test_constant_backend),
        cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
