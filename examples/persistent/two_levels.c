/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with both levels of cache: programs in memory, and their binaries on disk.
 *
 *     two_levels [CAPACITY_MIB [DIRECTORY]]
 *
 * It requests one program twice. The first process builds it, and the next process finds it on
 * disk. The second request of each process finds it in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/cache.h>
#include <kiln/opencl.h>
#include <kiln/persistent.h>

#include "device.h"

typedef struct two_levels {
    compute_device device;
    uint32_t engine_kind;
    kiln_cache *programs;
    const char *last_source; /* where the last program came from */
} two_levels;

static void require(kiln_status status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, kiln_status_text(status));
        exit(1);
    }
}

static void require_open(uint32_t engine_kind)
{
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_persistent_open(engine_kind, &error) < 0) {
        fprintf(stderr, "nothing is kept on disk: %s\n", error.text);
    }
}

/* ---- the key: everything that decides what a build yields ---- */

static void add_fact(void *user, const char *name, const char *value)
{
    kiln_key_builder *key = user;
    require(kiln_key_builder_add_text(key, name, value ? value : ""), "key");
}

static void add_text(kiln_key_builder *key, const char *name, char *text)
{
    require(kiln_key_builder_add_text(key, name, text), "key");
    free(text);
}

static kiln_key *make_key(const compute_device *device)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    char *platform = device_platform_text(device, CL_PLATFORM_NAME);
    require(kiln_key_builder_new(&builder), "key");
    add_text(builder, "device", device_text(device, CL_DEVICE_NAME));
    add_text(builder, "version", device_text(device, CL_DEVICE_VERSION));
    add_text(builder, "driver", device_text(device, CL_DRIVER_VERSION));
    require(kiln_opencl_report_driver_files(device->platform, platform, add_fact, builder), "key");
    require(kiln_opencl_report_environment(platform, NULL, add_fact, builder), "key");
    add_text(builder, "platform", platform);
    require(kiln_key_builder_add_text(builder, "source", device_source), "key");
    require(kiln_key_builder_add_text(builder, "options", device_options), "key");
    require(kiln_key_builder_finish(builder, &key), "key");
    kiln_key_builder_free(&builder);
    return key;
}

/* ---- what memory misses ---- */

static cl_program find_on_disk(const two_levels *library, const kiln_key *key)
{
    kiln_entry *entry = NULL;
    if (kiln_persistent_get(library->engine_kind, key, &entry) != KILN_OK) {
        return NULL;
    }
    const kiln_bytes binary = kiln_entry_payload(entry);
    cl_program program = device_load(&library->device, binary.data, binary.size);
    kiln_entry_release(&entry);
    return program;
}

/* If storing fails, the next process builds the program again. */
static void keep_on_disk(const two_levels *library, const kiln_key *key, cl_program program)
{
    size_t size = 0;
    void *binary = device_binary(program, &size);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .name = "polynomial"},
        .payload = {binary, size},
    };
    kiln_entry *entry = NULL;
    if (binary && kiln_entry_new(&params, &entry) == KILN_OK) {
        kiln_persistent_put(library->engine_kind, entry);
    }
    kiln_entry_release(&entry);
    free(binary);
}

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)error;
    two_levels *library = user;
    cl_program program = find_on_disk(library, key);
    library->last_source = "found on disk";
    if (!program) {
        program = device_build(&library->device);
        if (!program) {
            return KILN_E_BUILD;
        }
        keep_on_disk(library, key, program);
        library->last_source = "built";
    }
    *ret_built = (kiln_built){.object = program, .bytes = strlen(device_source)};
    return KILN_OK;
}

static void destroy(void *user, void *object)
{
    (void)user;
    clReleaseProgram(object);
}

static void use_program(two_levels *library, const kiln_key *key)
{
    kiln_pin *pin = NULL;
    library->last_source = "found in memory";
    require(kiln_cache_get_or_build(library->programs, key, build, library, &pin, NULL), "program");
    const int is_right = device_computes(&library->device, kiln_pin_object(pin));
    printf("%s, computes %s\n", library->last_source, is_right ? "right" : "WRONG");
    kiln_pin_release(&pin);
}

int main(int count, char **arguments)
{
    two_levels library = {0};
    device_open(&library.device);
    library.engine_kind = library.device.is_gpu ? KILN_ENGINE_GPU : KILN_ENGINE_CPU;

    const kiln_persistent_settings settings = {
        .struct_size = sizeof settings,
        .changed = KILN_PERSISTENT_CAPACITY | KILN_PERSISTENT_DIR,
        .capacity_mib = count > 1 ? atoi(arguments[1]) : 64,
        .dir = count > 2 ? arguments[2] : NULL,
    };
    require(kiln_persistent_set(&settings), "settings");
    require_open(library.engine_kind);

    const kiln_cache_params params = {.struct_size = sizeof params, .destroy = destroy};
    require(kiln_cache_new(&params, &library.programs), "cache");
    kiln_key *key = make_key(&library.device);
    use_program(&library, key);
    use_program(&library, key);
    kiln_key_release(&key);
    kiln_cache_free(&library.programs);
    device_close(&library.device);
    return 0;
}
