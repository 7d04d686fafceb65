/* SPDX-License-Identifier: Apache-2.0 */
#include "missed_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"

/* Returns the rest of a trace's line after the key, as in "kiln[1] note: key=… was made from a
 * different …". NULL if the line is about something else. */
static char *after_key(char *line, const char *digest)
{
    static const char mark[] = " key=";
    char *key = strncmp(line, "kiln[", 5) == 0 ? strstr(line, mark) : NULL;
    if (key == NULL || strncmp(key + sizeof mark - 1, digest, strlen(digest)) != 0) {
        return NULL;
    }
    return key + sizeof mark - 1 + strlen(digest);
}

/* Returns the path in the last note before the last miss, which the caller frees; NULL if there is
 * none. A note before an earlier outcome does not belong to that miss. */
static char *find_note(FILE *trace, const char *digest)
{
    static const char note[] = " was made from a different ", miss[] = " store=KILN_";
    char *line = NULL, *recorded = NULL, *cause = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, trace) >= 0) {
        char *rest = after_key(line, digest);
        if (rest != NULL && strncmp(rest, note, sizeof note - 1) == 0) {
            rest[strcspn(rest, "\n")] = '\0';
            free(recorded);
            recorded = must(strdup(rest + sizeof note - 1));
        } else if (rest != NULL) {
            if (strstr(rest, miss) != NULL) {
                free(cause);
                cause = recorded;
            } else {
                free(recorded);
            }
            recorded = NULL;
        }
    }
    free(line);
    free(recorded);
    return cause;
}

missed_files missed_files_find(const missed_key *missed, const char *trace)
{
    missed_files files = {0};
    FILE *file = trace != NULL ? fopen(trace, "re") : NULL;
    if (file != NULL) {
        files.traced = find_note(file, missed->digest);
        fclose(file);
    }
    if (missed->entry != NULL) {
        files.made = made_from_read(missed->entry);
    }
    return files;
}

void missed_files_free(missed_files *files)
{
    made_from_free(&files->made);
    free(files->traced);
    files->traced = NULL;
}

static void print_line(char *line)
{
    print_lines(line);
    free(line);
}

bool missed_files_print(const missed_files *files)
{
    const made_from_reading *made = &files->made;
    size_t changed = 0, unknown = 0;
    for (size_t i = 0; i < made->count; i++) {
        changed += made->results[i].changed > 0;
        unknown += made->results[i].unknown > 0;
    }
    if (files->traced == NULL && changed + unknown == 0) {
        return false;
    }
    putchar('\n');
    if (files->traced != NULL) {
        print_line(text_of("when the build was requested, %s had changed\n", files->traced));
    }
    for (size_t i = 0; i < made->count; i++) {
        char *state = made_from_state(&made->results[i]);
        print_line(text_of("result %zu of %zu: %s\n", i + 1, made->count, state));
        free(state);
    }
    made_from_print_place(made);
    /* An entry has a second result because the files had changed since the first. */
    return files->traced != NULL || (changed > 0 && made->count > 1);
}

void missed_files_to_json(const missed_files *files, json_t *object)
{
    if (files->traced != NULL) {
        json_add(object, "made_from_another", json_text_or_null(files->traced));
    }
    if (files->made.count > 0) {
        json_add(object, "results", made_from_to_json(&files->made, false));
    }
}
