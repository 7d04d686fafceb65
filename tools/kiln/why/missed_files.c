/* SPDX-License-Identifier: Apache-2.0 */
#include "missed_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"

/* Returns the part of a trace's line that follows the key. An example of such a line is "kiln[1]
 * note: key=… was made from a different …". NULL if the line is not about this key. */
static char *after_key(char *line, const char *digest)
{
    static const char mark[] = " key=";
    char *key = strncmp(line, "kiln[", 5) == 0 ? strstr(line, mark) : NULL;
    if (key == NULL || strncmp(key + sizeof mark - 1, digest, strlen(digest)) != 0) {
        return NULL;
    }
    return key + sizeof mark - 1 + strlen(digest);
}

/* Finds the last miss of the key in the trace, and the last note about the key before this miss.
 * Returns the path in this note; the caller frees it. NULL if there is no such note. If the trace
 * has any outcome of the key between the note and the miss, the note belongs to that outcome. */
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

static bool has_changed(const input_files_reading *made)
{
    bool has = false;
    for (size_t i = 0; i < made->count; i++) {
        has |= made->results[i].changed > 0;
    }
    return has;
}

/* Infers the cause of a miss. A miss does not change an entry. So an entry that is older than the
 * miss already existed at the time of the miss, unless it came from a different store later. Only a
 * build that found different files, or that folded constants in a different way, adds a second
 * result. If files have changed, and the entry was made in the same second as the miss, the order
 * of the miss and the entry is unknown. */
static missed_cause find_cause(const missed_key *missed, const missed_files *files)
{
    const bool has_several = files->made.count > 1, changed = has_changed(&files->made);
    const bool is_dated = missed->entry != NULL && missed->missed_s != 0;
    const int64_t created_s = is_dated ? kiln_entry_provenance(missed->entry).created_s : 0;
    const bool was_there = is_dated && created_s < missed->missed_s;
    const bool came_later =
        is_dated && (changed ? created_s > missed->missed_s : created_s >= missed->missed_s);
    if (files->traced != NULL || ((has_several || was_there) && changed)) {
        return CAUSE_FILES;
    }
    return came_later && !has_several ? CAUSE_FIRST_BUILD : CAUSE_UNKNOWN;
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
        files.made = input_files_read(missed->entry);
    }
    files.cause = find_cause(missed, &files);
    return files;
}

void missed_files_free(missed_files *files)
{
    input_files_free(&files->made);
    free(files->traced);
    files->traced = NULL;
}

static bool any_differs(const input_files_reading *made)
{
    bool differs = false;
    for (size_t i = 0; i < made->count; i++) {
        differs |= made->results[i].changed + made->results[i].unknown > 0;
    }
    return differs;
}

void missed_files_print(const missed_files *files)
{
    static const char *const causes[] = {
        [CAUSE_UNKNOWN] = "",
        [CAUSE_FILES] = "An entry with this key was there, but was made from different files.\n",
        [CAUSE_FIRST_BUILD] =
            ("This was the first build with these inputs, or its earlier entry had been removed\n"
             "or could not be read. The result has been stored since.\n"),
    };
    const input_files_reading *made = &files->made;
    const bool differs = files->traced != NULL || any_differs(made);
    printf("%s%s", differs || files->cause != CAUSE_UNKNOWN ? "\n" : "", causes[files->cause]);
    if (files->traced != NULL) {
        owned char *line = text_of("when the build was requested, %s had changed\n", files->traced);
        print_lines(line);
    }
    for (size_t i = 0; differs && i < made->count; i++) {
        owned char *state = input_files_state(&made->results[i]);
        owned char *line = text_of("result %zu of %zu: %s\n", i + 1, made->count, state);
        print_lines(line);
    }
    input_files_print_place(made);
}

void missed_files_to_json(const missed_files *files, json_t *object)
{
    static const char *const causes[] = {
        [CAUSE_UNKNOWN] = NULL,
        [CAUSE_FILES] = "files",
        [CAUSE_FIRST_BUILD] = "first_build",
    };
    json_add(object, "cause", json_text_or_null(causes[files->cause]));
    if (files->traced != NULL) {
        json_add(object, "made_from_another", json_text_or_null(files->traced));
    }
    if (files->made.count > 0) {
        json_add(object, "results", input_files_to_json(&files->made, false));
    }
}
