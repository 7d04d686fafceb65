/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../dpcpp/dpcpp.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "listing.h"
#include "other_layout.h"

static const char usage[] =
    "Usage: kiln ls [--dir DIR] [--key-file FILE] [--layout LAYOUT] [--all] [--sort ORDER]\n"
    "               [--json]\n"
    "\n"
    "Lists the entries, the most recently used first.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --layout LAYOUT  dpcpp: a cache that a SYCL runtime wrote\n"
    "  --all            also list requests for later builds\n"
    "  --sort ORDER     used, created, size, cost (of building), name, device, kind or digest\n"
    "  --json           one JSON object per line\n";

#define SHORT_DIGEST 12

static json_t *item_to_json(const listed_item *item)
{
    json_t *object = must(json_object());
    json_add(object, "digest", json_text_or_null(item->digest));
    json_add(object, "state", json_text_or_null(item_state_name(item->state)));
    json_add(object, "kind", json_text_or_null(kiln_entry_kind_name(item->kind)));
    json_add(object, "device", json_text_or_null(item->device));
    json_add(object, "name", json_text_or_null(item->name));
    json_add(object, "bytes", json_number(item->bytes));
    json_add(object, "stored_bytes", json_number(item->stored_bytes));
    json_add(object, "build_ns", json_number(item->build_ns));
    json_add(object, "created", must(json_integer(item->created_s)));
    json_add(object, "last_used", must(json_integer(item->last_used_s)));
    return object;
}

enum { DIGEST, STATE, KIND, BYTES, BUILD, LAST_USED, DEVICE, NAME };

static struct libscols_table *new_table(void)
{
    struct libscols_table *table = table_new();
    table_add_column(table, "DIGEST", COLUMN_TEXT);
    table_add_column(table, "STATE", COLUMN_TEXT);
    table_add_column(table, "KIND", COLUMN_TEXT);
    table_add_column(table, "SIZE", COLUMN_NUMBER);
    table_add_column(table, "BUILD", COLUMN_NUMBER);
    table_add_column(table, "LAST USED", COLUMN_TEXT);
    table_add_column(table, "DEVICE", COLUMN_LONG_TEXT);
    table_add_column(table, "NAME", COLUMN_LONG_TEXT);
    return table;
}

static void add_row(struct libscols_table *table, const listed_item *item)
{
    char text[UNIT_TEXT_SIZE];
    struct libscols_line *row = table_add_row(table);
    snprintf(text, sizeof text, "%.*s", SHORT_DIGEST, item->digest);
    row_set(row, DIGEST, text);
    row_set(row, STATE, item_state_name(item->state));
    row_set(row, KIND, item->state == KILN_OK ? kiln_entry_kind_name(item->kind) : "-");
    row_set(row, BYTES, format_size(item->stored_bytes, text));
    row_set(row, BUILD, item->state == KILN_OK ? format_duration(item->build_ns, text) : "-");
    row_set(row, LAST_USED, format_time(item->last_used_s, text));
    row_set(row, NAME, item->name);
    row_set(row, DEVICE, item->device);
    if (item->state != KILN_OK) {
        row_set_colour(row, STATE, item->state == KILN_E_VERSION ? COLOUR_WARNING : COLOUR_ERROR);
    }
}

static bool is_hidden(const listed_item *item)
{
    return item->state == KILN_OK && item->kind == KILN_ENTRY_REQUEST;
}

/* Returns how many items it printed. */
static size_t print_listing(const store_listing *listing, bool all, bool json)
{
    struct libscols_table *table = json ? NULL : new_table();
    size_t shown = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const listed_item *item = &listing->items[i];
        if (!all && is_hidden(item)) {
            continue;
        }
        shown++;
        if (json) {
            json_print(stdout, item_to_json(item));
        } else {
            add_row(table, item);
        }
    }
    if (!json) {
        table_print(table);
    }
    return shown;
}

static void explain_nothing(const cache_directory *directory, bool has_requests, bool json)
{
    const char *layout;
    owned char *location = other_layout_find(directory, &layout);
    if (location != NULL) {
        complain("the cache in %s has entries in layout %s: --dir '%s' lists them", directory->path,
                 layout, location);
        if (json) {
            json_t *object = must(json_object());
            json_add(object, "other_layout", json_text_or_null(layout));
            json_add(object, "location", json_text_or_null(location));
            json_print(stdout, object);
        }
    } else if (has_requests) {
        complain("the cache in %s holds only requests: --all lists them", directory->path);
    } else {
        complain("the cache in %s is empty", directory->path);
    }
}

static int list(const cache_directory *directory, listing_order *order, bool all, bool json)
{
    store_listing listing;
    kiln_status status = listing_read(directory->store, &listing);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    listing_sort(&listing, order);
    if (print_listing(&listing, all, json) == 0 && directory->store != NULL) {
        explain_nothing(directory, listing.count > 0, json);
    }
    listing_free(&listing);
    return EXIT_OK;
}

int cmd_ls(int argc, char **argv)
{
    bool all = false;
    const char *layout = NULL;
    const char *sort = NULL;
    command_line line = {
        .usage = usage,
        .options = {{.name = "all", .flag = &all},
                    {.name = "layout", .text = &layout},
                    {.name = "sort", .text = &sort}},
    };
    options_read(&line, argc, argv);
    if (layout != NULL) {
        if (sort != NULL) {
            options_wrong(argv[0], "--sort can't be combined with --layout dpcpp");
        }
        return dpcpp_ls(&(dpcpp_request){argv[0], layout, line.directory, line.json});
    }
    listing_order *order = listing_order_named(sort != NULL ? sort : "used");
    if (order == NULL) {
        options_wrong(argv[0],
                      "--sort expects used, created, size, cost, name, device, kind or digest, not "
                      "'%s'",
                      sort);
    }
    owned_directory directory = directory_open(line.directory, KILN_STORE_READONLY);
    return list(&directory, order, all, line.json);
}
