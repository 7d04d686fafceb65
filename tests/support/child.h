/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of events that happen once in a process: each test runs in a separate child process.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* For use in a child: prints a message and ends the child. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Skips a test that forks while another thread allocates memory. AddressSanitizer of gcc 12 does
 * not take its allocator's locks before a fork, so the child may wait forever for a lock that the
 * other thread held. */
#ifdef __SANITIZE_ADDRESS__
#define SKIP_FORKS_BESIDE_ALLOCATIONS() skip()
#else
#define SKIP_FORKS_BESIDE_ALLOCATIONS() ((void)0)
#endif

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
