/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/table.h"
#include "dpcpp.h"
#include "extract.h"
#include "files.h"
#include "listing_dpcpp.h"
#include "root.h"

#define NS_PER_S 1000000000
#define ID_PREFIX_MIN 4

/* ---- finding the item ---- */

static bool is_meant(const dpcpp_item *item, const char *name)
{
    return strcmp(item->path, name) == 0 ||
           (strlen(name) >= ID_PREFIX_MIN && strncmp(item->id, name, strlen(name)) == 0);
}

static const dpcpp_item *find(const dpcpp_listing *listing, const char *name, int *ret_exit_code)
{
    const dpcpp_item *found = NULL;
    for (size_t i = 0; i < listing->count; i++) {
        if (!is_meant(&listing->items[i], name)) {
            continue;
        }
        if (found != NULL) {
            complain("'%s' is a prefix of several ids", name);
            *ret_exit_code = EXIT_USAGE;
            return NULL;
        }
        found = &listing->items[i];
    }
    if (found == NULL) {
        complain("no item has the path '%s' or an id that begins with it", name);
        *ret_exit_code = EXIT_NOTHING_FOUND;
    }
    return found;
}

/* ---- its files ---- */

/* Opens a file of the item; false with errno. */
static bool open_part(const cache_tree *tree, const dpcpp_item *item, slot_file which,
                      open_file *ret_file)
{
    char name[SLOT_NAME_SIZE];
    slot_name_format(item->slot->number, which, name);
    int directory = open_directory_below(tree->root, item->directory->path);
    if (directory < 0) {
        return false;
    }
    bool is_open = open_file_in(directory, name, ret_file);
    close(directory);
    return is_open;
}

static int extract_part(const cache_tree *tree, const dpcpp_item *item, slot_file which,
                        uint64_t offset, uint64_t size, const char *path)
{
    open_file file;
    if (size == 0 || !open_part(tree, item, which, &file)) {
        complain("%s: the item has no such part", item->path);
        return EXIT_NOTHING_FOUND;
    }
    byte_source source = file_source(&file);
    int exit_code = extract(&source, offset, size, path);
    close_file(&file);
    return exit_code;
}

/* Recognizes a format by its first bytes. */
static const char *format_of(const cache_tree *tree, const dpcpp_item *item, slot_file which,
                             uint64_t offset, uint64_t size)
{
    static const struct {
        const char *magic, *name;
    } formats[] = {
        {"\x7f"
         "ELF",
         "ELF"},
        {"\x03\x02\x23\x07", "SPIR-V"},
        {"BC\xC0\xDE", "LLVM bitcode"},
    };
    open_file file;
    char magic[4];
    if (size < sizeof magic || !open_part(tree, item, which, &file)) {
        return "unknown";
    }
    byte_source source = file_source(&file);
    bool was_read = source.read(source.user, offset, magic, sizeof magic);
    close_file(&file);
    for (size_t i = 0; was_read && i < sizeof formats / sizeof formats[0]; i++) {
        if (memcmp(magic, formats[i].magic, sizeof magic) == 0) {
            return formats[i].name;
        }
    }
    return "unknown";
}

/* ---- output ---- */

/* What is printed about an item. A number that is not known is 0. */
typedef struct item_overview {
    const char *state, *kind, *binary_format, *image_format;
    const char *bin_fault, *src_fault;
    uint64_t binary_bytes, binary_count, image_bytes, constant_bytes, stored_bytes;
} item_overview;

static item_overview overview_of(const cache_tree *tree, const dpcpp_item *item)
{
    const bin_file *bin = &item->item.bin;
    const src_record *images = &item->item.src.records[SRC_IMAGES];
    return (item_overview){
        .state = dpcpp_item_state(item),
        .kind = dpcpp_item_kind(item),
        .binary_format = format_of(tree, item, SLOT_BIN, bin->offset, bin->size),
        .image_format = format_of(tree, item, SLOT_SRC, images->offset, images->size),
        .bin_fault = item->item.bin_fault,
        .src_fault = item->item.src_fault,
        .binary_bytes = bin->size,
        .binary_count = bin->binary_count,
        .image_bytes = images->size,
        .constant_bytes = item->item.src.records[SRC_CONSTANTS].size,
        .stored_bytes = dpcpp_item_stored_size(item),
    };
}

static void print_json(const cache_tree *tree, const dpcpp_item *item)
{
    item_overview overview = overview_of(tree, item);
    json_t *object = must(json_object());
    json_add(object, "id", json_text_or_null(item->id));
    json_add(object, "path", json_text_or_null(item->path));
    json_add(object, "state", json_text_or_null(overview.state));
    json_add(object, "kind", json_text_or_null(overview.kind));
    json_add(object, "bin_fault", json_text_or_null(overview.bin_fault));
    json_add(object, "src_fault", json_text_or_null(overview.src_fault));
    json_add(object, "device", json_text_or_null(item->item.device));
    json_add(object, "options", json_text_or_null(item->item.options));
    json_add(object, "constant_bytes", json_number(overview.constant_bytes));
    json_add(object, "image_bytes", json_number(overview.image_bytes));
    json_add(object, "image_format", json_text_or_null(overview.image_format));
    json_add(object, "bytes", json_number(overview.binary_bytes));
    json_add(object, "format", json_text_or_null(overview.binary_format));
    json_add(object, "binaries", json_number(overview.binary_count));
    json_add(object, "stored_bytes", json_number(overview.stored_bytes));
    json_add(object, "last_used", json_number(item->item.last_access_ns / NS_PER_S));
    json_add(object, "has_stamp", must(json_boolean(item->item.has_stamp)));
    json_print(stdout, object);
}

static void add_size(struct libscols_table *table, const char *name, uint64_t size,
                     const char *format)
{
    char text[UNIT_TEXT_SIZE], both[UNIT_TEXT_SIZE + 32];
    format_size(size, text);
    snprintf(both, sizeof both, "%s%s%s", text, size > 0 ? ", " : "", size > 0 ? format : "");
    table_add_fact(table, name, both);
}

static void print_overview(const cache_tree *tree, const dpcpp_item *item)
{
    item_overview overview = overview_of(tree, item);
    struct libscols_table *table = table_new_facts();
    char text[UNIT_TEXT_SIZE];
    table_add_fact(table, "id", item->id);
    table_add_fact(table, "path", item->path);
    table_add_fact(table, "state", overview.state);
    if (overview.bin_fault != NULL) {
        table_add_fact(table, ".bin", overview.bin_fault);
    }
    if (overview.src_fault != NULL) {
        table_add_fact(table, ".src", overview.src_fault);
    }
    table_add_fact(table, "kind", overview.kind);
    table_add_fact(table, "device", item->item.device);
    table_add_fact(table, "options", item->item.options);
    format_size(overview.constant_bytes, text);
    table_add_fact(table, "constants", text);
    add_size(table, "images", overview.image_bytes, overview.image_format);
    add_size(table, "binary", overview.binary_bytes, overview.binary_format);
    format_size(overview.stored_bytes, text);
    table_add_fact(table, "on disk", text);
    format_time((int64_t)(item->item.last_access_ns / NS_PER_S), text);
    table_add_fact(table, item->item.has_stamp ? "last used" : "written", text);
    table_print(table);
}

static int show(const cache_tree *tree, const dpcpp_item *item, const dpcpp_request *request,
                const char *payload, bool source)
{
    if (payload != NULL) {
        return extract_part(tree, item, SLOT_BIN, item->item.bin.offset, item->item.bin.size,
                            payload);
    }
    if (source) {
        const src_record *images = &item->item.src.records[SRC_IMAGES];
        return extract_part(tree, item, SLOT_SRC, images->offset, images->size, "-");
    }
    if (request->json) {
        print_json(tree, item);
    } else {
        print_overview(tree, item);
    }
    return EXIT_OK;
}

int dpcpp_show(const dpcpp_request *request, const char *name, const char *payload, bool source)
{
    cache_tree tree = {0};
    int exit_code = root_read(request, &tree);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    dpcpp_listing listing;
    dpcpp_listing_read(&tree, &listing);
    const dpcpp_item *item = find(&listing, name, &exit_code);
    if (item != NULL) {
        exit_code = show(&tree, item, request, payload, source);
    }
    dpcpp_listing_free(&listing);
    tree_free(&tree);
    return exit_code;
}
