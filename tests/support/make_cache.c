/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes caches for the tests of the command-line tool.
 *
 *   make_cache entries DIR    four entries, one of them a request, and some counters
 *   make_cache ambiguous DIR  two entries whose digests begin with the same four digits
 *   make_cache young DIR      a request made now that contains no build
 *   make_cache future DIR     a request with a date in the future
 *   make_cache many DIR       32 requests made now, of 8 MiB each, without builds
 *   make_cache driver DIR PLATFORM FILE…  an entry of a platform whose driver has these files
 *   make_cache count          adds to the counters in the file that KILN_STATS names, as the layer
 *                             does
 *
 * Prints a line for each entry: digest and name.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/store.h>

#define MONTH_S (30 * 24 * 3600)

static int64_t created_s = 1700000000;

static const char source[] =
    "kernel void saxpy(global float *x)\n{\n    x[get_global_id(0)] = 1;\n}\n";

static void expect(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "make_cache: %s: %s\n", what, kiln_status_text(status));
        exit(1);
    }
}

static kiln_key *make_key(const char *name, uint64_t number)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    expect(kiln_key_builder_new(&builder), "builder");
    expect(kiln_key_builder_add_text(builder, "platform", "Test Platform"), "part");
    expect(kiln_key_builder_add_text(builder, "options", "-cl-mad-enable -DN=\"4\""), "part");
    expect(kiln_key_builder_add_text(builder, "name", name), "part");
    expect(kiln_key_builder_add_number(builder, "number", number), "part");
    expect(kiln_key_builder_add_text(builder, "source", source), "part");
    expect(kiln_key_builder_finish(builder, &key), "key");
    kiln_key_builder_free(&builder);
    return key;
}

static void put(kiln_store *store, const kiln_key *key, uint32_t kind, const char *name,
                size_t payload_size)
{
    unsigned char *payload = malloc(payload_size);
    kiln_entry *entry = NULL;
    if (payload == NULL) {
        expect(KILN_E_NO_MEMORY, "payload");
    }
    /* Large payloads must not be compressible. */
    uint32_t random = 1;
    for (size_t i = 0; i < payload_size; i++) {
        random = random * 1664525u + 1013904223u;
        payload[i] = (unsigned char)(payload_size < 4 << 20 ? i * 7 + payload_size : random >> 24);
    }
    kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = kind,
        .provenance = {.struct_size = sizeof params.provenance,
                       .tool = "make_cache",
                       .device = "Test Platform, Test Device",
                       .name = name,
                       .build_ns = 256000000,
                       .created_s = created_s},
        .log = {.data = "a warning\n", .size = 10},
        .payload = {.data = payload, .size = payload_size},
    };
    expect(kiln_entry_new(&params, &entry), "entry");
    expect(kiln_store_put(store, entry), "put");
    kiln_digest digest = kiln_key_digest(key);
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    printf("%s %s\n", text, name);
    kiln_entry_release(&entry);
    free(payload);
}

static void put_named(kiln_store *store, uint32_t kind, const char *name, size_t payload_size)
{
    kiln_key *key = make_key(name, 0);
    put(store, key, kind, name, payload_size);
    kiln_key_release(&key);
}

static void put_request(kiln_store *store, const char *name, size_t payload_size)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    expect(kiln_key_builder_new(&builder), "key");
    expect(kiln_key_builder_add_text(builder, KILN_REQUEST_PART, name), "key");
    expect(kiln_key_builder_finish(builder, &key), "key");
    kiln_key_builder_free(&builder);
    put(store, key, KILN_ENTRY_REQUEST, name, payload_size);
    kiln_key_release(&key);
}

static void make_entries(kiln_store *store)
{
    put_named(store, KILN_ENTRY_PROGRAM, "saxpy", 3000);
    put_named(store, KILN_ENTRY_PROGRAM, "matmul", 1500000);
    put_named(store, KILN_ENTRY_BLOB, "blob \xff\x1b[31m", 10);
    put_request(store, "later", 20);
    kiln_stats counted = {.hits_store = 3, .builds = 4, .saved_ns = 2310000000};
    expect(kiln_store_add_stats(store, &counted), "account");
}

/* Tries numbers until two digests begin with the same four digits. */
static void make_ambiguous(kiln_store *store)
{
    static uint64_t number_of[65536];
    for (uint64_t number = 1;; number++) {
        kiln_key *key = make_key("twin", number);
        kiln_digest digest = kiln_key_digest(key);
        uint64_t *seen = &number_of[digest.bytes[0] << 8 | digest.bytes[1]];
        if (*seen != 0) {
            kiln_key *first = make_key("twin", *seen);
            put(store, first, KILN_ENTRY_PROGRAM, "twin", 100);
            put(store, key, KILN_ENTRY_PROGRAM, "twin", 100);
            kiln_key_release(&first);
            kiln_key_release(&key);
            return;
        }
        *seen = number;
        kiln_key_release(&key);
    }
}

static void make_of_driver(kiln_store *store, char **arguments)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    expect(kiln_key_builder_new(&builder), "key");
    expect(kiln_key_builder_add_text(builder, "platform.name", arguments[0]), "key");
    for (arguments++; *arguments != NULL; arguments++) {
        expect(kiln_key_builder_add_text(builder, "driver.file", *arguments), "key");
    }
    expect(kiln_key_builder_finish(builder, &key), "key");
    kiln_key_builder_free(&builder);
    put(store, key, KILN_ENTRY_PROGRAM, "of a driver", 100);
    kiln_key_release(&key);
}

static int count(void)
{
    kiln_stats counted = {.hits_memory = 1, .hits_store = 2, .saved_ns = 1500000000};
    const char *file = getenv("KILN_STATS");
    if (file == NULL) {
        return 3;
    }
    expect(kiln_stats_add_to_file(file, &counted), "count");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "count") == 0) {
        return count();
    }
    const bool is_of_driver = argc > 3 && strcmp(argv[1], "driver") == 0;
    if (argc != 3 && !is_of_driver) {
        return 2;
    }
    kiln_store *store = NULL;
    expect(kiln_store_open(argv[2], NULL, &store, NULL), "open");
    if (is_of_driver) {
        make_of_driver(store, argv + 3);
    } else if (strcmp(argv[1], "entries") == 0) {
        make_entries(store);
    } else if (strcmp(argv[1], "ambiguous") == 0) {
        make_ambiguous(store);
    } else {
        created_s = time(NULL) + (strcmp(argv[1], "future") == 0 ? MONTH_S : 0);
        const bool is_many = strcmp(argv[1], "many") == 0;
        for (int i = 0; i < (is_many ? 32 : 1); i++) {
            char name[32];
            snprintf(name, sizeof name, i == 0 ? "later" : "later %d", i);
            put_request(store, name, is_many ? (size_t)8 << 20 : 20);
        }
    }
    kiln_store_close(&store);
    return 0;
}
