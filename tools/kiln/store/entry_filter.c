/* SPDX-License-Identifier: Apache-2.0 */
#include "entry_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void entry_filter_read(entry_filter *filter, char **operands)
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

static bool holds(const char *text, const char *wanted)
{
    return wanted == NULL || strcasestr(text, wanted) != NULL;
}

bool entry_filter_selects(entry_filter *filter, const kiln_item_info *info)
{
    if (info->kind == KILN_ENTRY_REQUEST || !holds(info->device, filter->device) ||
        !holds(info->name, filter->name)) {
        return false;
    }
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_digest_format(&info->digest, digest);
    bool is_named = filter->prefix_count == 0;
    for (size_t i = 0; i < filter->prefix_count; i++) {
        const bool matches = digest_prefix_matches(&filter->prefixes[i], digest);
        filter->matches[i] += matches;
        is_named = is_named || matches;
    }
    return is_named;
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
}
