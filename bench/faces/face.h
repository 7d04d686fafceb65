/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of this bench share: ways to ask for the same thing, measured in turns on one
 * processor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct face {
    const char *name;
    /* Asks so many times, in a loop of its own, so that the harness costs nothing. Returns
     * something that depends on all answers. */
    uint64_t (*run)(void *user, size_t count);
    void *user;
    size_t count; /* of asking in one stretch: some milliseconds long */
} face;

/* Measures all faces once a round, and prints a line for each stretch:
 *
 *     name <tab> nanoseconds for each asking */
void measure_faces(const face *faces, size_t face_count, int rounds);

/* Ends the program where something did not work. */
void require(bool holds, const char *what);
