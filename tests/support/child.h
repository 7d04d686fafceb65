/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of what happens once in a process: each runs in a child process of its own.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child: prints a message and ends it. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Runs a function in a child, which then exits normally. Returns its wait status: 0 if it
 * succeeded. */
static inline int run_in_child(void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body();
        exit(0);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return status;
}
