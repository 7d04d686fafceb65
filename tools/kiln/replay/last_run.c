/* SPDX-License-Identifier: Apache-2.0 */
#include "last_run.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/journal.h>

#include "../text/memory.h"

typedef struct asked_entry {
    kiln_digest digest;
    size_t place; /* in the order of the run */
} asked_entry;

typedef struct last_run {
    const char *program;
    uint32_t present; /* the process that runs now */
    uint32_t process; /* the process of the last run so far */
    asked_entry *items;
    size_t count, capacity;
} last_run;

/* The events of several processes are mixed. If two runs overlap, what counts is from the last
 * event of the other one on. */
static int take_event(void *user, const kiln_journal_event *event)
{
    last_run *run = user;
    if ((event->kind != KILN_JOURNAL_HIT && event->kind != KILN_JOURNAL_BUILD) ||
        event->pid == run->present || strcmp(event->program, run->program) != 0) {
        return 0;
    }
    if (event->pid != run->process) {
        run->process = event->pid;
        run->count = 0;
    }
    run->items = array_grown(run->items, run->count, &run->capacity, sizeof *run->items);
    run->items[run->count] = (asked_entry){.digest = event->digest, .place = run->count};
    run->count++;
    return 0;
}

static int by_digest_and_place(const void *left, const void *right)
{
    const asked_entry *a = left, *b = right;
    const int order = memcmp(&a->digest, &b->digest, sizeof a->digest);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

/* Returns the place of an entry in the run; @otherwise if it is not there. The events are sorted by
 * digest and place. */
static size_t place_of(const last_run *run, const char *digest, size_t otherwise)
{
    asked_entry wanted = {.place = 0};
    size_t first = 0, end = run->count;
    if (kiln_digest_parse(digest, &wanted.digest) != KILN_OK) {
        return otherwise;
    }
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (by_digest_and_place(&run->items[middle], &wanted) < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first < run->count &&
                   memcmp(&run->items[first].digest, &wanted.digest, sizeof wanted.digest) == 0
               ? run->items[first].place
               : otherwise;
}

typedef struct placed_item {
    work_item item;
    size_t place;
} placed_item;

static int by_place(const void *left, const void *right)
{
    const placed_item *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

static void sort(const last_run *run, work_list *list)
{
    placed_item *items = must(calloc(list->count + 1, sizeof *items));
    for (size_t i = 0; i < list->count; i++) {
        items[i] = (placed_item){
            .item = list->items[i],
            .place = place_of(run, list->items[i].digest, run->count + i),
        };
    }
    qsort(items, list->count, sizeof *items, by_place);
    for (size_t i = 0; i < list->count; i++) {
        list->items[i] = items[i].item;
    }
    free(items);
}

void last_run_put_first(kiln_store *store, const char *run, work_list *list)
{
    char *program = NULL;
    last_run found = {.present = (uint32_t)strtoul(run, &program, 10)};
    found.program = program + strspn(program, " ");
    kiln_store_each_journal_event(store, take_event, &found, NULL);
    if (found.count > 0) {
        qsort(found.items, found.count, sizeof *found.items, by_digest_and_place);
        sort(&found, list);
    }
    free(found.items);
}
