/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../command/commands.h"
#include "../command/directory.h"
#include "../command/options.h"
#include "../dpcpp/dpcpp.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "../text/units.h"
#include "device_lists.h"
#include "groups.h"
#include "listing.h"
#include "other_layout.h"
#include "walk.h"

static const char usage[] =
    "Usage: kiln ls [--dir DIR] [--key-file FILE] [--layout LAYOUT] [--all] [--sort ORDER]\n"
    "               [--group-by WHAT] [--json] [FILTERS]\n"
    "       kiln ls --sign [--expire TIME] [--dir DIR] [--key-file FILE] [FILTERS]\n"
    "\n"
    "Lists the entries, the most recently used first. Columns in which all entries agree are left\n"
    "out, and long texts are cut to the width of the terminal, or to 100 columns elsewhere.\n"
    "\n"
    "  --dir DIR        the cache directory\n"
    "  --key-file FILE  the file with the signing key\n"
    "  --layout LAYOUT  dpcpp: a cache that a SYCL runtime wrote\n"
    "  --all            also list requests for later builds\n"
    "  --sort ORDER     used, created, size, cost (of building), name, device, kind or digest\n"
    "  --group-by WHAT  totals of each device, driver, program or day (of the last use)\n"
    "  --json           one JSON object per line\n"
    "  --sign           print which devices were last in use when, for kiln trim --devices on\n"
    "                   other machines: a file that the key in KILN_SECRET_KEY_FILE signs\n"
    "  --expire TIME    for how long that file is believed: days, or a number with a suffix d, h,\n"
    "                   m or s; default: 30d\n" ENTRY_FILTER_USAGE;

#define SHORT_DIGEST 12
#define VALID_S (UINT64_C(30) * 24 * 3600) /* for how long a list of devices is believed */

static json_t *item_to_json(const listed_item *item, bool has_uses)
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
    json_add(object, "uses", has_uses ? json_number(item->uses) : json_null());
    return object;
}

/* ---- the table ---- */

static char *digest_text(const listed_item *item)
{
    return text_of("%.*s", SHORT_DIGEST, item->digest);
}

static char *state_text(const listed_item *item)
{
    return text_of("%s", item_state_name(item->state));
}

static char *kind_text(const listed_item *item)
{
    return text_of("%s", item->state == KILN_OK ? kiln_entry_kind_name(item->kind) : "-");
}

static char *size_text(const listed_item *item)
{
    char text[UNIT_TEXT_SIZE];
    return text_of("%s", format_size(item->stored_bytes, text));
}

static char *build_text(const listed_item *item)
{
    char text[UNIT_TEXT_SIZE];
    return text_of("%s", item->state == KILN_OK ? format_duration(item->build_ns, text) : "-");
}

static char *uses_text(const listed_item *item)
{
    return text_of("%" PRIu64, item->uses);
}

static char *last_used_text(const listed_item *item)
{
    char text[UNIT_TEXT_SIZE];
    return text_of("%s", format_time(item->last_used_s, text));
}

static char *device_text(const listed_item *item)
{
    return text_of("%s", item->device);
}

static char *name_text(const listed_item *item)
{
    return text_of("%s", item->name);
}

typedef struct ls_column {
    const char *heading;
    column_kind kind;
    char *(*text)(const listed_item *item); /* the caller frees the text */
    const char *usual; /* left out if all entries have this text; "": if all have the same text,
                          and there are several; NULL: never left out */
} ls_column;

static const ls_column columns[] = {
    {"DIGEST", COLUMN_TEXT, digest_text, NULL},       {"STATE", COLUMN_TEXT, state_text, "ok"},
    {"KIND", COLUMN_TEXT, kind_text, "program"},      {"SIZE", COLUMN_NUMBER, size_text, NULL},
    {"BUILD", COLUMN_NUMBER, build_text, NULL},       {"USES", COLUMN_NUMBER, uses_text, NULL},
    {"LAST USED", COLUMN_TEXT, last_used_text, NULL}, {"DEVICE", COLUMN_LONG_TEXT, device_text, ""},
    {"NAME", COLUMN_LONG_TEXT, name_text, NULL},
};

#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

static bool is_shown(const ls_column *column, const store_listing *listing)
{
    if (column->text == uses_text) {
        return listing->has_uses;
    }
    if (column->usual == NULL || (column->usual[0] == '\0' && listing->count < 2)) {
        return true;
    }
    owned char *first = column->text(&listing->items[0]);
    const char *expected = column->usual[0] == '\0' ? first : column->usual;
    for (size_t i = 0; i < listing->count; i++) {
        owned char *text = column->text(&listing->items[i]);
        if (strcmp(text, expected) != 0) {
            return true;
        }
    }
    return false;
}

static void add_cell(struct table_row *row, int place, const ls_column *column,
                     const listed_item *item)
{
    owned char *text = column->text(item);
    row_set(row, place, text);
    if (column->text == state_text && item->state != KILN_OK) {
        row_set_colour(row, place, item->state == KILN_E_VERSION ? COLOUR_WARNING : COLOUR_ERROR);
    }
}

/* @listing  not empty */
static void print_table(const store_listing *listing)
{
    const ls_column *shown[COLUMN_COUNT];
    int count = 0;
    struct table *table = table_new();
    table_fit(table);
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (is_shown(&columns[i], listing)) {
            table_add_column(table, columns[i].heading, columns[i].kind);
            shown[count++] = &columns[i];
        }
    }
    for (size_t i = 0; i < listing->count; i++) {
        struct table_row *row = table_add_row(table);
        for (int place = 0; place < count; place++) {
            add_cell(row, place, shown[place], &listing->items[i]);
        }
    }
    table_print(table);
}

static void print_listing(const store_listing *listing, bool json)
{
    for (size_t i = 0; json && i < listing->count; i++) {
        json_print(stdout, item_to_json(&listing->items[i], listing->has_uses));
    }
    if (!json && listing->count > 0) {
        print_table(listing);
    }
}

static int end_at_request(void *user, kiln_item *item)
{
    (void)item;
    *(bool *)user = true;
    return 1;
}

static void explain_nothing(const cache_directory *directory, const entry_filter *filter, bool json)
{
    bool has_requests = false;
    if (entry_filter_is_set(filter)) {
        complain("no entry in %s is selected", directory->path);
        return;
    }
    kiln_store_each_request(directory->store, end_at_request, &has_requests);
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

typedef struct ls_order {
    listing_order *order;
    group_name *group; /* NULL: entries are listed */
    entry_filter filter;
    bool json, sign;
    uint64_t valid_s;
} ls_order;

static int sign_devices(kiln_store *store, const store_listing *listing, uint64_t valid_s)
{
    device_uses uses;
    device_uses_read(store, listing, &uses);
    const int exit_code = device_lists_print(&uses, valid_s);
    device_uses_free(&uses);
    return exit_code;
}

static int list(const cache_directory *directory, ls_order *wanted)
{
    store_listing listing;
    int exit_code = EXIT_OK;
    walk_expect(directory);
    kiln_status status = listing_read(directory->store, &wanted->filter, &listing);
    if (status != KILN_OK) {
        return complain_of_status(directory->path, status);
    }
    listing_sort(&listing, wanted->order);
    listing_limit(&listing, wanted->filter.limit);
    if (wanted->sign) {
        exit_code = sign_devices(directory->store, &listing, wanted->valid_s);
    } else if (wanted->group != NULL) {
        groups_print(directory->store, &listing, wanted->group, wanted->json);
    } else {
        print_listing(&listing, wanted->json);
    }
    if (listing.count == 0 && directory->store != NULL) {
        explain_nothing(directory, &wanted->filter, wanted->json);
    }
    listing_free(&listing);
    return exit_code;
}

static void check_layout(const char *command, const char *sort, const char *group_by,
                         const entry_filter *filter)
{
    if (sort != NULL || group_by != NULL || entry_filter_is_set(filter)) {
        options_wrong(command,
                      "--sort, --group-by and filters can't be combined with --layout dpcpp");
    }
}

int cmd_ls(int argc, char **argv)
{
    const char *layout = NULL;
    const char *sort = NULL;
    const char *group_by = NULL;
    const char *expire = NULL;
    ls_order wanted = {0};
    command_line line = {
        .usage = usage,
        .options = {ENTRY_FILTER_OPTIONS(wanted.filter),
                    {.name = "all", .flag = &wanted.filter.takes_requests},
                    {.name = "layout", .text = &layout},
                    {.name = "sort", .text = &sort},
                    {.name = "group-by", .text = &group_by},
                    {.name = "sign", .flag = &wanted.sign},
                    {.name = "expire", .text = &expire}},
    };
    options_read(&line, argc, argv);
    if (layout != NULL) {
        check_layout(argv[0], sort, group_by, &wanted.filter);
        return dpcpp_ls(&(dpcpp_request){argv[0], layout, line.directory, line.json});
    }
    if (wanted.sign ? layout != NULL || group_by != NULL || sort != NULL || line.json
                    : expire != NULL) {
        options_wrong(argv[0], "--sign is combined with filters and --expire only");
    }
    wanted.valid_s = expire == NULL ? VALID_S : options_age_s(argv[0], "expire", expire);
    wanted.json = line.json;
    wanted.order = listing_order_named(sort != NULL ? sort : "used");
    if (wanted.order == NULL) {
        options_wrong(argv[0],
                      "--sort expects used, created, size, cost, name, device, kind or digest, not "
                      "'%s'",
                      sort);
    }
    wanted.group = group_by == NULL ? NULL : group_named(group_by, &wanted.filter.reads_drivers);
    if (group_by != NULL && wanted.group == NULL) {
        options_wrong(argv[0], "--group-by expects device, driver, program or day, not '%s'",
                      group_by);
    }
    entry_filter_read(&wanted.filter, argv[0], line.operands);
    owned_directory directory = directory_open(line.directory, KILN_STORE_READONLY);
    const int exit_code = list(&directory, &wanted);
    entry_filter_done(&wanted.filter);
    return exit_code;
}
