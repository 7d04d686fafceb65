/* SPDX-License-Identifier: Apache-2.0 */
#include "warmth.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../store/walk.h"
#include "../text/json.h"
#include "../text/memory.h"
#include "../text/progress.h"

#define NVRTC "NVRTC "

typedef struct built_program {
    char *driver;         /* with its version */
    kiln_digest library;  /* of what identifies NVRTC; equal for all drivers of OpenCL */
    size_t family_length; /* of the beginning of @driver that names no version */
    kiln_digest inputs;
    int64_t created_s;
} built_program;

typedef struct program_list {
    built_program *items;
    size_t count, capacity;
} program_list;

/* Splits the text of a device: "PLATFORM / DEVICE / VERSION", or "NVRTC VERSION ARCHITECTURE", of
 * which the architecture is not a part of the driver. Returns the driver, which the caller frees;
 * NULL: the text is neither. */
static char *driver_in(const char *device, size_t *ret_family_length)
{
    const char *version = strrchr(device, '/');
    if (strncmp(device, NVRTC, strlen(NVRTC)) == 0) {
        *ret_family_length = strlen(NVRTC);
        return text_of("%.*s", (int)(strlen(NVRTC) + strcspn(device + strlen(NVRTC), " ")), device);
    }
    if (version == NULL) {
        return NULL;
    }
    *ret_family_length = (size_t)(version - device) + 1;
    return must(strdup(device));
}

/* Two builds of NVRTC may have the same version. */
static kiln_digest library_in(const kiln_key *key)
{
    kiln_key_builder *builder = NULL;
    kiln_key *parts = NULL;
    kiln_key_part part;
    must_succeed(kiln_key_builder_new(&builder));
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strncmp(part.name, "nvrtc.", strlen("nvrtc.")) == 0 && part.bytes != NULL) {
            must_succeed(kiln_key_builder_add(builder, part.name, part.bytes, (size_t)part.size));
        }
    }
    must_succeed(kiln_key_builder_finish(builder, &parts));
    kiln_key_builder_free(&builder);
    const kiln_digest digest = kiln_key_digest(parts);
    kiln_key_release(&parts);
    return digest;
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    (void)digest;
    program_list *list = user;
    kiln_entry *entry = NULL;
    built_program found = {.created_s = info->created_s};
    progress_step("read");
    if (info->kind != KILN_ENTRY_PROGRAM ||
        (found.driver = driver_in(info->device, &found.family_length)) == NULL) {
        return 0;
    }
    if (kiln_item_read(item, &entry) != KILN_OK) {
        free(found.driver);
        return 0;
    }
    found.inputs = work_list_inputs_of(kiln_entry_key(entry), NULL);
    found.library = library_in(kiln_entry_key(entry));
    kiln_entry_release(&entry);
    list->items = array_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = found;
    return 0;
}

static int by_family(const built_program *a, const built_program *b)
{
    const size_t shorter =
        a->family_length < b->family_length ? a->family_length : b->family_length;
    const int order = memcmp(a->driver, b->driver, shorter);
    return order != 0
               ? order
               : (a->family_length > b->family_length) - (a->family_length < b->family_length);
}

static int by_family_and_inputs(const void *left, const void *right)
{
    const built_program *a = left, *b = right;
    const int order = by_family(a, b);
    return order != 0 ? order : memcmp(&a->inputs, &b->inputs, sizeof a->inputs);
}

/* Returns a program of the newest driver. */
static const built_program *newest_of(const built_program *items, size_t count)
{
    const built_program *newest = items;
    for (size_t i = 1; i < count; i++) {
        newest = items[i].created_s > newest->created_s ? &items[i] : newest;
    }
    return newest;
}

static bool has_same_driver(const built_program *a, const built_program *b)
{
    return strcmp(a->driver, b->driver) == 0 &&
           memcmp(&a->library, &b->library, sizeof a->library) == 0;
}

/* Receives the programs of the drivers of one family, sorted by their inputs. */
typedef void family_step(void *user, const built_program *items, size_t count);

static void each_family(kiln_store *store, family_step *step, void *user)
{
    program_list list = {0};
    walk_items(store, visit, &list);
    progress_end();
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof *list.items, by_family_and_inputs);
    }
    for (size_t first = 0, i = 0; first < list.count; first = i) {
        while (i < list.count && by_family(&list.items[first], &list.items[i]) == 0) {
            i++;
        }
        step(user, list.items + first, i - first);
    }
    for (size_t i = 0; i < list.count; i++) {
        free(list.items[i].driver);
    }
    free(list.items);
}

/* ---- how many programs are ready ---- */

static void add_family(void *user, const built_program *items, size_t count)
{
    json_t *array = user;
    const built_program *newest = newest_of(items, count);
    uint64_t programs = 0, ready = 0;
    for (size_t i = 0; i < count;) {
        const size_t first = i;
        bool has_newest = false, has_older = false;
        for (; i < count && by_family_and_inputs(&items[first], &items[i]) == 0; i++) {
            const bool is_newest = has_same_driver(&items[i], newest);
            has_newest |= is_newest;
            has_older |= !is_newest;
        }
        programs += has_older;
        ready += has_older && has_newest;
    }
    if (programs > 0) {
        json_t *object = must(json_object());
        json_add(object, "driver", json_text_or_null(newest->driver));
        json_add(object, "programs", json_number(programs));
        json_add(object, "ready", json_number(ready));
        json_push(array, object);
    }
}

json_t *warmth_read(kiln_store *store)
{
    json_t *array = must(json_array());
    each_family(store, add_family, array);
    return array;
}

/* ---- what is ready ---- */

typedef struct digest_list {
    kiln_digest *items;
    size_t count, capacity;
} digest_list;

static int by_digest(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(kiln_digest));
}

static void add_ready(void *user, const built_program *items, size_t count)
{
    digest_list *ready = user;
    const built_program *newest = newest_of(items, count);
    for (size_t i = 0; i < count; i++) {
        if (has_same_driver(&items[i], newest)) {
            ready->items =
                array_grown(ready->items, ready->count, &ready->capacity, sizeof *ready->items);
            ready->items[ready->count++] = items[i].inputs;
        }
    }
}

void warmth_put_ready_last(kiln_store *store, work_list *list)
{
    digest_list ready = {0};
    each_family(store, add_ready, &ready);
    if (ready.count == 0) {
        return;
    }
    qsort(ready.items, ready.count, sizeof *ready.items, by_digest);
    work_item *last = must(calloc(list->count + 1, sizeof *last));
    size_t first_count = 0, last_count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const work_item *item = &list->items[i];
        if (bsearch(&item->inputs, ready.items, ready.count, sizeof *ready.items, by_digest) !=
            NULL) {
            last[last_count++] = *item;
        } else {
            list->items[first_count++] = *item;
        }
    }
    memcpy(list->items + first_count, last, last_count * sizeof *last);
    free(last);
    free(ready.items);
}
