/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of constants on a GPU. It is allocated, computed and freed in streams, so that the
 * host waits for none of it.
 *
 * What frees, and when: whoever lets the last pin of an evicted constant go, calls a function here
 * that enqueues the free in a stream of its own, behind all that was enqueued until then in any
 * stream of the context. Commands that read a constant were enqueued before their thread gave its
 * pin back, so that they end before the memory can become anyone else's.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <kiln/constant_backend.h>

#include "driver.h"

/* A stream that uses constants, and an event to make others wait for it. */
typedef struct user_stream {
    cuda_stream handle;
    cuda_event passed;
    struct user_stream *next;
} user_stream;

/* A CUDA context on one device. Buffers hold it: it goes with the last of them and its backend. */
typedef struct device_context {
    const cuda_driver *cuda;
    cuda_context handle;
    cuda_pool pool;
    user_stream computing; /* allocates and computes */
    cuda_stream freeing;
    pthread_mutex_t lock; /* of the list; held while streams are made to wait, never over a call of
                             Kiln */
    user_stream *users;   /* all whose commands may read constants */
    atomic_int holds;
} device_context;

device_context *context_open(const cuda_driver *cuda, int device);
void context_release(device_context *self);

/* Any thread may be the one that frees, so that each makes the context its own for the time. */
void context_enter(const device_context *self);
void context_leave(const device_context *self);

/* To be called before a stream reads constants, and when it reads no more. */
void user_stream_begin(device_context *context, user_stream *self);
void user_stream_end(device_context *context, user_stream *self);

/* A buffer for a constant; to be computed in the context's stream for that, then to be closed by
 * constant_computed, which gives it its fence. */
kiln_constant_buffer *constant_new(device_context *context, size_t size,
                                   kiln_constant_cache *cache);
void constant_computed(device_context *context, kiln_constant_buffer *buffer);

cuda_address constant_address(const kiln_constant_buffer *buffer);

/* Makes a stream's next commands wait until the constant is computed. Costs a load, once it was
 * found to be. In the context. */
void constant_await(const kiln_constant_buffer *buffer, cuda_stream stream);

/* End the program with a message where a call failed. */
void require(int holds, const char *call, int code);
#define REQUIRE_CUDA(call) require_cuda(call, #call)
void require_cuda(int result, const char *call);
#define REQUIRE_KILN(call) require_kiln(call, #call)
void require_kiln(kiln_status status, const char *call);
