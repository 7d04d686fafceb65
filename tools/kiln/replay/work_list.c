/* SPDX-License-Identifier: Apache-2.0 */
#include "work_list.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../entry/architecture.h"
#include "../store/listing.h"
#include "../store/uses.h"
#include "../store/walk.h"
#include "../text/memory.h"
#include "../text/progress.h"

#define SECONDS_PER_DAY 86400

/* The size of a part's digest. */
#define STRIPPED_BYTES 32

typedef struct reading {
    work_list *list;
    store_uses uses;
    entry_filter *filter;
    const char *architecture;
} reading;

/* Adds an option as the repeated build will have it.
 *
 * @is_value  the option before this one expects an architecture; updated for the next option */
static void add_option(kiln_key_builder *builder, const kiln_key_part *part,
                       const char *architecture, bool *is_value)
{
    owned char *option = text_of("%.*s", (int)part->size, (const char *)part->bytes);
    owned char *replaced = architecture_replaced(option, *is_value, architecture);
    must_succeed(kiln_key_builder_add_text(builder, "option", replaced));
    *is_value = architecture_expects_value(option);
}

/* Adds the inputs of a build, and those of the objects that it links. */
static void add_inputs(kiln_key_builder *builder, const kiln_key *key, const char *architecture)
{
    kiln_key_part part;
    bool is_value = false;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        kiln_key *compiled = NULL;
        if (strcmp(part.name, "option") == 0 && part.bytes != NULL) {
            add_option(builder, &part, architecture, &is_value);
        } else if (strcmp(part.name, "input") == 0 && part.bytes != NULL &&
                   kiln_key_decode(part.bytes, (size_t)part.size, &compiled) == KILN_OK) {
            must_succeed(kiln_key_builder_add_text(builder, "input", ""));
            add_inputs(builder, compiled, architecture);
            kiln_key_release(&compiled);
        } else if (recipe_is_input(part.name) || strcmp(part.name, "platform.name") == 0) {
            must_succeed(kiln_key_builder_add(
                builder, part.name, part.bytes != NULL ? part.bytes : part.digest,
                part.bytes != NULL ? (size_t)part.size : STRIPPED_BYTES));
        }
    }
}

kiln_digest work_list_inputs_of(const kiln_key *key, const char *architecture)
{
    kiln_key_builder *builder = NULL;
    kiln_key *inputs = NULL;
    must_succeed(kiln_key_builder_new(&builder));
    add_inputs(builder, key, architecture);
    must_succeed(kiln_key_builder_finish(builder, &inputs));
    const kiln_digest digest = kiln_key_digest(inputs);
    kiln_key_release(&inputs);
    kiln_key_builder_free(&builder);
    return digest;
}

static void add(const reading *r, const kiln_item_info *info, const char *digest,
                const kiln_entry *entry)
{
    work_list *list = r->list;
    list->items = array_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    const entry_use *use = uses_of(&r->uses, &info->digest);
    const int64_t journal_s = use != NULL ? use->last_s : 0;
    work_item *item = &list->items[list->count++];
    *item =
        (work_item){.name = must(strdup(info->name)),
                    .device = must(strdup(info->device)),
                    .build_ns = info->build_ns,
                    .uses = use != NULL ? use->count : 0,
                    .last_used_s = journal_s > info->last_used_s ? journal_s : info->last_used_s,
                    .inputs = work_list_inputs_of(kiln_entry_key(entry), r->architecture)};
    memcpy(item->digest, digest, sizeof item->digest);
    must_succeed(kiln_key_strip(kiln_entry_key(entry), sizeof(kiln_digest), &item->key));
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    const reading *r = user;
    kiln_entry *entry = NULL;
    const bool may_be_build = info->kind == KILN_ENTRY_PROGRAM || info->kind == KILN_ENTRY_BLOB;
    if (!may_be_build || !entry_filter_selects_item(r->filter, item, info)) {
        return 0;
    }
    progress_step("read");
    const kiln_status status = kiln_item_read(item, &entry);
    if (status == KILN_OK && recipe_is_build(entry)) {
        add(r, info, digest, entry);
    } else if (status != KILN_OK) {
        r->list->unreadable += status != KILN_MISS;
    }
    kiln_entry_release(&entry);
    return 0;
}

/* ---- the order ---- */

static int by_inputs(const void *a, const void *b)
{
    const work_item *first = a, *second = b;
    const int order = memcmp(&first->inputs, &second->inputs, sizeof first->inputs);
    return order != 0 ? order
                      : (first->last_used_s < second->last_used_s) -
                            (first->last_used_s > second->last_used_s);
}

static void free_item(work_item *item)
{
    free(item->name);
    free(item->device);
    kiln_key_release(&item->key);
}

/* Of several entries of the same build, keeps the one that was used last, with the uses of all. */
static void remove_repeated(work_list *list)
{
    size_t kept = 0;
    qsort(list->items, list->count, sizeof *list->items, by_inputs);
    for (size_t i = 0; i < list->count; i++) {
        work_item *item = &list->items[i];
        if (kept > 0 &&
            memcmp(&item->inputs, &list->items[kept - 1].inputs, sizeof item->inputs) == 0) {
            list->items[kept - 1].uses += item->uses;
            free_item(item);
        } else {
            list->items[kept++] = *item;
        }
    }
    list->count = kept;
}

/* What a build is worth: its cost for each use that can be expected. These are the uses so far, and
 * one more for an entry that has not been used since it was built, or whose uses the journal does
 * not have; divided by the days since the last use, because a program may have ceased to need it.
 */
static double worth(const work_item *item, int64_t now_s)
{
    const int64_t age_s = now_s > item->last_used_s ? now_s - item->last_used_s : 0;
    return (double)item->build_ns * (1 + (double)item->uses) /
           (1 + (double)age_s / SECONDS_PER_DAY);
}

static int64_t order_s; /* the time to which by_worth refers */

static int by_worth(const void *a, const void *b)
{
    const work_item *first = a, *second = b;
    const double x = worth(first, order_s), y = worth(second, order_s);
    return x != y ? (x < y) - (x > y) : strcmp(first->digest, second->digest);
}

kiln_status work_list_read(kiln_store *store, entry_filter *filter, const char *architecture,
                           work_list *ret_list)
{
    reading r = {.list = ret_list, .filter = filter, .architecture = architecture};
    *ret_list = (work_list){0};
    kiln_status status = listing_choose(store, filter);
    if (status == KILN_OK) {
        uses_read(store, &r.uses);
        status = walk_items(store, visit, &r);
    }
    progress_end();
    uses_free(&r.uses);
    if (ret_list->count > 0) {
        remove_repeated(ret_list);
        order_s = time(NULL);
        qsort(ret_list->items, ret_list->count, sizeof *ret_list->items, by_worth);
    }
    return status;
}

void work_list_free(work_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free_item(&list->items[i]);
    }
    free(list->items);
}
