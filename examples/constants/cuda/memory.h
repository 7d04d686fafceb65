/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of constants on a GPU. It is allocated, computed and freed in streams, so the host
 * does not wait for any of these steps.
 *
 * Freeing: the thread that releases the last pin of an evicted constant calls a function here. The
 * function enqueues the free in a separate stream, after all commands that are now in any stream of
 * the context. A thread enqueues the commands that read a constant before it releases its pin, so
 * they finish before the memory can be used again.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <kiln/constant_backend.h>

#include "driver.h"

/* A stream that uses constants, and an event that makes other streams wait for it. */
typedef struct user_stream {
    cuda_stream handle;
    cuda_event passed;
    struct user_stream *next;
} user_stream;

/* A CUDA context on one device. Its buffers and its backend hold it; it is freed when the last
 * of them releases it. */
typedef struct device_context {
    const cuda_driver *cuda;
    cuda_context handle;
    cuda_pool pool;
    user_stream computing; /* allocates and computes */
    cuda_stream freeing;
    pthread_mutex_t lock; /* guards the list; held while streams are made to wait, never during a
                             call of Kiln */
    user_stream *users;   /* all streams whose commands may read constants */
    atomic_int holds;
} device_context;

device_context *context_open(const cuda_driver *cuda, int device);
void context_release(device_context *self);

/* Any thread may free memory, so a thread makes the context current while it frees. */
void context_enter(const device_context *self);
void context_leave(const device_context *self);

/* The caller calls user_stream_begin before a stream reads constants, and user_stream_end after the
 * stream's last read. */
void user_stream_begin(device_context *context, user_stream *self);
void user_stream_end(device_context *context, user_stream *self);

/* A buffer for a constant. The caller computes it in the context's computing stream and then calls
 * constant_computed, which sets its fence. */
kiln_constant_buffer *constant_new(device_context *context, size_t size,
                                   kiln_constant_cache *cache);
void constant_computed(device_context *context, kiln_constant_buffer *buffer);

cuda_address constant_address(const kiln_constant_buffer *buffer);

/* Makes a stream's next commands wait until the constant is computed. Once that is known,
 * the call costs only a load. Must be called in the context. */
void constant_await(const kiln_constant_buffer *buffer, cuda_stream stream);

/* End the program with a message if a call failed. */
void require(int holds, const char *call, int code);
#define REQUIRE_CUDA(call) require_cuda(call, #call)
void require_cuda(int result, const char *call);
#define REQUIRE_KILN(call) require_kiln(call, #call)
void require_kiln(kiln_status status, const char *call);
