/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that reads a constant as long as the host wants: once, and again when it is told to.
 */
#pragma once

#include "backend.h"

/* Shared by kernel and host: pinned memory, which both access. */
typedef struct reader_board {
    volatile int flags[2]; /* it has read once; it may continue */
    volatile double sums[2];
} reader_board;

typedef struct reader {
    backend *owner;
    held_kernel kernel;
    reader_board *board;
} reader;

void reader_open(reader *self, backend *owner);
void reader_close(reader *self);

/* Enqueues it for @count numbers. With @is_to_pause it ends once reader_go_on was called, or after
 * some seconds. */
void reader_launch(reader *self, cuda_address values, size_t count, cuda_stream stream,
                   int is_to_pause);
/* Returns once it has read for the first time. */
void reader_await_start(reader *self, cuda_stream stream);
void reader_go_on(reader *self);
