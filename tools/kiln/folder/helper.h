/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that looks after the folders of a run. It is a child of no process that the program
 * knows, and ends soon after the program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "kept_folder.h"

typedef struct helper_order {
    kept_folder *folders;
    size_t count;
    pid_t program;      /* the process that becomes the program, or starts it */
    int program_handle; /* its pidfd */
    int requests;       /* a socket that listens */
    char *socket_path;
    int ready;  /* a pipe that is closed once the folders without triggers are filled */
    int end;    /* a pipe; if the program has ended in an orderly way, HELPER_ORDERLY is written to
                   it; -1: none, and the program replaces the process that started the helper */
    int report; /* a pipe to which the counts are written at the end; -1: none */
} helper_order;

#define HELPER_ORDERLY 'o'

/* The request with which a process announces that it ends in an orderly way. All other requests are
 * names of libraries. */
#define HELPER_BYE "bye"

/* One count in the report, for each folder in the order of the folders. */
typedef struct helper_count {
    uint64_t files_filled, files_kept;
} helper_count;

/* Starts the helper. Returns false if that failed. */
bool helper_start(const helper_order *order);
