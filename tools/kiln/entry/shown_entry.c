/* SPDX-License-Identifier: Apache-2.0 */
#include "shown_entry.h"

#include <stdio.h>
#include <stdlib.h>

#include <kiln/signature.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/table.h"
#include "../text/units.h"
#include "explained_key.h"
#include "input_files.h"
#include "key_part.h"

static void add_size(struct table *table, const char *name, uint64_t bytes)
{
    char text[UNIT_TEXT_SIZE];
    table_add_fact(table, name, format_size(bytes, text));
}

/* Shows the signer that the entry names. The signature was checked only if the entry came from a
 * server. */
static void add_signer(struct table *table, const kiln_entry *entry)
{
    kiln_signature signature = {.struct_size = sizeof signature};
    char key[KILN_PUBLIC_KEY_TEXT_SIZE], expires[UNIT_TEXT_SIZE];
    if (kiln_entry_get_signature(entry, &signature) != KILN_OK) {
        return;
    }
    kiln_public_key_format(&signature.signer, key);
    table_add_fact(table, "signer", key);
    table_add_fact(table, "valid until",
                   signature.expires_s == 0 ? NULL : format_time(signature.expires_s, expires));
}

static json_t *signer_to_json(const kiln_entry *entry)
{
    kiln_signature signature = {.struct_size = sizeof signature};
    char key[KILN_PUBLIC_KEY_TEXT_SIZE];
    if (kiln_entry_get_signature(entry, &signature) != KILN_OK) {
        return json_null();
    }
    kiln_public_key_format(&signature.signer, key);
    json_t *object = must(json_object());
    json_add(object, "key", json_text_or_null(key));
    json_add(object, "expires", must(json_integer(signature.expires_s)));
    return object;
}

static void print_facts(const listed_item *item, const kiln_entry *entry)
{
    kiln_provenance origin = kiln_entry_provenance(entry);
    char text[UNIT_TEXT_SIZE];
    struct table *table = table_new_facts();
    table_add_fact(table, "digest", item->digest);
    table_add_fact(table, "kind", kiln_entry_kind_name(item->kind));
    table_add_fact(table, "name", origin.name);
    table_add_fact(table, "device", origin.device);
    table_add_fact(table, "made by", origin.tool);
    table_add_fact(table, "created", format_time(origin.created_s, text));
    table_add_fact(table, "last used", format_time(item->last_used_s, text));
    table_add_fact(table, "build time", format_duration(origin.build_ns, text));
    add_size(table, "payload", kiln_entry_payload(entry).size);
    add_size(table, "answers", kiln_entry_answers(entry).size);
    add_size(table, "log", kiln_entry_log(entry).size);
    add_size(table, "on disk", item->stored_bytes);
    table_add_fact(table, "signed", kiln_entry_is_signed(entry) ? "yes" : "no");
    add_signer(table, entry);
    table_print(table);
}

static void add_part(struct table *table, const kiln_key_part *part)
{
    char size[UNIT_TEXT_SIZE];
    owned char *value = key_part_value(part);
    struct table_row *row = table_add_row(table);
    row_set(row, 0, part->name);
    row_set(row, 1, format_size(part->size, size));
    row_set(row, 2, value);
}

static void print_parts(const kiln_key *key, const char *heading)
{
    struct table *table = table_new();
    table_add_column(table, heading, COLUMN_TEXT);
    table_add_column(table, "SIZE", COLUMN_NUMBER);
    table_add_column(table, "VALUE", COLUMN_LONG_TEXT);
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        add_part(table, &part);
    }
    table_print(table);
}

void entry_print(const listed_item *item, const kiln_entry *entry)
{
    print_facts(item, entry);
    explained_key key = explained_key_of(entry);
    putchar('\n');
    print_parts(key.key, "KEY PART");
    if (key.explanation != NULL) {
        putchar('\n');
        print_parts(key.explanation, "EXPLANATION");
    }
    explained_key_free(&key);
    input_files_reading made = input_files_read(entry);
    input_files_print(&made);
    input_files_free(&made);
}

static json_t *key_to_json(const kiln_key *key)
{
    json_t *parts = must(json_array());
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        json_push(parts, key_part_to_json(&part));
    }
    return parts;
}

json_t *entry_to_json(const listed_item *item, const kiln_entry *entry)
{
    kiln_provenance origin = kiln_entry_provenance(entry);
    kiln_bytes log = kiln_entry_log(entry);
    json_t *object = must(json_object());
    json_add(object, "digest", json_text_or_null(item->digest));
    json_add(object, "kind", json_text_or_null(kiln_entry_kind_name(item->kind)));
    json_add(object, "name", json_text_or_null(origin.name));
    json_add(object, "device", json_text_or_null(origin.device));
    json_add(object, "tool", json_text_or_null(origin.tool));
    json_add(object, "created", must(json_integer(origin.created_s)));
    json_add(object, "last_used", must(json_integer(item->last_used_s)));
    json_add(object, "build_ns", json_number(origin.build_ns));
    json_add(object, "bytes", json_number(kiln_entry_payload(entry).size));
    json_add(object, "answers_bytes", json_number(kiln_entry_answers(entry).size));
    json_add(object, "stored_bytes", json_number(item->stored_bytes));
    json_add(object, "signed", json_boolean(kiln_entry_is_signed(entry)));
    json_add(object, "signer", signer_to_json(entry));
    json_add(object, "log", json_text(log.data, log.size));
    explained_key key = explained_key_of(entry);
    json_add(object, "key", key_to_json(key.key));
    if (key.explanation != NULL) {
        json_add(object, "explanation", key_to_json(key.explanation));
    }
    explained_key_free(&key);
    input_files_reading made = input_files_read(entry);
    if (made.count > 0) {
        json_add(object, "results", input_files_to_json(&made, true));
    }
    input_files_free(&made);
    return object;
}
