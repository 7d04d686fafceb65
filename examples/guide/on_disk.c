/* SPDX-License-Identifier: Apache-2.0
 *
 *     on_disk [DIRECTORY]
 *
 * Both levels of cache: live programs in memory, and their binaries on disk for the next process.
 * docs/guide.md explains it.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <kiln/cache.h>
#include <kiln/store.h>

#include "runtime.h"

typedef struct library {
    kiln_cache *programs;
    kiln_store *store; /* NULL: there is no second level */
} library;

typedef struct request {
    library *in;
    const char *source;
} request;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static kiln_key *make_key(const char *source)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK) {
        kiln_key_builder_add_text(builder, "runtime", runtime_version());
        kiln_key_builder_add_text(builder, "source", source);
        kiln_key_builder_finish(builder, &key); /* key stays NULL if an add failed */
    }
    kiln_key_builder_free(&builder);
    return key;
}

/* Returns NULL if the store has no such entry, or if its bytes are not a program. The caller then
 * builds the program. */
static program *load(kiln_store *store, const kiln_key *key)
{
    kiln_entry *entry = NULL;
    program *made = NULL;
    if (kiln_store_get(store, key, &entry) == KILN_OK) {
        const kiln_bytes binary = kiln_entry_payload(entry);
        made = program_load(binary.data, binary.size);
    }
    kiln_entry_release(&entry);
    return made;
}

/* If storing fails, the next process builds the program again. */
static void keep(const request *built, const kiln_key *key, const program *made, uint64_t took_ns)
{
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .name = built->source,
                       .build_ns = took_ns},
        .payload = {program_binary(made), program_size(made)},
    };
    kiln_entry *entry = NULL;
    if (kiln_entry_new(&params, &entry) == KILN_OK) {
        kiln_store_put(built->in->store, entry);
    }
    kiln_entry_release(&entry);
}

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)error;
    const request *wanted = user;
    program *made = load(wanted->in->store, key);
    if (!made) {
        const uint64_t began = now_ns();
        made = runtime_compile(wanted->source);
        if (!made) {
            return KILN_E_BUILD;
        }
        keep(wanted, key, made, now_ns() - began);
    }
    ret_built->object = made;
    ret_built->bytes = program_size(made);
    return KILN_OK;
}

static void destroy(void *user, void *object)
{
    (void)user;
    program_release(object);
}

static void compute(library *in, const char *source, double x)
{
    request wanted = {in, source};
    kiln_key *key = make_key(source);
    kiln_pin *pin = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_cache_get_or_build(in->programs, key, build, &wanted, &pin, &error) == KILN_OK) {
        const program *found = kiln_pin_object(pin);
        printf("%s at %g is %g\n", source, x, program_run(found, x));
    } else {
        printf("%s: %s\n", source, error.text);
    }
    kiln_pin_release(&pin);
    kiln_key_release(&key);
}

int main(int count, char **arguments)
{
    const char *directory = count > 1 ? arguments[1] : "./guide_cache";
    const kiln_cache_params at_most = {
        .struct_size = sizeof at_most,
        .max_bytes = 64 << 20,
        .destroy = destroy,
    };
    const kiln_store_params on_disk = {.struct_size = sizeof on_disk, .max_bytes = 512 << 20};
    kiln_error error = {.struct_size = sizeof error};
    library mine = {NULL, NULL};
    if (kiln_cache_new(&at_most, &mine.programs) != KILN_OK) {
        return 1;
    }
    if (kiln_store_open(directory, &on_disk, &mine.store, &error) != KILN_OK) {
        fprintf(stderr, "nothing is kept on disk: %s\n", error.text);
    }
    compute(&mine, "3 0 2", 10);
    compute(&mine, "3 0 2", 20);
    compute(&mine, "1 1", 5);
    kiln_store_close(&mine.store);
    kiln_cache_free(&mine.programs);
    return 0;
}
