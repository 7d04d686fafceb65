/* SPDX-License-Identifier: Apache-2.0 */
#include "item.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"
#include "files.h"
#include "std_hash.h"

/* Texts of a key that are longer than this are not read. */
#define MAX_TEXT_BYTES 65536

/* An image's path has a level for each record of its key. The level's name is the hash of that
 * record. This array has the record for each level. */
static const int record_of_level[] = {SRC_DEVICE, SRC_IMAGES, SRC_CONSTANTS, SRC_OPTIONS};
#define LEVELS (sizeof record_of_level / sizeof record_of_level[0])

static bool open_slot_file(int directory, const cache_slot *slot, slot_file which,
                           open_file *ret_file)
{
    char name[SLOT_NAME_SIZE];
    slot_name_format(slot->number, which, name);
    return open_file_in(directory, name, ret_file);
}

static void read_bin(int directory, const cache_slot *slot, slot_item *item)
{
    open_file file;
    if (!open_slot_file(directory, slot, SLOT_BIN, &file)) {
        item->is_readable = item->is_readable && errno == ENOENT;
        item->bin_fault = "can't be read";
        return;
    }
    byte_source source = file_source(&file);
    item->bin_fault = bin_file_parse(&source, &item->bin);
    close_file(&file);
}

static char *record_text(const byte_source *source, const src_record *record)
{
    if (record->size > MAX_TEXT_BYTES) {
        return NULL;
    }
    char *text = must(calloc(1, (size_t)record->size + 1));
    if (record->size > 0 &&
        !source->read(source->user, record->offset, text, (size_t)record->size)) {
        free(text);
        return NULL;
    }
    return text;
}

static const char *compare_with_path(const item_directory *in, const src_file *src,
                                     bool *ret_is_foreign)
{
    unsigned equal = 0;
    for (size_t i = 0; i < LEVELS; i++) {
        equal += src->records[record_of_level[i]].hash == in->levels[i];
    }
    *ret_is_foreign = equal == 0;
    return equal == LEVELS ? NULL : "does not belong to its path";
}

static void read_src(int directory, const item_directory *in, const cache_slot *slot,
                     item_depth depth, slot_item *item)
{
    open_file file;
    if (!open_slot_file(directory, slot, SLOT_SRC, &file)) {
        item->is_readable = item->is_readable && errno == ENOENT;
        item->src_fault = "can't be read";
        return;
    }
    byte_source source = file_source(&file);
    item->src_fault = src_file_parse(&source, &item->src);
    item->has_whole_src = item->src_fault == NULL;
    if (item->src_fault == NULL) {
        item->device = record_text(&source, &item->src.records[SRC_DEVICE]);
        item->options = record_text(&source, &item->src.records[SRC_OPTIONS]);
        if (depth == ITEM_WHOLE && src_file_hash(&source, &item->src)) {
            item->src_fault = compare_with_path(in, &item->src, &item->has_foreign_key);
        } else if (depth == ITEM_WHOLE) {
            item->is_readable = false;
            item->src_fault = "can't be read";
        }
    }
    close_file(&file);
}

static void read_stamp(int directory, const cache_slot *slot, slot_item *item)
{
    const file_facts *written =
        &slot->files[slot->files[SLOT_BIN].is_there ? SLOT_BIN : SLOT_STAMP];
    if (written->changed_s > 0) {
        item->last_access_ns =
            (uint64_t)written->changed_s * 1000000000 + (uint64_t)written->changed_ns;
    }
    char name[SLOT_NAME_SIZE];
    slot_name_format(slot->number, SLOT_STAMP, name);
    bool is_number = false;
    uint64_t number;
    if (!slot->files[SLOT_STAMP].is_there) {
        return;
    }
    if (!read_number_in(directory, name, &is_number, &number)) {
        return;
    }
    item->has_stamp = is_number;
    item->stamp_is_damaged = !is_number;
    if (is_number) {
        item->last_access_ns = number;
    }
}

bool is_path_of_runtime(const item_directory *in)
{
    const uint64_t nothing = std_hash_of("", 0);
    return in->kind != ITEM_IMAGE || in->levels[2] == nothing || in->levels[3] == nothing;
}

static item_evidence evidence_of(const item_directory *in, const cache_slot *slot,
                                 const slot_item *item)
{
    const bool has_src = slot->files[SLOT_SRC].is_there;
    const bool bin_is_whole = slot->files[SLOT_BIN].is_there && item->bin_fault == NULL;
    if (in->kind == ITEM_IMAGE ? item->has_whole_src : bin_is_whole) {
        return EVIDENCE_WHOLE;
    }
    if (slot_size(slot) == 0) {
        return is_path_of_runtime(in) ? EVIDENCE_EMPTY : EVIDENCE_NONE;
    }
    return has_src || !bin_is_whole ? EVIDENCE_STRANGE : EVIDENCE_NONE;
}

void item_read(int directory, const item_directory *in, const cache_slot *slot, item_depth depth,
               slot_item *ret_item)
{
    slot_item item = {.is_readable = true};
    if (slot->files[SLOT_BIN].is_there) {
        read_bin(directory, slot, &item);
    }
    if (slot->files[SLOT_SRC].is_there) {
        read_src(directory, in, slot, depth, &item);
    }
    read_stamp(directory, slot, &item);
    item.evidence = evidence_of(in, slot, &item);
    *ret_item = item;
}

void item_clear(slot_item *item)
{
    free(item->device);
    free(item->options);
    *item = (slot_item){0};
}

bool item_is_whole(const item_directory *in, const cache_slot *slot, const slot_item *item)
{
    return item->is_readable && slot->files[SLOT_BIN].is_there && item->bin_fault == NULL &&
           (in->kind != ITEM_IMAGE || (slot->files[SLOT_SRC].is_there && item->src_fault == NULL));
}

/* ---- keys ---- */

static bool have_same_bytes(open_file *a, open_file *b)
{
    unsigned char piece_a[16384], piece_b[16384];
    byte_source source_a = file_source(a), source_b = file_source(b);
    if (a->size != b->size) {
        return false;
    }
    for (uint64_t done = 0; done < a->size;) {
        uint64_t left = a->size - done;
        size_t size = left < sizeof piece_a ? (size_t)left : sizeof piece_a;
        if (!source_a.read(a, done, piece_a, size) || !source_b.read(b, done, piece_b, size) ||
            memcmp(piece_a, piece_b, size) != 0) {
            return false;
        }
        done += size;
    }
    return true;
}

bool slots_have_same_key(int directory, const item_directory *in, const cache_slot *a,
                         const cache_slot *b)
{
    if (in->kind != ITEM_IMAGE) {
        return true; /* these items have no .src, so only the path is known about their keys */
    }
    open_file file_a, file_b;
    if (!open_slot_file(directory, a, SLOT_SRC, &file_a)) {
        return false;
    }
    bool are_same = false;
    if (open_slot_file(directory, b, SLOT_SRC, &file_b)) {
        are_same = have_same_bytes(&file_a, &file_b);
        close_file(&file_b);
    }
    close_file(&file_a);
    return are_same;
}
