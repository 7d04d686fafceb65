/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that reads a constant for as long as the host wants: once, then again when it is told
 * to.
 */
#pragma once

#include "backend.h"

/* What kernel and host share: pinned memory, which both see. */
typedef struct reader_board {
    volatile int flags[2]; /* it has read once; it is to go on */
    volatile double sums[2];
} reader_board;

typedef struct reader {
    backend *owner;
    held_kernel kernel;
    reader_board *board;
} reader;

void reader_open(reader *self, backend *owner);
void reader_close(reader *self);

/* Enqueues it over so many numbers. With @is_to_pause it comes to an end once reader_go_on was
 * called, or after some seconds. */
void reader_launch(reader *self, cuda_address values, size_t count, cuda_stream stream,
                   int is_to_pause);
/* Returns once it has read for the first time. */
void reader_await_start(reader *self, cuda_stream stream);
void reader_go_on(reader *self);
