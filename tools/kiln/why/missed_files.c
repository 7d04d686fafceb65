/* SPDX-License-Identifier: Apache-2.0 */
#include "missed_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"

/* The rest of a line of a trace behind the key: "kiln[1] note: key=… was made from a different …".
 * NULL: it is about something else. */
static char *behind_key(char *line, const char *digest)
{
    static const char mark[] = " key=";
    char *key = strncmp(line, "kiln[", 5) == 0 ? strstr(line, mark) : NULL;
    if (key == NULL || strncmp(key + sizeof mark - 1, digest, strlen(digest)) != 0) {
        return NULL;
    }
    return key + sizeof mark - 1 + strlen(digest);
}

/* The path of the last note before the last miss; a note before an earlier outcome is not about it.
 * To be freed; NULL: none. */
static char *find_note(FILE *trace, const char *digest)
{
    static const char note[] = " was made from a different ", miss[] = " store=KILN_";
    char *line = NULL, *noted = NULL, *cause = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, trace) >= 0) {
        char *rest = behind_key(line, digest);
        if (rest != NULL && strncmp(rest, note, sizeof note - 1) == 0) {
            rest[strcspn(rest, "\n")] = '\0';
            free(noted);
            noted = must(strdup(rest + sizeof note - 1));
        } else if (rest != NULL) {
            if (strstr(rest, miss) != NULL) {
                free(cause);
                cause = noted;
            } else {
                free(noted);
            }
            noted = NULL;
        }
    }
    free(line);
    free(noted);
    return cause;
}

missed_files missed_files_find(const missed_key *missed, const char *trace)
{
    missed_files files = {0};
    FILE *file = trace != NULL ? fopen(trace, "re") : NULL;
    if (file != NULL) {
        files.noted = find_note(file, missed->digest);
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
    free(files->noted);
    files->noted = NULL;
}

static void print_line(char *line)
{
    print_lines(line);
    free(line);
}

bool missed_files_print(const missed_files *files)
{
    const made_from_reading *made = &files->made;
    size_t changed = 0, untold = 0;
    for (size_t i = 0; i < made->count; i++) {
        changed += made->results[i].changed > 0;
        untold += made->results[i].untold > 0;
    }
    if (files->noted == NULL && changed + untold == 0) {
        return false;
    }
    putchar('\n');
    if (files->noted != NULL) {
        print_line(text_of("when it was asked for: made from another %s\n", files->noted));
    }
    for (size_t i = 0; i < made->count; i++) {
        char *state = made_from_state(&made->results[i]);
        print_line(text_of("result %zu of %zu: %s\n", i + 1, made->count, state));
        free(state);
    }
    made_from_print_place(made);
    /* An entry has a second result since the first was not as the files were. */
    return files->noted != NULL || (changed > 0 && made->count > 1);
}

void missed_files_to_json(const missed_files *files, json_t *object)
{
    if (files->noted != NULL) {
        json_add(object, "made_from_another", json_text_or_null(files->noted));
    }
    if (files->made.count > 0) {
        json_add(object, "results", made_from_to_json(&files->made, false));
    }
}
