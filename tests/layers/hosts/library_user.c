/* SPDX-License-Identifier: Apache-2.0
 *
 * library_user STORE: a program that links libkiln. It keeps objects in a cache and an entry in a
 * store, prints whether the entry existed, and exits without freeing the cache.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/cache.h>
#include <kiln/entry.h>
#include <kiln/store.h>

enum { OBJECTS = 1000 };

static kiln_cache *cache;

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "library_user: %s: %s\n", what, kiln_status_text(status));
        exit(2);
    }
}

static kiln_key *key_of(int number)
{
    char text[4096];
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    memset(text, 'a', sizeof text);
    snprintf(text, sizeof text, "%d", number);
    must(kiln_key_builder_new(&builder), "a key");
    must(kiln_key_builder_add(builder, "text", text, sizeof text), "a key's part");
    must(kiln_key_builder_finish(builder, &key), "a key");
    kiln_key_builder_free(&builder);
    return key;
}

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)user, (void)key, (void)error;
    *ret_built = (kiln_built){.object = malloc(16), .bytes = 16};
    return ret_built->object ? KILN_OK : KILN_E_NO_MEMORY;
}

static void destroy(void *user, void *object)
{
    (void)user;
    free(object);
}

static void fill_cache(void)
{
    const kiln_cache_params params = {.struct_size = sizeof params, .destroy = destroy};
    must(kiln_cache_new(&params, &cache), "a cache");
    for (int i = 0; i < OBJECTS; i++) {
        kiln_key *key = key_of(i);
        kiln_pin *pin = NULL;
        must(kiln_cache_get_or_build(cache, key, build, NULL, &pin, NULL), "an object");
        kiln_pin_release(&pin);
        kiln_key_release(&key);
    }
}

static const char *use_store(const char *location)
{
    static char payload[1 << 16];
    kiln_store *store = NULL;
    kiln_entry *entry = NULL;
    kiln_key *key = key_of(0);
    must(kiln_store_open(location, NULL, &store, NULL), "a store");
    const bool is_there = kiln_store_get(store, key, &entry) == KILN_OK;
    if (!is_there) {
        const kiln_entry_params params = {.struct_size = sizeof params,
                                          .key = key,
                                          .kind = KILN_ENTRY_PROGRAM,
                                          .payload = {payload, sizeof payload}};
        must(kiln_entry_new(&params, &entry), "an entry");
        must(kiln_store_put(store, entry), "a put");
    }
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&store);
    return is_there ? "found" : "stored";
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: library_user STORE\n");
        return 2;
    }
    fill_cache();
    printf("%s\n", use_store(argv[1]));
    return 0;
}
