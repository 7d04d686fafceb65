/* SPDX-License-Identifier: Apache-2.0 */
#include "entry_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../command/options.h"
#include "../entry/driver.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"

/* Reads a file with a digest at the beginning of each line. */
static void read_only_file(entry_filter *filter)
{
    FILE *file = fopen(filter->only, "re");
    char *line = NULL;
    size_t size = 0, capacity = filter->prefix_count;
    const size_t before = filter->prefix_count;
    if (file == NULL) {
        complain("%s: %s", filter->only, strerror(errno));
        end_tool(EXIT_IO);
    }
    while (getline(&line, &size, file) >= 0) {
        line[strcspn(line, " \n")] = '\0';
        filter->prefixes = array_grown(filter->prefixes, filter->prefix_count, &capacity,
                                       sizeof *filter->prefixes);
        filter->prefixes[filter->prefix_count++] = digest_prefix_parse(line);
    }
    const bool has_failed = ferror(file);
    free(line);
    fclose(file);
    if (has_failed || filter->prefix_count == before) {
        complain("%s %s", filter->only, has_failed ? "can't be read" : "lists no entry");
        end_tool(has_failed ? EXIT_IO : EXIT_NOTHING_FOUND);
    }
}

static void read_prefixes(entry_filter *filter, char **operands)
{
    size_t count = 0;
    while (operands[count] != NULL) {
        count++;
    }
    filter->prefixes = must(calloc(count + 1, sizeof *filter->prefixes));
    for (; filter->prefix_count < count; filter->prefix_count++) {
        filter->prefixes[filter->prefix_count] =
            digest_prefix_parse(operands[filter->prefix_count]);
    }
    if (filter->only != NULL) {
        read_only_file(filter);
    }
    filter->matches = must(calloc(filter->prefix_count + 1, sizeof *filter->matches));
}

void entry_filter_read(entry_filter *filter, const char *command, char **operands)
{
    const uint64_t age_s = options_age_s(command, "older-than", filter->older_than);
    filter->used_before_s = age_s == 0 ? 0 : (int64_t)time(NULL) - (int64_t)age_s;
    filter->larger_than_bytes = options_size(command, "larger-than", filter->larger_than, 0);
    filter->limit = (size_t)options_limit(command, filter->at_most);
    filter->reads_drivers |= filter->driver != NULL;
    read_prefixes(filter, operands);
}

bool entry_filter_is_set_otherwise(const entry_filter *filter)
{
    return filter->device != NULL || filter->driver != NULL || filter->name != NULL ||
           filter->program != NULL || filter->larger_than != NULL || filter->at_most != NULL ||
           filter->only != NULL;
}

bool entry_filter_is_set(const entry_filter *filter)
{
    return filter->older_than != NULL || entry_filter_is_set_otherwise(filter);
}

static bool holds(const char *text, const char *wanted)
{
    return wanted == NULL || strcasestr(text, wanted) != NULL;
}

/* An entry that Kiln's layers made says "kiln VERSION, PROGRAM". */
static bool is_of_program(const kiln_item_info *info, const char *wanted)
{
    const char *comma = strchr(info->tool, ',');
    return wanted == NULL || (comma != NULL && holds(comma + 1, wanted));
}

static int compare_digests(const void *left, const void *right)
{
    return strcmp(left, right);
}

static bool is_chosen(const entry_filter *filter, const char *digest)
{
    return filter->chosen_count > 0 && bsearch(digest, filter->chosen, filter->chosen_count,
                                               sizeof *filter->chosen, compare_digests) != NULL;
}

static bool has_a_prefix(entry_filter *filter, const char *digest)
{
    bool is_named = filter->prefix_count == 0;
    for (size_t i = 0; i < filter->prefix_count; i++) {
        const bool matches = digest_prefix_matches(&filter->prefixes[i], digest);
        filter->matches[i] += matches;
        is_named = is_named || matches;
    }
    return is_named;
}

bool entry_filter_selects(entry_filter *filter, const kiln_item_info *info, const char *driver)
{
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&info->digest, digest);
    if (filter->is_chosen) {
        return is_chosen(filter, digest);
    }
    return (filter->takes_requests || info->kind != KILN_ENTRY_REQUEST) &&
           holds(info->device, filter->device) && holds(info->name, filter->name) &&
           is_of_program(info, filter->program) &&
           (filter->used_before_s == 0 || info->last_used_s < filter->used_before_s) &&
           (filter->larger_than == NULL || info->stored_bytes > filter->larger_than_bytes) &&
           (driver == NULL || holds(driver, filter->driver)) && has_a_prefix(filter, digest);
}

bool entry_filter_selects_item(entry_filter *filter, kiln_item *item, const kiln_item_info *info)
{
    if (filter->driver == NULL || filter->is_chosen) {
        return entry_filter_selects(filter, info, NULL);
    }
    owned char *driver = driver_of(item);
    return entry_filter_selects(filter, info, driver);
}

bool entry_filter_selects_key(const entry_filter *filter, const kiln_key *key)
{
    if (filter->driver == NULL) {
        return true;
    }
    owned char *driver = driver_of_key(key);
    return holds(driver, filter->driver);
}

void entry_filter_choose(entry_filter *filter, const char *digest)
{
    filter->chosen = array_grown(filter->chosen, filter->chosen_count, &filter->chosen_capacity,
                                 sizeof *filter->chosen);
    memcpy(filter->chosen[filter->chosen_count++], digest, sizeof *filter->chosen);
}

void entry_filter_choose_end(entry_filter *filter)
{
    if (filter->chosen_count > 0) {
        qsort(filter->chosen, filter->chosen_count, sizeof *filter->chosen, compare_digests);
    }
    filter->is_chosen = true;
}

bool entry_filter_check(const entry_filter *filter)
{
    bool all_match = true;
    for (size_t i = 0; i < filter->prefix_count; i++) {
        if (filter->matches[i] == 0) {
            complain("no selected entry begins with '%s'", filter->prefixes[i].text);
            all_match = false;
        }
    }
    return all_match;
}

void entry_filter_done(entry_filter *filter)
{
    free(filter->prefixes);
    free(filter->matches);
    free(filter->chosen);
}
