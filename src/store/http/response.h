/* SPDX-License-Identifier: Apache-2.0
 *
 * A parser of HTTP/1.1 answers. It does no I/O, so that all of it can be fuzzed. It reads an answer
 * in pieces as they arrive, reports a body's announced size before the bytes arrive, and allocates
 * nothing. It refuses every answer that two parsers could understand differently.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* Bytes of the text of a line beyond this number are dropped. */
#define KILNI_HTTP_LINE_SIZE 1024u

/* The maximum size of a head, including the heads of interim answers. It also limits the lines of
 * the chunks: together, they must not exceed the size of the body by more than this. */
#define KILNI_HTTP_MAX_HEAD 65536u

/* What the head of an answer says. */
typedef struct kilni_http_head {
    unsigned status;        /* 200 to 599 */
    bool has_size;          /* the size of the body is announced */
    bool is_chunked;        /* the body consists of chunks, so its size is not announced */
    uint64_t size;          /* of the body, if has_size */
    bool is_range;          /* the body is the beginning of a file, or the whole file */
    uint64_t whole_size;    /* of the file, if is_range */
    bool is_page;           /* the body is an HTML page */
    bool is_encoded;        /* the body is compressed or otherwise encoded */
    uint32_t retry_after_s; /* the server asks not to be contacted for this time; 0: it does not ask
                               for this */
    bool is_last;           /* the server closes the connection after this answer */
    /* Times of the server's clock, in seconds since 1970; 0: not given. */
    uint64_t sent_s;     /* when the server sent the answer (Date) */
    uint64_t modified_s; /* when the file was last changed (Last-Modified) */
} kilni_http_head;

typedef enum kilni_http_state {
    KILNI_HTTP_STATUS_LINE,
    KILNI_HTTP_FIELDS,
    KILNI_HTTP_BODY,
    KILNI_HTTP_CHUNK_SIZE,
    KILNI_HTTP_CHUNK,
    KILNI_HTTP_CHUNK_END,
    KILNI_HTTP_TRAILER,
    KILNI_HTTP_DONE,
    KILNI_HTTP_BROKEN_STATE
} kilni_http_state;

/* A zeroed reader is at the beginning of an answer. */
typedef struct kilni_http_reader {
    bool answers_head; /* set by the caller: the method was HEAD, so there is no body */
    kilni_http_state state;
    kilni_http_head head;
    bool has_encoding; /* the head has the field Transfer-Encoding */
    bool is_interim;   /* the head is that of an interim answer */
    bool has_begun;    /* a byte has arrived */
    uint64_t left;     /* bytes of the body or the chunk that have not arrived */

    size_t line_bytes;  /* bytes in all lines so far, minus the bytes in chunks */
    size_t line_length; /* of the line so far; only its first bytes are kept */
    bool line_is_ending;
    char line[KILNI_HTTP_LINE_SIZE];
} kilni_http_reader;

typedef enum kilni_http_result {
    KILNI_HTTP_MORE,   /* the input is used up */
    KILNI_HTTP_HEAD,   /* reader.head has arrived */
    KILNI_HTTP_PIECE,  /* a piece of the body has arrived */
    KILNI_HTTP_END,    /* the answer is complete; all further input belongs to the next answer */
    KILNI_HTTP_BROKEN, /* the bytes break the protocol, or a limit was exceeded; permanent */
} kilni_http_result;

/* Reads @input up to the next event, and removes the bytes that it has read from @input. After the
 * end of an answer, the reader must be zeroed before it reads the next answer.
 *
 * @ret_piece  [out] set if the result is KILNI_HTTP_PIECE; points into the input */
kilni_http_result kilni_http_next(kilni_http_reader *reader, kilni_byte_reader *input,
                                  kilni_byte_reader *ret_piece);

/* Returns how many of the next bytes are known to belong to the body. A caller that has used up its
 * input may receive up to this number of bytes directly into their final place. After that, it must
 * call kilni_http_skip with the number of bytes received. */
uint64_t kilni_http_body_left(const kilni_http_reader *reader);
void kilni_http_skip(kilni_http_reader *reader, uint64_t count);
