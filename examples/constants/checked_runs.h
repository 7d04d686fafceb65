/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes partitions in threads and checks each result on the host. It serves every backend, whose
 * backend.h must be included first.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <kiln/constant.h>

enum { ROWS = 512, COLUMNS = 512, THREADS = 4, RUNS = 8 };

/* Small integers, whose sums are exact in any order. */
static void fill(weights *matrix, unsigned seed)
{
    for (size_t i = 0; i < matrix->rows * matrix->columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        matrix->values[i] = (float)(seed >> 28);
    }
    matrix->generation = kiln_constant_unique_number();
}

static void make(weights *matrix, unsigned seed)
{
    *matrix = (weights){.rows = ROWS, .columns = COLUMNS};
    matrix->values = malloc(sizeof *matrix->values * ROWS * COLUMNS);
    require(matrix->values != NULL, "malloc", 0);
    fill(matrix, seed);
}

static int is_right(const weights *matrix, const float *vector, const float *result)
{
    for (size_t row = 0; row < matrix->rows; row++) {
        float sum = 0;
        for (size_t column = 0; column < matrix->columns; column++) {
            sum += matrix->values[row * matrix->columns + column] * vector[column];
        }
        if (sum != result[row]) {
            return 0;
        }
    }
    return 1;
}

static atomic_int wrong;

static void *execute(void *argument)
{
    const partition *what = argument;
    float vector[COLUMNS];
    float result[ROWS];
    execution e;
    execution_begin(&e, what);
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < COLUMNS; i++) {
            vector[i] = (float)((i + run) % 7);
        }
        execution_run(&e, vector, result);
        if (!is_right(what->matrix, vector, result)) {
            atomic_fetch_add(&wrong, 1);
        }
    }
    execution_end(&e);
    return NULL;
}

/* Executes a partition in several threads and prints how often weights were reordered. Any number
 * except @expected counts as an error. */
static void run(const char *what, const partition *executed, int expected)
{
    backend *owner = executed->owner;
    pthread_t threads[THREADS];
    int before = atomic_load(&owner->reorders);
    for (int i = 0; i < THREADS; i++) {
        partition *argument = (partition *)(uintptr_t)executed;
        require(pthread_create(&threads[i], NULL, execute, argument) == 0, "pthread_create", 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    int reorders = atomic_load(&owner->reorders) - before;
    if (reorders != expected) {
        atomic_fetch_add(&wrong, 1);
    }
    printf("%-40s %d runs, %2d reorders, %.0f MiB kept\n", what, THREADS * RUNS, reorders,
           (double)kiln_constant_get_size(owner->cache) / (1 << 20));
}
