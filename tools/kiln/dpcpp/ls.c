/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "../text/units.h"
#include "dpcpp.h"
#include "listing_dpcpp.h"
#include "root.h"

#define NS_PER_S 1000000000

static json_t *item_to_json(const dpcpp_item *item)
{
    json_t *object = must(json_object());
    json_add(object, "id", json_text_or_null(item->id));
    json_add(object, "path", json_text_or_null(item->path));
    json_add(object, "state", json_text_or_null(dpcpp_item_state(item)));
    json_add(object, "kind", json_text_or_null(dpcpp_item_kind(item)));
    json_add(object, "device", json_text_or_null(item->item.device));
    json_add(object, "options", json_text_or_null(item->item.options));
    json_add(object, "bytes", json_number(item->item.bin.size));
    json_add(object, "stored_bytes", json_number(dpcpp_item_stored_size(item)));
    json_add(object, "last_used", json_number(item->item.last_access_ns / NS_PER_S));
    return object;
}

enum { ID, STATE, KIND, BYTES, LAST_USED, DEVICE, PATH };

static struct table *new_table(void)
{
    struct table *table = table_new();
    table_add_column(table, "ID", COLUMN_TEXT);
    table_add_column(table, "STATE", COLUMN_TEXT);
    table_add_column(table, "KIND", COLUMN_TEXT);
    table_add_column(table, "SIZE", COLUMN_NUMBER);
    table_add_column(table, "LAST USED", COLUMN_TEXT);
    table_add_column(table, "DEVICE", COLUMN_LONG_TEXT);
    table_add_column(table, "PATH", COLUMN_LONG_TEXT);
    return table;
}

static void add_row(struct table *table, const dpcpp_item *item)
{
    char text[UNIT_TEXT_SIZE];
    struct table_row *row = table_add_row(table);
    const char *state = dpcpp_item_state(item);
    row_set(row, ID, item->id);
    row_set(row, STATE, state);
    row_set(row, KIND, dpcpp_item_kind(item));
    row_set(row, BYTES, format_size(dpcpp_item_stored_size(item), text));
    row_set(row, LAST_USED, format_time((int64_t)(item->item.last_access_ns / NS_PER_S), text));
    row_set(row, DEVICE, item->item.device != NULL ? item->item.device : "-");
    row_set(row, PATH, item->path);
    if (strcmp(state, "ok") != 0) {
        row_set_colour(row, STATE, strcmp(state, "locked") == 0 ? COLOUR_WARNING : COLOUR_ERROR);
    }
}

static void print_listing(const dpcpp_listing *listing, bool json)
{
    struct table *table = json ? NULL : new_table();
    for (size_t i = 0; i < listing->count; i++) {
        if (json) {
            json_print(stdout, item_to_json(&listing->items[i]));
        } else {
            add_row(table, &listing->items[i]);
        }
    }
    if (!json) {
        table_print(table);
    }
}

int dpcpp_ls(const dpcpp_request *request)
{
    cache_tree tree = root_read(request);
    dpcpp_listing listing;
    dpcpp_listing_read(&tree, &listing);
    print_listing(&listing, request->json);
    if (tree.root >= 0 && listing.count == 0 && !request->json) {
        complain("the cache in %s is empty", tree.path);
    }
    dpcpp_listing_free(&listing);
    tree_free(&tree);
    return EXIT_OK;
}
