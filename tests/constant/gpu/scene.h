/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of this folder share: weights of 1 MiB, partitions whose results are checked,
 * and expectations.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <kiln/constant.h>

#include "backend.h"

enum { ROWS = 512, COLUMNS = 512 };

/* The weights are small integers, so their sums are exact in any order. */
static inline void make_weights(weights *matrix, unsigned seed)
{
    *matrix =
        (weights){.rows = ROWS, .columns = COLUMNS, .generation = kiln_constant_unique_number()};
    matrix->values = malloc(sizeof *matrix->values * ROWS * COLUMNS);
    require(matrix->values != NULL, "malloc", 0);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        seed = seed * 1664525u + 1013904223u;
        matrix->values[i] = (float)(seed >> 28);
    }
}

/* Executes a partition, and compares the result with loops on the host. */
static inline int is_right(execution *e)
{
    const weights *matrix = e->what->matrix;
    float vector[COLUMNS], result[ROWS];
    for (int i = 0; i < COLUMNS; i++) {
        vector[i] = (float)(i % 7);
    }
    execution_run(e, vector, result);
    for (size_t row = 0; row < ROWS; row++) {
        float sum = 0;
        for (size_t column = 0; column < COLUMNS; column++) {
            sum += matrix->values[row * COLUMNS + column] * vector[column];
        }
        if (sum != result[row]) {
            return 0;
        }
    }
    return 1;
}

/* Prints an expectation and whether it holds; counts failures. */
static inline void expect(int *failures, int holds, const char *what)
{
    printf("%s  %s\n", holds ? "ok    " : "FAILED", what);
    *failures += !holds;
}
