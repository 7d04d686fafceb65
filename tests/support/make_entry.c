/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one entry, or notes one miss, for the tests of the command-line tool:
 *
 *   make_entry DIR put|miss [OPTION=VALUE…] -- [PART=VALUE…]
 *
 * Options: name, device, tool, cost (ns), created (Unix seconds), size (of the payload), answers,
 * key-file, explanation (a text, which makes the entry a blob whose key it explains). If a part's
 * name ends with '@', its value is the name of a file. Prints the digest.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

struct wanted {
    const char *name, *device, *answers, *key_file, *tool, *explanation;
    uint64_t cost_ns, size;
    int64_t created_s;
    kiln_key_builder *builder;
};

static void expect(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "make_entry: %s: %s\n", what, kiln_status_text(status));
        exit(1);
    }
}

static void add_file(kiln_key_builder *builder, const char *part, const char *path)
{
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        expect(KILN_E_IO, path);
        return;
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    expect(kiln_key_builder_add(builder, part, bytes, size), part);
}

/* @text "name=value"; the function changes it */
static void take_part(struct wanted *wanted, char *text, char *value)
{
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '@') {
        text[length - 1] = '\0';
        add_file(wanted->builder, text, value);
    } else {
        expect(kiln_key_builder_add_text(wanted->builder, text, value), text);
    }
}

static void take_option(struct wanted *wanted, const char *name, const char *value)
{
    if (strcmp(name, "name") == 0) {
        wanted->name = value;
    } else if (strcmp(name, "device") == 0) {
        wanted->device = value;
    } else if (strcmp(name, "answers") == 0) {
        wanted->answers = value;
    } else if (strcmp(name, "explanation") == 0) {
        wanted->explanation = value;
    } else if (strcmp(name, "tool") == 0) {
        wanted->tool = value;
    } else if (strcmp(name, "key-file") == 0) {
        wanted->key_file = value;
    } else if (strcmp(name, "cost") == 0) {
        wanted->cost_ns = strtoull(value, NULL, 10);
    } else if (strcmp(name, "size") == 0) {
        wanted->size = strtoull(value, NULL, 10);
    } else if (strcmp(name, "created") == 0) {
        wanted->created_s = strtoll(value, NULL, 10);
    } else {
        expect(KILN_E_INVALID, name);
    }
}

/* Makes the key with one part that explains the key of an entry. */
static kiln_key *make_explanation(const char *text)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    expect(kiln_key_builder_new(&builder), "builder");
    expect(kiln_key_builder_add_text(builder, "made from", text), "explanation");
    expect(kiln_key_builder_finish(builder, &key), "explanation");
    kiln_key_builder_free(&builder);
    return key;
}

static void put(kiln_store *store, const kiln_key *key, const struct wanted *wanted)
{
    void *payload = calloc(1, (size_t)wanted->size + 1);
    kiln_entry *entry = NULL;
    if (!payload) {
        expect(KILN_E_NO_MEMORY, "payload");
    }
    kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .tool = wanted->tool,
                       .device = wanted->device,
                       .name = wanted->name,
                       .build_ns = wanted->cost_ns,
                       .created_s = wanted->created_s},
        .answers = {wanted->answers, wanted->answers ? strlen(wanted->answers) : 0},
        .payload = {payload, (size_t)wanted->size},
    };
    kiln_key *explanation = wanted->explanation ? make_explanation(wanted->explanation) : NULL;
    if (explanation) {
        params.kind = KILN_ENTRY_BLOB;
        params.answers.data = kiln_key_encoding(explanation, &params.answers.size);
    }
    expect(kiln_entry_new(&params, &entry), "entry");
    kiln_key_release(&explanation);
    expect(kiln_store_put(store, entry), "put");
    kiln_entry_release(&entry);
    free(payload);
}

int main(int argc, char **argv)
{
    struct wanted wanted = {
        .name = "", .device = "a device", .tool = "make_entry", .created_s = 1700000000};
    bool are_parts = false;
    if (argc < 3) {
        return 2;
    }
    expect(kiln_key_builder_new(&wanted.builder), "builder");
    for (int i = 3; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (strcmp(argv[i], "--") == 0) {
            are_parts = true;
        } else if (!value) {
            return 2;
        } else {
            *value++ = '\0';
            are_parts ? take_part(&wanted, argv[i], value) : take_option(&wanted, argv[i], value);
        }
    }
    kiln_key *key = NULL;
    kiln_store *store = NULL;
    const kiln_store_params params = {
        .struct_size = sizeof params, .flags = KILN_STORE_NOTE_MISSES, .key_file = wanted.key_file};
    expect(kiln_key_builder_finish(wanted.builder, &key), "key");
    expect(kiln_store_open(argv[1], &params, &store, NULL), "open");
    if (strcmp(argv[2], "put") == 0) {
        put(store, key, &wanted);
    } else {
        kiln_store_note_miss(store, key);
    }
    kiln_digest digest = kiln_key_digest(key);
    char text[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&digest, text);
    puts(text);
    kiln_key_builder_free(&wanted.builder);
    kiln_key_release(&key);
    kiln_store_close(&store);
    return 0;
}
