/* SPDX-License-Identifier: Apache-2.0 */
#include "run_record.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/journal.h>

#include "../text/escape.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/output_file.h"
#include "../text/units.h"

static const char variable[] = "KILN_RECORD";

/* The file of this run, and that of the outer run. NULL: there is none. */
static char *file, *outer_file;

void run_record_open(const char *folder)
{
    const char *outer = getenv(variable);
    outer_file = outer == NULL || outer[0] == '\0' ? NULL : must(strdup(outer));
    file = text_of("%s/record", folder);
    must_succeed(setenv(variable, file, 1));
}

typedef struct used_entry {
    char digest[KILN_DIGEST_TEXT_SIZE];
    char *name;
} used_entry;

typedef struct record_reader {
    bool lists_builds, has_built;
    used_entry **entries;
    size_t count, capacity;
    void *tree; /* of the entries, by digest */
} record_reader;

static int compare_digests(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void note_used(record_reader *reader, const char *digest, const char *name)
{
    void **found = must(tsearch(digest, &reader->tree, compare_digests));
    if (*found == digest) {
        used_entry *added = must(calloc(1, sizeof *added));
        memcpy(added->digest, digest, sizeof added->digest);
        added->name = must(strdup(""));
        *found = added;
        reader->entries =
            array_grown(reader->entries, reader->count, &reader->capacity, sizeof added);
        reader->entries[reader->count++] = added;
    }
    used_entry *entry = *found;
    if (entry->name[0] == '\0' && name[0] != '\0') {
        free(entry->name);
        entry->name = escaped(name, strlen(name));
    }
}

static void list_build(const kiln_journal_event *event, const char *digest)
{
    char duration[UNIT_TEXT_SIZE];
    complain("%s %s in %s%s%s%s%s", event->kind == KILN_JOURNAL_FAILURE ? "failed" : "built",
             digest, format_duration(event->build_ns, duration), event->name[0] != '\0' ? ": " : "",
             event->name, event->device[0] != '\0' ? " for " : "", event->device);
}

static int take_event(void *user, const kiln_journal_event *event)
{
    record_reader *reader = user;
    char digest[KILN_DIGEST_TEXT_SIZE];
    if (event->kind == KILN_JOURNAL_MEMORY_HITS) {
        return 0;
    }
    kiln_digest_format(&event->digest, digest);
    if (event->kind != KILN_JOURNAL_HIT) {
        reader->has_built = true;
        if (reader->lists_builds) {
            list_build(event, digest);
        }
    }
    if (event->kind != KILN_JOURNAL_FAILURE) {
        note_used(reader, digest, event->name);
    }
    return 0;
}

static int compare_entries(const void *left, const void *right)
{
    return compare_digests(*(used_entry *const *)left, *(used_entry *const *)right);
}

static int write_entries(const char *path, const record_reader *reader)
{
    output_file output;
    const int exit_code = output_file_begin(path, &output);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    for (size_t i = 0; i < reader->count; i++) {
        const used_entry *entry = reader->entries[i];
        fprintf(output.stream, "%s%s%s\n", entry->digest, entry->name[0] != '\0' ? " " : "",
                entry->name);
    }
    return output_file_end(&output, true);
}

/* Appends the events to the outer run's file, as its own processes do. */
static void pass_on(void)
{
    char bytes[65536];
    const int from = open(file, O_RDONLY | O_CLOEXEC);
    const int into = open(outer_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    ssize_t count = 0;
    while (from >= 0 && into >= 0 && (count = read(from, bytes, sizeof bytes)) > 0) {
        if (write(into, bytes, (size_t)count) != count) {
            break;
        }
    }
    close(from);
    close(into);
}

static void keep(void *unused)
{
    (void)unused;
}

static void free_entries(record_reader *reader)
{
    tdestroy(reader->tree, keep);
    for (size_t i = 0; i < reader->count; i++) {
        free(reader->entries[i]->name);
        free(reader->entries[i]);
    }
    free(reader->entries);
}

int run_record_close(const char *output, bool lists_builds, bool *ret_built)
{
    record_reader reader = {.lists_builds = lists_builds};
    kiln_journal_report report = {.struct_size = sizeof report};
    int exit_code = EXIT_OK;
    const kiln_status status = kiln_journal_read_file(file, take_event, &reader, &report);
    if ((status != KILN_OK && status != KILN_MISS) || report.damaged > 0) {
        complain("the record of this run is incomplete: %s",
                 kiln_status_text(report.damaged > 0 ? KILN_E_CORRUPT : status));
        exit_code = EXIT_IO;
    }
    if (reader.count > 0) {
        qsort(reader.entries, reader.count, sizeof *reader.entries, compare_entries);
    }
    if (exit_code == EXIT_OK && output != NULL) {
        exit_code = write_entries(output, &reader);
    }
    if (outer_file != NULL) {
        pass_on();
    }
    unlink(file);
    free(file);
    free(outer_file);
    *ret_built = reader.has_built;
    free_entries(&reader);
    return exit_code;
}
