/* SPDX-License-Identifier: Apache-2.0 */
#include "causes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../store/walk.h"
#include "../text/memory.h"
#include "../text/progress.h"
#include "../why/key_difference.h"
#include "../why/key_pairs.h"

/* How many entries' keys are read for each miss: entries of the same device and name, and entries
 * of the same device with any name. */
#define SAME_NAME_MAX 48u
#define SAME_DEVICE_MAX 16u

#define UNUSED_S (30 * INT64_C(86400))

/* A key that may be near to that of a miss. */
typedef struct candidate {
    explained_key key;
    char *name;
    int64_t created_s;
} candidate;

/* A miss while its cause is looked for. */
typedef struct sought {
    built_key *built;
    explained_key key;  /* without a key: its entry is not stored */
    bool lacked_device; /* the journal does not have the name of its device */
    candidate candidates[SAME_NAME_MAX + SAME_DEVICE_MAX];
    size_t count, of_other_names;
} sought;

typedef struct search {
    use_history *history;
    store_contents contents;
    sought *misses;
    size_t miss_count;
    int64_t now_s;
    bool is_second; /* only candidates are looked for */
} search;

/* ---- which misses ---- */

static int by_loss(const void *left, const void *right)
{
    const sought *a = left, *b = right;
    return (a->built->lost_ns < b->built->lost_ns) - (a->built->lost_ns > b->built->lost_ns);
}

static sought *find_misses(const use_history *history, size_t *ret_count)
{
    sought *misses = must(calloc(history->key_count + 1, sizeof *misses));
    size_t count = 0;
    for (size_t i = 0; i < history->key_count; i++) {
        if (history->keys[i]->missed_ns != 0) {
            misses[count++] = (sought){.built = history->keys[i],
                                       .lacked_device = history->keys[i]->device[0] == '\0'};
        }
    }
    qsort(misses, count, sizeof *misses, by_loss);
    *ret_count = count < CAUSES_MAX ? count : CAUSES_MAX;
    return misses;
}

/* ---- the entries ---- */

static void replace_text(char **text, const char *value)
{
    if ((*text)[0] == '\0' && value[0] != '\0') {
        free(*text);
        *text = must(strdup(value));
    }
}

/* Returns no key if the entry cannot be read. */
static explained_key read_key(kiln_item *item)
{
    kiln_entry *entry = NULL;
    explained_key key = {0};
    if (kiln_item_read(item, &entry) == KILN_OK) {
        key = explained_key_of(entry);
    }
    kiln_entry_release(&entry);
    return key;
}

static void count_entry(store_contents *contents, const kiln_item_info *info, int64_t now_s)
{
    contents->entries++;
    contents->bytes += info->stored_bytes;
    if (contents->oldest_s == 0 || info->created_s < contents->oldest_s) {
        contents->oldest_s = info->created_s;
    }
    if (info->created_s > contents->newest_s) {
        contents->newest_s = info->created_s;
    }
    contents->unused += info->last_used_s < now_s - UNUSED_S;
}

/* Returns whether an entry was made before a miss. Its file only has the second.
 *
 * @known  what the journal has about the entry's key, or NULL */
static bool is_earlier(const kiln_item_info *info, const built_key *known, const built_key *missed)
{
    return known != NULL && known->missed_ns > 0 ? known->missed_ns < missed->missed_ns
                                                 : info->created_s < missed->missed_ns / 1000000000;
}

/* Adds a candidate to a miss, if there is room for one of its name. An entry that was made after
 * the miss cannot have been found. */
static void consider(sought *miss, kiln_item *item, const kiln_item_info *info,
                     const built_key *known)
{
    const built_key *built = miss->built;
    if (strcmp(info->device, built->device) != 0 || !is_earlier(info, known, built)) {
        return;
    }
    const bool has_name = strcmp(info->name, built->name) == 0;
    const size_t of_name = miss->count - miss->of_other_names;
    if (has_name ? of_name >= SAME_NAME_MAX : miss->of_other_names >= SAME_DEVICE_MAX) {
        return;
    }
    explained_key key = read_key(item);
    if (key.key != NULL) {
        miss->of_other_names += has_name ? 0 : 1;
        miss->candidates[miss->count++] =
            (candidate){.key = key, .name = must(strdup(info->name)), .created_s = info->created_s};
    }
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    search *s = user;
    progress_step("read");
    if (info->state != KILN_OK || info->kind == KILN_ENTRY_REQUEST) {
        return 0;
    }
    built_key *known = history_key(s->history, digest);
    if (!s->is_second) {
        count_entry(&s->contents, info, s->now_s);
        if (known != NULL) {
            replace_text(&known->device, info->device);
            replace_text(&known->name, info->name);
        }
    }
    for (size_t i = 0; i < s->miss_count; i++) {
        sought *miss = &s->misses[i];
        if (strcmp(digest, miss->built->digest) != 0) {
            if (miss->built->device[0] != '\0' && miss->built->device[0] == info->device[0]) {
                consider(miss, item, info, known);
            }
        } else if (miss->key.key == NULL) {
            miss->key = read_key(item);
        }
    }
    return 0;
}

/* ---- the difference ---- */

typedef struct distance {
    size_t parts;
    uint64_t bytes;
} distance;

static int add_distance(void *user, kiln_key_change change, const kiln_key_part *there,
                        const kiln_key_part *wanted)
{
    distance *sum = user;
    (void)change;
    const uint64_t before = there != NULL ? there->size : 0;
    const uint64_t after = wanted != NULL ? wanted->size : 0;
    sum->parts++;
    sum->bytes += before > after ? before - after : after - before;
    return 0;
}

static bool is_nearer(const distance *a, const distance *b)
{
    return a->parts != b->parts ? a->parts < b->parts : a->bytes < b->bytes;
}

static const candidate *nearest(const sought *miss)
{
    const candidate *found = NULL;
    distance least = {0};
    for (size_t i = 0; i < miss->count; i++) {
        distance there = {0};
        key_pairs_difference(&miss->candidates[i].key, &miss->key, add_distance, &there);
        if (there.parts > 0 && (found == NULL || is_nearer(&there, &least))) {
            found = &miss->candidates[i];
            least = there;
        }
    }
    return found;
}

static const char *value_of(const json_t *part)
{
    const char *text = json_string_value(json_object_get(part, "text"));
    return text != NULL ? text : "";
}

/* Describes the first part that differs, such as "options: -O2, before -O3". */
static char *describe_part(const json_t *part)
{
    const char *name = json_string_value(json_object_get(part, "name"));
    const char *change = json_string_value(json_object_get(part, "change"));
    const json_t *line = json_object_get(part, "line");
    const char *before = value_of(json_object_get(part, "there"));
    const char *after = value_of(json_object_get(part, "wanted"));
    if (line != NULL) {
        return text_of("%s differs from line %lld on", name, json_integer_value(line));
    }
    if (strlen(before) + strlen(after) > 0 && strlen(before) < 80 && strlen(after) < 80) {
        return text_of("%s: \"%s\", before \"%s\"", name, after, before);
    }
    return text_of("%s %s", name, change);
}

static char *describe_difference(const sought *miss, const candidate *near)
{
    if (strcmp(near->name, miss->built->name) != 0) {
        return text_of("a new program; the nearest one of this device is %s", near->name);
    }
    json_t *parts = key_difference_to_json(&near->key, &miss->key);
    const size_t count = json_array_size(parts);
    owned char *first = describe_part(json_array_get(parts, 0));
    json_decref(parts);
    return text_of("%s%s", first,
                   count == 2  ? ", and one more part differs"
                   : count > 2 ? ", and more parts differ"
                               : "");
}

/* Says why, from what happened at the time of the build. */
static char *describe(const sought *miss)
{
    const built_key *built = miss->built;
    if (built->has_failed) {
        return must(strdup("the build failed, and failures are not stored"));
    }
    if (built->store != KILN_OK && built->store != KILN_MISS) {
        return text_of("the stored entry was not used: %s", kiln_status_text(built->store));
    }
    if (built->before_ns != 0) {
        return must(strdup("it was stored before: its entry was removed, or was made from "
                           "files that have changed"));
    }
    if (miss->key.key != NULL) {
        const candidate *near = nearest(miss);
        return near != NULL ? describe_difference(miss, near)
                            : must(strdup("the first build for this device"));
    }
    if (built->kept != KILN_OK) {
        return text_of("new, and its result is not kept: %s", kiln_status_text(built->kept));
    }
    return must(strdup("new, and its entry is no longer stored"));
}

static void free_sought(sought *miss)
{
    explained_key_free(&miss->key);
    for (size_t i = 0; i < miss->count; i++) {
        explained_key_free(&miss->candidates[i].key);
        free(miss->candidates[i].name);
    }
}

/* The journal does not have the names of a build that was captured later. The first walk has found
 * them in its entry, and a second one finds its neighbours. */
static bool needs_second_walk(const sought *misses, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (misses[i].key.key != NULL && misses[i].lacked_device) {
            return true;
        }
    }
    return false;
}

kiln_status causes_find(kiln_store *store, use_history *history, miss_causes *ret_causes)
{
    search s = {.history = history, .now_s = time(NULL)};
    s.misses = find_misses(history, &s.miss_count);
    kiln_status status = walk_items(store, visit, &s);
    if (status == KILN_OK && needs_second_walk(s.misses, s.miss_count)) {
        s.is_second = true;
        status = walk_items(store, visit, &s);
    }
    progress_end();
    miss_causes causes = {.contents = s.contents};
    for (size_t i = 0; i < s.miss_count; i++) {
        causes.items[causes.count++] =
            (miss_cause){.key = s.misses[i].built, .text = describe(&s.misses[i])};
        free_sought(&s.misses[i]);
    }
    free(s.misses);
    *ret_causes = causes;
    return status;
}

void causes_free(miss_causes *causes)
{
    for (size_t i = 0; i < causes->count; i++) {
        free(causes->items[i].text);
    }
    causes->count = 0;
}
