/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding is little-endian. It begins with the number of functions, u32. For each function it
 * contains the name, the number of folds, u32, and the folds. Each fold consists of one or two
 * arguments and the result, u64 each, the errno, u32, and the exceptions, u8. Functions and folds
 * are in ascending order.
 */
#include "device/watch/constant_folds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/floating_point.h"
#include "device/watch/encoding.h"
#include "key/hash.h"

struct kilni_folds {
    kilni_floating_point mode;
    kilni_fold *items;
    size_t count;
    uint16_t *table; /* hash table by function and arguments: a cell has 1 + the item's index, or 0
                        if it is empty. There are twice as many cells as there is room for items */
    size_t room;     /* a power of two */
    const char *failure; /* why the result cannot be kept; NULL: it can */
    bool is_out_of_memory;
};

/* ---- recording ---- */

kiln_status kilni_folds_new(kilni_folds **ret_folds)
{
    kilni_folds *folds = calloc(1, sizeof *folds);
    if (!folds) {
        return KILN_E_NO_MEMORY;
    }
    folds->mode = kilni_floating_point_get();
    *ret_folds = folds;
    return KILN_OK;
}

void kilni_folds_free(kilni_folds **folds)
{
    if (*folds) {
        free((*folds)->items);
        free((*folds)->table);
        free(*folds);
        *folds = NULL;
    }
}

static bool has_same_arguments(const kilni_fold *a, const kilni_fold *b)
{
    return a->function == b->function && a->arguments[0] == b->arguments[0] &&
           a->arguments[1] == b->arguments[1];
}

static bool has_same_result(const kilni_fold *a, const kilni_fold *b)
{
    return a->result == b->result && a->error == b->error && a->raised == b->raised;
}

/* Returns the cell that has the fold, or the empty cell in which the fold belongs. */
static uint16_t *find_cell(const kilni_folds *folds, const kilni_fold *fold)
{
    const uint64_t values[] = {fold->function, fold->arguments[0], fold->arguments[1]};
    const kiln_digest digest = kilni_hash(values, sizeof values);
    const size_t mask = 2 * folds->room - 1;
    size_t at = 0;
    memcpy(&at, digest.bytes, sizeof at);
    for (at &= mask; folds->table[at] != 0; at = (at + 1) & mask) {
        if (has_same_arguments(&folds->items[folds->table[at] - 1], fold)) {
            break;
        }
    }
    return &folds->table[at];
}

static kiln_status grow(kilni_folds *folds)
{
    const size_t room = folds->room ? 2 * folds->room : 16;
    kilni_fold *items = realloc(folds->items, room * sizeof *items);
    if (!items) {
        return KILN_E_NO_MEMORY;
    }
    folds->items = items;
    uint16_t *table = calloc(2 * room, sizeof *table);
    if (!table) {
        return KILN_E_NO_MEMORY;
    }
    free(folds->table);
    folds->table = table;
    folds->room = room;
    for (size_t i = 0; i < folds->count; i++) {
        *find_cell(folds, &folds->items[i]) = (uint16_t)(i + 1);
    }
    return KILN_OK;
}

static void add(kilni_folds *folds, const kilni_fold *fold)
{
    if (folds->count == folds->room && grow(folds) != KILN_OK) {
        folds->is_out_of_memory = true;
        return;
    }
    uint16_t *cell = find_cell(folds, fold);
    if (*cell == 0 && folds->count == KILNI_FOLDS_MAX) {
        folds->failure = "too many constants are folded";
    } else if (*cell == 0) {
        folds->items[folds->count++] = *fold;
        *cell = (uint16_t)folds->count;
    } else if (!has_same_result(&folds->items[*cell - 1], fold)) {
        folds->failure =
            "a function of the C library returns different results for equal arguments";
    }
}

void kilni_folds_note(kilni_folds *folds, const kilni_fold *fold)
{
    if (folds->failure || folds->is_out_of_memory) {
        return;
    }
    if (!kilni_floating_point_equals(folds->mode, kilni_floating_point_get())) {
        folds->failure = "constants are folded in a different floating-point mode";
        return;
    }
    add(folds, fold);
}

void kilni_folds_add_all(kilni_folds *folds, const kilni_folds *others)
{
    for (size_t i = 0; i < others->count; i++) {
        kilni_folds_note(folds, &others->items[i]);
    }
    folds->failure = folds->failure ? folds->failure : others->failure;
    if (!kilni_floating_point_equals(folds->mode, others->mode)) {
        folds->failure = "constants are folded in different floating-point modes";
    }
    folds->is_out_of_memory |= others->is_out_of_memory;
}

/* ---- encoding ---- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare(const void *a, const void *b)
{
    const kilni_fold *first = a, *second = b;
    int order = strcmp(kilni_math_name(first->function), kilni_math_name(second->function));
    for (int i = 0; i < 2 && order == 0; i++) {
        order = compare_numbers(first->arguments[i], second->arguments[i]);
    }
    return order;
}

static kiln_status append_fold(kilni_text *text, const kilni_fold *fold)
{
    kiln_status status = KILN_OK;
    for (int i = 0; i < kilni_math_arity(fold->function) && status == KILN_OK; i++) {
        status = kilni_append_number(text, fold->arguments[i], 8);
    }
    if (status == KILN_OK) {
        status = kilni_append_number(text, fold->result, 8);
    }
    if (status == KILN_OK) {
        status = kilni_append_number(text, fold->error, 4);
    }
    return status == KILN_OK ? kilni_append_number(text, fold->raised, 1) : status;
}

/* Appends the folds of one function, of which there are @count. */
static kiln_status append_function(kilni_text *text, const kilni_fold *items, size_t count)
{
    kiln_status status = kilni_append_text(text, kilni_math_name(items[0].function));
    if (status == KILN_OK) {
        status = kilni_append_number(text, count, 4);
    }
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        status = append_fold(text, &items[i]);
    }
    return status;
}

/* Returns how many items at the beginning of @items have the first item's function. */
static size_t count_of_function(const kilni_fold *items, size_t left)
{
    size_t count = 1;
    while (count < left && items[count].function == items[0].function) {
        count++;
    }
    return count;
}

static kiln_status encode(const kilni_folds *folds, kilni_text *text)
{
    size_t functions = 0, count = 0;
    for (size_t i = 0; i < folds->count; i += count, functions++) {
        count = count_of_function(&folds->items[i], folds->count - i);
    }
    kiln_status status = kilni_append_number(text, functions, 4);
    for (size_t i = 0; i < folds->count && status == KILN_OK; i += count) {
        count = count_of_function(&folds->items[i], folds->count - i);
        status = append_function(text, &folds->items[i], count);
    }
    return status;
}

kiln_status kilni_folds_finish(kilni_folds *folds, kilni_text *ret_encoded, const char **ret_why)
{
    kilni_text encoded = {0};
    if (folds->is_out_of_memory) {
        return KILN_E_NO_MEMORY;
    }
    if (folds->failure) {
        *ret_why = folds->failure;
        return KILN_E_UNSUPPORTED;
    }
    if (folds->count > 0) {
        qsort(folds->items, folds->count, sizeof *folds->items, compare);
    }
    const kiln_status status = encode(folds, &encoded);
    if (status != KILN_OK) {
        kilni_text_done(&encoded);
        return status;
    }
    *ret_encoded = encoded;
    return KILN_OK;
}

/* ---- checking again ---- */

static kiln_status check_again(const kilni_fold *stored)
{
    kilni_fold now = *stored;
    return kilni_math_call(&now) && has_same_result(&now, stored) ? KILN_OK : KILN_MISS;
}

static kiln_status compare_function(kilni_byte_reader *reader, int function, uint32_t count)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < count && status == KILN_OK; i++) {
        kilni_fold stored = {.function = (uint8_t)function};
        for (int a = 0; a < kilni_math_arity(function); a++) {
            stored.arguments[a] = kilni_read_u64(reader);
        }
        stored.result = kilni_read_u64(reader);
        stored.error = kilni_read_u32(reader);
        stored.raised = kilni_read_u8(reader);
        status = reader->failed ? KILN_E_CORRUPT : check_again(&stored);
    }
    return status;
}

static kiln_status compare_functions(kilni_byte_reader *reader, uint32_t functions,
                                     const char **ret_changed)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < functions && status == KILN_OK; i++) {
        const char *name = kilni_read_text(reader);
        const uint32_t count = kilni_read_u32(reader);
        if (reader->failed || !name || count > KILNI_FOLDS_MAX) {
            return KILN_E_CORRUPT;
        }
        const int function = kilni_math_find(name);
        status = function < 0 ? KILN_MISS : compare_function(reader, function, count);
        if (status == KILN_MISS && ret_changed) {
            *ret_changed = name;
        }
    }
    return status == KILN_OK && reader->left != 0 ? KILN_E_CORRUPT : status;
}

kiln_status kilni_folds_hold(kiln_bytes encoded, const char **ret_changed)
{
    kilni_byte_reader reader = {.at = encoded.data, .left = encoded.size};
    const uint32_t functions = kilni_read_u32(&reader);
    if (reader.failed || functions == 0) {
        return reader.failed || reader.left != 0 ? KILN_E_CORRUPT : KILN_OK;
    }
    const int number = errno;
    const kilni_floating_point_before before = kilni_floating_point_silence();
    const kiln_status status = compare_functions(&reader, functions, ret_changed);
    kilni_floating_point_restore(&before);
    errno = number;
    return status;
}
