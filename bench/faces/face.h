/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of this bench share: several functions that request the same thing, measured in
 * turns on one processor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct face {
    const char *name;
    /* Makes that many requests in its own loop, so that the harness costs nothing. Returns a value
     * that depends on all results. */
    uint64_t (*run)(void *user, size_t count);
    void *user;
    size_t count; /* requests in one measurement, which takes a few milliseconds */
} face;

/* Measures each face once per round, and prints a line for each measurement:
 *
 *     name <tab> nanoseconds per request */
void measure_faces(const face *faces, size_t face_count, int rounds);

/* Ends the program with a message if something failed. */
void require(bool holds, const char *what);
