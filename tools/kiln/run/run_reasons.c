/* SPDX-License-Identifier: Apache-2.0 */
#include "run_reasons.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"
#include "../text/output.h"

/* Further reasons are not printed. */
#define REASONS_MAX 8

typedef struct run_reason {
    char *text;
    uint64_t count;
    bool is_note;
} run_reason;

typedef struct run_reasons {
    run_reason reasons[REASONS_MAX];
    size_t count;
} run_reasons;

static void add_reason(run_reasons *found, const char *text, bool is_note)
{
    size_t i = 0;
    while (i < found->count && strcmp(found->reasons[i].text, text) != 0) {
        i++;
    }
    if (i == REASONS_MAX) {
        return;
    }
    if (i == found->count) {
        found->reasons[found->count++] =
            (run_reason){.text = must(strdup(text)), .is_note = is_note};
    }
    found->reasons[i].count++;
}

/* Reads a line such as "kiln[1] passed-through clBuildProgram: a reason". Notes about a key are for
 * `kiln why`. */
static void take_line(run_reasons *found, char *line)
{
    static const char passed[] = "passed-through ", note[] = "note: ";
    char *text = strncmp(line, "kiln[", 5) == 0 ? strchr(line, ' ') : NULL;
    if (text == NULL) {
        return;
    }
    text++;
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, passed, sizeof passed - 1) == 0) {
        add_reason(found, text + sizeof passed - 1, false);
    } else if (strncmp(text, note, sizeof note - 1) == 0 && strncmp(text, "note: key=", 10) != 0) {
        add_reason(found, text + sizeof note - 1, true);
    }
}

bool run_reasons_print(const char *trace)
{
    FILE *file = trace == NULL ? NULL : fopen(trace, "re");
    run_reasons found = {0};
    char *line = NULL;
    size_t capacity = 0;
    bool has_line = false;
    while (file != NULL && getline(&line, &capacity, file) >= 0) {
        has_line = true;
        take_line(&found, line);
    }
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    for (size_t i = 0; i < found.count; i++) {
        const run_reason *reason = &found.reasons[i];
        if (reason->is_note) {
            complain("%s", reason->text);
        } else {
            complain("%" PRIu64 " passed through: %s", reason->count, reason->text);
        }
        free(reason->text);
    }
    return has_line;
}
