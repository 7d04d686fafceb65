/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends events to a journal, for the tests of the command-line tool:
 *
 *   make_journal FILE [COUNT]
 *
 * Each line of stdin is an event, with these fields between tabs: kind, digest, time (Unix seconds,
 * with or without a fraction), milliseconds of the build, milliseconds saved, status of the store,
 * program, device, name. Each event is appended COUNT times (1).
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/journal_file.h"
#include "store/journal_record.h"

#define MS UINT64_C(1000000)
#define FIELDS 9

static void append(const char *path, char *line, long count)
{
    char *fields[FIELDS];
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    for (int i = 0; i < FIELDS; i++) {
        fields[i] = strsep(&line, "\t\n");
        if (!fields[i]) {
            exit(2);
        }
    }
    kiln_journal_event event = {
        .kind = (uint32_t)strtoul(fields[0], NULL, 10),
        .pid = (uint32_t)getpid(),
        .count = 1,
        .time_ns = (int64_t)(strtod(fields[2], NULL) * 1e9),
        .build_ns = strtoull(fields[3], NULL, 10) * MS,
        .saved_ns = strtoull(fields[4], NULL, 10) * MS,
        .store = (kiln_status)strtol(fields[5], NULL, 10),
        .program = fields[6],
        .device = fields[7],
        .name = fields[8],
    };
    if (event.kind != KILN_JOURNAL_MEMORY_HITS &&
        kiln_digest_parse(fields[1], &event.digest) != KILN_OK) {
        exit(2);
    }
    const size_t size = kilni_journal_encode(&event, record);
    for (long i = 0; i < count; i++) {
        if (kilni_journal_append(AT_FDCWD, path, NULL, record, size) != KILN_OK) {
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    char line[8192];
    if (argc < 2) {
        return 2;
    }
    while (fgets(line, sizeof line, stdin)) {
        append(argv[1], line, argc > 2 ? strtol(argv[2], NULL, 10) : 1);
    }
    return 0;
}
