/* SPDX-License-Identifier: Apache-2.0 */
#include "run_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"

/* Further reasons are not printed, and further doors are not counted. */
#define REASONS_MAX 8
#define DOORS_MAX 16
#define DOOR_NAME_SIZE 32

typedef struct run_reason {
    char *text;
    uint64_t count;
    bool is_note;
} run_reason;

typedef struct run_door {
    char name[DOOR_NAME_SIZE];
    uint64_t hits, builds;
} run_door;

struct run_trace {
    run_reason reasons[REASONS_MAX];
    size_t reason_count;
    run_door doors[DOORS_MAX];
    size_t door_count;
    bool has_line;
};

static void add_reason(run_trace *trace, const char *text, bool is_note)
{
    size_t i = 0;
    while (i < trace->reason_count && strcmp(trace->reasons[i].text, text) != 0) {
        i++;
    }
    if (i == REASONS_MAX) {
        return;
    }
    if (i == trace->reason_count) {
        trace->reasons[trace->reason_count++] =
            (run_reason){.text = must(strdup(text)), .is_note = is_note};
    }
    trace->reasons[i].count++;
}

static void add_request(run_trace *trace, const char *name, bool is_hit)
{
    size_t i = 0;
    while (i < trace->door_count && strcmp(trace->doors[i].name, name) != 0) {
        i++;
    }
    if (i == DOORS_MAX) {
        return;
    }
    run_door *door = &trace->doors[i];
    if (i == trace->door_count) {
        trace->door_count++;
        snprintf(door->name, sizeof door->name, "%s", name);
    }
    door->hits += is_hit ? 1 : 0;
    door->builds += is_hit ? 0 : 1;
}

/* Reads a line such as "kiln[1] passed-through clBuildProgram: a reason", or "kiln[1] built key=…
 * door=opencl …". Notes about a key are for `kiln why`. */
static void take_line(run_trace *trace, char *line)
{
    static const char passed[] = "passed-through ", note[] = "note: ";
    char *text = strncmp(line, "kiln[", 5) == 0 ? strchr(line, ' ') : NULL;
    if (text == NULL) {
        return;
    }
    text++;
    text[strcspn(text, "\n")] = '\0';
    char outcome[16], name[DOOR_NAME_SIZE];
    if (strncmp(text, passed, sizeof passed - 1) == 0) {
        add_reason(trace, text + sizeof passed - 1, false);
    } else if (strncmp(text, note, sizeof note - 1) == 0) {
        if (strncmp(text, "note: key=", 10) != 0) {
            add_reason(trace, text + sizeof note - 1, true);
        }
    } else if (sscanf(text, "%15s key=%*64s door=%31[A-Za-z0-9._-]", outcome, name) == 2) {
        add_request(trace, name, strncmp(outcome, "hit", 3) == 0);
    }
}

run_trace *run_trace_read(const char *path)
{
    run_trace *trace = must(calloc(1, sizeof *trace));
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    while (file != NULL && getline(&line, &capacity, file) >= 0) {
        trace->has_line = true;
        take_line(trace, line);
    }
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    return trace;
}

void run_trace_free(run_trace *trace)
{
    for (size_t i = 0; trace != NULL && i < trace->reason_count; i++) {
        free(trace->reasons[i].text);
    }
    free(trace);
}

bool run_trace_has_line(const run_trace *trace)
{
    return trace->has_line;
}

static void print_doors(const run_trace *trace)
{
    char text[DOORS_MAX * 96];
    size_t length = 0;
    for (size_t i = 0; i < trace->door_count; i++) {
        const run_door *door = &trace->doors[i];
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "%s%s: %" PRIu64 " %s, %" PRIu64 " %s", i > 0 ? "; " : "",
                                   door->name, door->hits, noun_of(door->hits, "hit", "hits"),
                                   door->builds, noun_of(door->builds, "build", "builds"));
    }
    complain("%s", text);
}

void run_trace_print(const run_trace *trace)
{
    for (size_t i = 0; i < trace->reason_count; i++) {
        const run_reason *reason = &trace->reasons[i];
        if (reason->is_note) {
            complain_once(reason->text);
        } else {
            complain("%" PRIu64 " passed through: %s", reason->count, reason->text);
        }
    }
    if (trace->door_count > 1) {
        print_doors(trace);
    }
}

void run_trace_add_json(const run_trace *trace, json_t *summary)
{
    json_t *doors = must(json_object());
    for (size_t i = 0; i < trace->door_count; i++) {
        json_t *door = must(json_object());
        json_add(door, "hits", json_number(trace->doors[i].hits));
        json_add(door, "builds", json_number(trace->doors[i].builds));
        json_add(doors, trace->doors[i].name, door);
    }
    if (trace->door_count > 0) {
        json_add(summary, "doors", doors);
    } else {
        json_decref(doors);
    }
}
