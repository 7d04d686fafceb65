/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../command/options.h"
#include "../text/exit_code.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/output_file.h"
#include "../text/table.h"
#include "../text/units.h"
#include "dpcpp.h"
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

/* Opens a file of the item. Returns false with errno if that fails. */
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

/* Returns false after reporting an error. */
static bool copy(const byte_source *source, uint64_t offset, uint64_t size, const output_file *to)
{
    char piece[16384];
    while (size > 0) {
        size_t count = size < sizeof piece ? (size_t)size : sizeof piece;
        if (!source->read(source->user, offset, piece, count)) {
            complain("the item can't be read, or was changed meanwhile");
            return false;
        }
        if (fwrite(piece, 1, count, to->stream) != count) {
            complain("%s: %s", to->path, strerror(errno));
            return false;
        }
        offset += count;
        size -= count;
    }
    return true;
}

/* @path  the path of the file to write; "-" is stdout */
static int extract_part(const cache_tree *tree, const dpcpp_item *item, slot_file which,
                        uint64_t offset, uint64_t size, const char *path)
{
    open_file file;
    if (size == 0 || !open_part(tree, item, which, &file)) {
        complain("%s: the item has no such part", item->path);
        return EXIT_NOTHING_FOUND;
    }
    output_file to;
    byte_source source = file_source(&file);
    int exit_code = output_file_begin(path, &to);
    if (exit_code == EXIT_OK) {
        exit_code = output_file_end(&to, copy(&source, offset, size, &to));
    }
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

static const char *binary_format(const cache_tree *tree, const dpcpp_item *item)
{
    return format_of(tree, item, SLOT_BIN, item->item.bin.offset, item->item.bin.size);
}

static const char *image_format(const cache_tree *tree, const dpcpp_item *item)
{
    const src_record *images = &item->item.src.records[SRC_IMAGES];
    return format_of(tree, item, SLOT_SRC, images->offset, images->size);
}

/* Prints 0 for a number that is not known. */
static void print_json(const cache_tree *tree, const dpcpp_item *item)
{
    const slot_item *content = &item->item;
    const src_record *records = content->src.records;
    json_t *object = must(json_object());
    json_add(object, "id", json_text_or_null(item->id));
    json_add(object, "path", json_text_or_null(item->path));
    json_add(object, "state", json_text_or_null(dpcpp_item_state(item)));
    json_add(object, "kind", json_text_or_null(dpcpp_item_kind(item)));
    json_add(object, "bin_fault", json_text_or_null(content->bin_fault));
    json_add(object, "src_fault", json_text_or_null(content->src_fault));
    json_add(object, "device", json_text_or_null(content->device));
    json_add(object, "options", json_text_or_null(content->options));
    json_add(object, "constant_bytes", json_number(records[SRC_CONSTANTS].size));
    json_add(object, "image_bytes", json_number(records[SRC_IMAGES].size));
    json_add(object, "image_format", json_text_or_null(image_format(tree, item)));
    json_add(object, "bytes", json_number(content->bin.size));
    json_add(object, "format", json_text_or_null(binary_format(tree, item)));
    json_add(object, "binaries", json_number(content->bin.binary_count));
    json_add(object, "stored_bytes", json_number(dpcpp_item_stored_size(item)));
    json_add(object, "last_used", json_number(content->last_access_ns / NS_PER_S));
    json_add(object, "has_stamp", must(json_boolean(content->has_stamp)));
    json_print(stdout, object);
}

static void add_size(struct table *table, const char *name, uint64_t size, const char *format)
{
    char text[UNIT_TEXT_SIZE], both[UNIT_TEXT_SIZE + 32];
    snprintf(both, sizeof both, "%s%s%s", format_size(size, text), size > 0 ? ", " : "",
             size > 0 ? format : "");
    table_add_fact(table, name, both);
}

static void print_overview(const cache_tree *tree, const dpcpp_item *item)
{
    const slot_item *content = &item->item;
    const src_record *records = content->src.records;
    struct table *table = table_new_facts();
    char text[UNIT_TEXT_SIZE];
    table_add_fact(table, "id", item->id);
    table_add_fact(table, "path", item->path);
    table_add_fact(table, "state", dpcpp_item_state(item));
    if (content->bin_fault != NULL) {
        table_add_fact(table, ".bin", content->bin_fault);
    }
    if (content->src_fault != NULL) {
        table_add_fact(table, ".src", content->src_fault);
    }
    table_add_fact(table, "kind", dpcpp_item_kind(item));
    table_add_fact(table, "device", content->device);
    table_add_fact(table, "options", content->options);
    table_add_fact(table, "constants", format_size(records[SRC_CONSTANTS].size, text));
    add_size(table, "images", records[SRC_IMAGES].size, image_format(tree, item));
    add_size(table, "binary", content->bin.size, binary_format(tree, item));
    table_add_fact(table, "on disk", format_size(dpcpp_item_stored_size(item), text));
    table_add_fact(table, content->has_stamp ? "last used" : "written",
                   format_time((int64_t)(content->last_access_ns / NS_PER_S), text));
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
    cache_tree tree = root_read(request);
    int exit_code = EXIT_OK;
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
