/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that repeats one build. It reads the entry from standard input, enters a sandbox,
 * waits for its turn, calls the compiler in a child process, and reports what became of it.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "build.h"

/* Descriptors that the process is started with: the report, a line of JSON with "result" and
 * perhaps "why" and "log", goes to standard output. New entries, if there are any, go to this one:
 * for each, its size, as an uint64_t, and its encoding. The first one is that of the build; the
 * others are its steps (recipe_is_step). */
#define WORKER_ENTRY_FILE 3

/* When the sandbox is ready, the process waits for this signal, which must be blocked when it
 * starts. Then it calls the compiler. */
#define WORKER_GO SIGUSR1

typedef struct worker_terms {
    const char *parent; /* the id of the process that started this one, which ends with it */
    build_terms build;
    const char *included_beside; /* the folder of a store beside which the contents of included
                                    files are kept; NULL: none */
    const char *cache; /* the folder of a store that may have the result already; NULL: none */
    bool sandboxed;    /* whether the compiler runs in a sandbox */
} worker_terms;

/* Repeats the build. Returns the exit code, EXIT_OK if a report was written. */
int worker_run(const worker_terms *terms);
