/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that reads a constant once, and again when the host tells it to continue.
 */
#pragma once

#include "backend.h"

/* What kernel and host share, in pinned memory that both access. */
typedef struct reader_board {
    volatile int flags[2]; /* the kernel has read once; the kernel may continue */
    volatile double sums[2];
} reader_board;

typedef struct reader {
    backend *owner;
    held_kernel kernel;
    reader_board *board;
} reader;

void reader_open(reader *self, backend *owner);
void reader_close(reader *self);

/* Enqueues the kernel for @count numbers. With @is_to_pause, the kernel ends once reader_go_on is
 * called, or after a few seconds. */
void reader_launch(reader *self, cuda_address values, size_t count, cuda_stream stream,
                   int is_to_pause);
/* Returns once the kernel has read for the first time. */
void reader_await_start(reader *self, cuda_stream stream);
void reader_go_on(reader *self);
