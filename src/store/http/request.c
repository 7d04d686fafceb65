/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/request.h"

#include <stdlib.h>
#include <string.h>

/* A body that the caller does not want, such as an error page, is read to its end if it is smaller
 * than this. After that, the connection can be used again. */
#define DISCARDED_BYTES 65536u

#define FIRST_CAPACITY 16384u

static void destroy(kilni_call *call)
{
    kilni_http_request *request = (kilni_http_request *)call;
    if (request->text.bytes) {
        explicit_bzero(request->text.bytes, request->text.length); /* it may hold a token */
    }
    kilni_text_done(&request->text);
    kilni_value_hash_done(&request->hash);
    free(request->data);
    if (request->owner) {
        request->forget(request->owner);
    }
    free(request);
}

kiln_status kilni_http_request_new(void (*run)(kilni_task *task), uint64_t deadline_ns,
                                   kilni_http_request **ret_request)
{
    kilni_http_request *request = calloc(1, sizeof *request);
    if (!request || kilni_call_init(&request->call, run, destroy, deadline_ns) != KILN_OK) {
        free(request);
        return KILN_E_NO_MEMORY;
    }
    *ret_request = request;
    return KILN_OK;
}

/* Makes room for @extra more bytes of the body. The caller has checked the size. */
static kiln_status reserve(kilni_http_request *request, size_t extra)
{
    const size_t needed = request->size + extra;
    if (request->data && needed <= request->capacity) {
        return KILN_OK;
    }
    size_t capacity = request->head.has_size ? needed : FIRST_CAPACITY;
    while (capacity < needed) {
        capacity *= 2;
    }
    unsigned char *data = realloc(request->data, capacity + 1);
    if (!data) {
        return KILN_E_NO_MEMORY;
    }
    request->data = data;
    request->capacity = capacity;
    return KILN_OK;
}

static bool is_wanted(const kilni_http_request *request)
{
    const unsigned expected = request->head.is_range ? 206 : 200;
    return request->kept_bytes > 0 && request->head.status == expected &&
           (request->head.has_size || request->head.is_chunked);
}

/* Handles the head of the answer. The size is checked before memory is allocated. */
static kiln_status take_head(kilni_http_request *request)
{
    const kilni_http_head *head = &request->head;
    request->head = request->reader.head;
    if (head->status == 206 && (!request->asks_range || !head->is_range)) {
        return KILN_E_CORRUPT;
    }
    if (!is_wanted(request)) {
        return KILN_OK;
    }
    if (head->has_size && head->size > request->max_bytes) {
        return KILN_E_TOO_LARGE;
    }
    if (head->has_size && head->size <= request->kept_bytes) {
        kilni_value_hash_begin(&request->hash, (size_t)head->size);
    }
    const uint64_t size = head->has_size ? head->size : 0;
    return reserve(request, size < request->kept_bytes ? (size_t)size : request->kept_bytes);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static kiln_status discard(kilni_http_request *request, size_t count)
{
    request->discarded += smaller(count, DISCARDED_BYTES);
    return request->discarded >= DISCARDED_BYTES ? KILN_OK : KILN_BUSY;
}

/* Takes a piece of the body. Returns KILN_OK: no more bytes are wanted; KILN_BUSY: more bytes must
 * arrive; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
static kiln_status take_piece(kilni_http_request *request, const kilni_byte_reader *piece)
{
    if (!is_wanted(request)) {
        return discard(request, piece->left);
    }
    if (piece->left > request->max_bytes - request->size) {
        return KILN_E_TOO_LARGE;
    }
    const size_t count = smaller(piece->left, request->kept_bytes - request->size);
    const kiln_status status = reserve(request, count);
    if (status != KILN_OK) {
        return status;
    }
    memcpy(request->data + request->size, piece->at, count);
    kilni_value_hash_add(&request->hash, request->data + request->size, count);
    request->size += count;
    return count < piece->left ? KILN_OK : KILN_BUSY;
}

static kiln_status end(kilni_http_request *request)
{
    if (request->data) {
        request->data[request->size] = '\0';
    }
    request->is_hashed = kilni_value_hash_end(&request->hash, &request->digest);
    return KILN_OK;
}

kiln_status kilni_http_request_take(kilni_http_request *request, kilni_byte_reader *input)
{
    for (;;) {
        kilni_byte_reader piece = {0};
        kiln_status status = KILN_BUSY;
        switch (kilni_http_next(&request->reader, input, &piece)) {
        case KILNI_HTTP_MORE:
            return KILN_BUSY;
        case KILNI_HTTP_BROKEN:
            return KILN_E_CORRUPT;
        case KILNI_HTTP_END:
            return end(request);
        case KILNI_HTTP_HEAD:
            status = take_head(request);
            status = status == KILN_OK ? KILN_BUSY : status;
            break;
        case KILNI_HTTP_PIECE:
            status = take_piece(request, &piece);
        }
        if (status != KILN_BUSY) {
            return status == KILN_OK ? end(request) : status;
        }
    }
}

unsigned char *kilni_http_request_place(kilni_http_request *request, size_t *ret_room)
{
    const uint64_t left = kilni_http_body_left(&request->reader);
    if (left == 0 || !request->data || left > request->capacity - request->size ||
        left > request->kept_bytes - request->size) {
        return NULL;
    }
    *ret_room = (size_t)left;
    return request->data + request->size;
}

kiln_status kilni_http_request_arrived(kilni_http_request *request, size_t count)
{
    kilni_byte_reader none = {0};
    kilni_value_hash_add(&request->hash, request->data + request->size, count);
    request->size += count;
    kilni_http_skip(&request->reader, count);
    return kilni_http_request_take(request, &none);
}

bool kilni_http_request_leaves_connection(const kilni_http_request *request)
{
    return request->reader.state == KILNI_HTTP_DONE && !request->head.is_last &&
           request->sent == request->text.length;
}

void kilni_http_request_rewind(kilni_http_request *request)
{
    request->sent = 0;
    request->reader = (kilni_http_reader){.answers_head = request->asks_head};
}
