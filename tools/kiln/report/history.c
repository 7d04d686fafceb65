/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../text/memory.h"

#define NS_PER_S INT64_C(1000000000)

/* ---- sums ---- */

static int compare_labels(const void *left, const void *right)
{
    const tally *a = left, *b = right;
    return strcmp(a->label, b->label);
}

tally *tally_of(tally_list *list, const char *label)
{
    char *copy = must(strdup(label));
    tally wanted = {.label = copy};
    tally **found = must(tsearch(&wanted, &list->tree, compare_labels));
    if (*found != &wanted) {
        free(copy);
        return *found;
    }
    tally *added = must(calloc(1, sizeof *added));
    added->label = copy;
    *found = added;
    list->items = array_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = added;
    return added;
}

static int by_time(const void *left, const void *right)
{
    const tally *a = *(tally *const *)left, *b = *(tally *const *)right;
    const uint64_t first = a->saved_ns + a->lost_ns, second = b->saved_ns + b->lost_ns;
    return first != second ? (first < second) - (first > second) : strcmp(a->label, b->label);
}

static int by_label(const void *left, const void *right)
{
    return compare_labels(*(tally *const *)left, *(tally *const *)right);
}

void tally_list_sort(tally_list *list, bool by_labels)
{
    if (list->count > 0) {
        qsort(list->items, list->count, sizeof *list->items, by_labels ? by_label : by_time);
    }
}

static void keep(void *unused)
{
    (void)unused;
}

void tally_list_free(tally_list *list)
{
    tdestroy(list->tree, keep);
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]->label);
        free(list->items[i]);
    }
    free(list->items);
    *list = (tally_list){0};
}

static void add_to(tally *sums, const kiln_journal_event *event)
{
    switch (event->kind) {
    case KILN_JOURNAL_HIT:
        sums->hits += event->count;
        sums->saved_ns += event->saved_ns;
        break;
    case KILN_JOURNAL_MEMORY_HITS:
        sums->memory_hits += event->count;
        sums->saved_ns += event->saved_ns;
        break;
    case KILN_JOURNAL_FAILURE:
        sums->failures += event->count;
        sums->lost_ns += event->build_ns + event->wait_ns;
        break;
    default:
        sums->builds += event->count;
        sums->lost_ns += event->build_ns + event->wait_ns;
    }
}

/* ---- keys ---- */

/* What each key has saved and lost in the period, so that it can be added to its device. */
typedef struct summed_key {
    built_key key; /* first, so that its address is that of the key */
    tally sums;
} summed_key;

static int compare_digests(const void *left, const void *right)
{
    return strcmp(left, right);
}

static summed_key *key_of(use_history *history, size_t *capacity, const char *digest)
{
    void **found = must(tsearch(digest, &history->key_tree, compare_digests));
    if (*found != digest) {
        return *found;
    }
    summed_key *added = must(calloc(1, sizeof *added));
    memcpy(added->key.digest, digest, sizeof added->key.digest);
    added->key.program = must(strdup(""));
    added->key.device = must(strdup(""));
    added->key.name = must(strdup(""));
    *found = added;
    history->keys = array_grown(history->keys, history->key_count, capacity, sizeof(built_key *));
    history->keys[history->key_count++] = &added->key;
    return added;
}

static void set_text(char **text, const char *value)
{
    if (value[0] != '\0' && strcmp(*text, value) != 0) {
        free(*text);
        *text = must(strdup(value));
    }
}

static void note_build(built_key *key, const kiln_journal_event *event, int64_t last_ns)
{
    key->has_failed = event->kind == KILN_JOURNAL_FAILURE;
    key->builds += key->has_failed ? 0 : event->count;
    key->failures += key->has_failed ? event->count : 0;
    key->lost_ns += event->build_ns + event->wait_ns;
    key->missed_ns = event->time_ns;
    key->before_ns = last_ns;
    key->store = event->store;
    key->kept = event->kept;
    set_text(&key->program, event->program);
}

/* ---- events ---- */

typedef struct event_reader {
    use_history *history;
    size_t key_capacity;
} event_reader;

static void day_label(int64_t time_ns, char *label, size_t size)
{
    const time_t time_s = (time_t)(time_ns / NS_PER_S);
    struct tm local;
    if (localtime_r(&time_s, &local) == NULL || strftime(label, size, "%Y-%m-%d", &local) == 0) {
        label[0] = '\0';
    }
}

static tally *day_of(use_history *history, int64_t time_ns)
{
    char label[32];
    day_label(time_ns, label, sizeof label);
    return tally_of(&history->days, label);
}

static void note_times(use_history *history, int64_t time_ns)
{
    if (history->first_ns == 0 || time_ns < history->first_ns) {
        history->first_ns = time_ns;
    }
    if (time_ns > history->last_ns) {
        history->last_ns = time_ns;
    }
}

static int take_event(void *user, const kiln_journal_event *event)
{
    event_reader *reader = user;
    use_history *history = reader->history;
    const bool is_in_period = event->time_ns >= history->since_ns;
    if (is_in_period) {
        note_times(history, event->time_ns);
        add_to(&history->total, event);
        add_to(day_of(history, event->time_ns), event);
        add_to(tally_of(&history->programs, event->program), event);
    }
    if (event->kind == KILN_JOURNAL_MEMORY_HITS) {
        return 0;
    }
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&event->digest, digest);
    summed_key *summed = key_of(history, &reader->key_capacity, digest);
    built_key *key = &summed->key;
    set_text(&key->device, event->device);
    set_text(&key->name, event->name);
    if (is_in_period) {
        add_to(&summed->sums, event);
        if (event->kind != KILN_JOURNAL_HIT) {
            note_build(key, event, key->stored_ns);
        }
    }
    key->hits += event->kind == KILN_JOURNAL_HIT ? event->count : 0;
    /* A failed build stores nothing. */
    if (event->kind != KILN_JOURNAL_FAILURE && event->kept == KILN_OK) {
        key->stored_ns = event->time_ns;
    }
    return 0;
}

static int compare_keys(const void *left, const void *right)
{
    return strcmp((*(built_key *const *)left)->digest, (*(built_key *const *)right)->digest);
}

kiln_status history_read(kiln_store *store, use_history *ret_history)
{
    event_reader reader = {.history = ret_history};
    ret_history->journal.struct_size = sizeof ret_history->journal;
    const kiln_status status =
        kiln_store_each_journal_event(store, take_event, &reader, &ret_history->journal);
    if (ret_history->key_count > 0) {
        qsort(ret_history->keys, ret_history->key_count, sizeof *ret_history->keys, compare_keys);
    }
    tally_list_sort(&ret_history->days, true);
    tally_list_sort(&ret_history->programs, false);
    return status == KILN_MISS || status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

built_key *history_key(const use_history *history, const char *digest)
{
    void *const *found = tfind(digest, &history->key_tree, compare_digests);
    return found == NULL ? NULL : *found;
}

/* ---- devices ---- */

static void add_sums(tally *to, const tally *from)
{
    to->hits += from->hits;
    to->builds += from->builds;
    to->failures += from->failures;
    to->saved_ns += from->saved_ns;
    to->lost_ns += from->lost_ns;
}

/* A device's text is "platform / device / driver", or, for a compiler, "NVRTC 13.0 sm_90". Returns
 * the position of what the driver adds. */
static const char *driver_in(const char *device)
{
    const char *last = NULL;
    for (const char *at = strstr(device, " / "); at != NULL; at = strstr(at + 1, " / ")) {
        last = at;
    }
    return last;
}

static char *driver_of(const char *device)
{
    const char *driver = driver_in(device);
    if (driver == NULL) {
        const char *last = strrchr(device, ' ');
        return text_of("%.*s", last == NULL ? (int)strlen(device) : (int)(last - device), device);
    }
    return text_of("%.*s / %s", (int)(strstr(device, " / ") - device), device, driver + 3);
}

static char *name_of(const char *device)
{
    const char *driver = driver_in(device);
    return text_of("%.*s", driver == NULL ? (int)strlen(device) : (int)(driver - device), device);
}

void history_sum_devices(use_history *history)
{
    for (size_t i = 0; i < history->key_count; i++) {
        const summed_key *summed = (const summed_key *)history->keys[i];
        const tally *sums = &summed->sums;
        if (sums->hits + sums->builds + sums->failures == 0) {
            continue;
        }
        owned char *device = name_of(summed->key.device);
        owned char *driver = driver_of(summed->key.device);
        add_sums(tally_of(&history->devices, device), sums);
        add_sums(tally_of(&history->drivers, driver), sums);
    }
    tally_list_sort(&history->devices, false);
    tally_list_sort(&history->drivers, false);
}

void history_free(use_history *history)
{
    tdestroy(history->key_tree, keep);
    for (size_t i = 0; i < history->key_count; i++) {
        free(history->keys[i]->program);
        free(history->keys[i]->device);
        free(history->keys[i]->name);
        free(history->keys[i]);
    }
    free(history->keys);
    tally_list_free(&history->days);
    tally_list_free(&history->programs);
    tally_list_free(&history->devices);
    tally_list_free(&history->drivers);
}
