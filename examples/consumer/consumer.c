/* SPDX-License-Identifier: Apache-2.0
 *
 *     consumer DIRECTORY
 *
 * The smallest program that links Kiln: it prints the versions of Kiln, and a text that its first
 * run stores in the directory and later runs find there.
 */
#include <stdio.h>
#include <string.h>

#include <kiln/store.h>
#include <kiln/version.h>

static const char made[] = "the result of a build";

static kiln_key *make_key(void)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK) {
        kiln_key_builder_add_text(builder, "source", "what is built");
        kiln_key_builder_finish(builder, &key); /* key stays NULL if the add failed */
    }
    kiln_key_builder_free(&builder);
    return key;
}

static void keep(kiln_store *store, const kiln_key *key)
{
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .name = "an example"},
        .payload = {made, strlen(made)},
    };
    kiln_entry *entry = NULL;
    if (kiln_entry_new(&params, &entry) == KILN_OK && kiln_store_put(store, entry) == KILN_OK) {
        printf("stored: %s\n", made);
    }
    kiln_entry_release(&entry);
}

int main(int count, char **arguments)
{
    const kiln_store_params params = {.struct_size = sizeof params};
    kiln_error error = {.struct_size = sizeof error};
    kiln_store *store = NULL;
    kiln_entry *entry = NULL;
    if (count != 2 || kiln_store_open(arguments[1], &params, &store, &error) != KILN_OK) {
        fprintf(stderr, "%s\n", count == 2 ? error.text : "usage: consumer DIRECTORY");
        return 1;
    }
    printf("headers %s, library %s\n", KILN_VERSION, kiln_version());
    kiln_key *key = make_key();
    if (kiln_store_get(store, key, &entry) == KILN_OK) {
        const kiln_bytes found = kiln_entry_payload(entry);
        printf("found: %.*s\n", (int)found.size, (const char *)found.data);
    } else {
        keep(store, key);
    }
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&store);
    return 0;
}
