/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol of Redis and Valkey: RESP2 and the additions of RESP3. This code does no I/O, so
 * that all of it can be fuzzed. Each command is written as a whole. Replies are read in pieces as
 * they arrive. The reader reports each announced size before the bytes arrive. It allocates
 * nothing, and accepts nothing that exceeds the limits set by its caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "base/bytes.h"
#include "base/text.h"

/* How deep the lists in a reply can be nested. */
#define KILNI_RESP_MAX_DEPTH 8u

/* Bytes of the text of a line beyond this number are dropped. */
#define KILNI_RESP_LINE_SIZE 512u

/* A longer line is an error, because no server sends such a line. */
#define KILNI_RESP_MAX_LINE 65536u

typedef enum kilni_resp_kind {
    KILNI_RESP_TEXT,    /* a line of text, such as OK; also a floating-point or big number */
    KILNI_RESP_ERROR,   /* a line that describes why a command failed */
    KILNI_RESP_INTEGER, /* also a boolean */
    KILNI_RESP_NIL,
    KILNI_RESP_LIST,  /* the size is the number of the values that follow; a map has keys and values
                         in turn */
    KILNI_RESP_BLOB,  /* the size is the number of the bytes that follow, in pieces; then comes
                         BLOB_END */
    KILNI_RESP_PIECE, /* the next bytes of a blob */
    KILNI_RESP_BLOB_END, /* all bytes of a blob have arrived */
} kilni_resp_kind;

typedef struct kilni_resp_event {
    kilni_resp_kind kind;
    bool is_failure; /* for BLOB: the blob is an error message */
    bool ends_reply; /* this was the last event of a reply */
    /* The event belongs to a message that is not part of the reply, such as a push message. The
     * caller must ignore the event. */
    bool is_aside;
    int64_t integer;
    uint64_t size; /* for TEXT and ERROR, the size of the kept text; for PIECE, the number of bytes
                      that have arrived */
    const unsigned char *data; /* for TEXT, ERROR and PIECE; valid until the next call */
} kilni_resp_event;

/* The limits on what a reply announces. If a reply announces more, the reader fails. */
typedef struct kilni_resp_limits {
    uint64_t max_blob;   /* bytes in one blob */
    uint64_t max_values; /* values in all lists of a reply together */
} kilni_resp_limits;

/* A zeroed reader is at the beginning of a reply. The limits can be changed between replies. */
typedef struct kilni_resp_reader {
    kilni_resp_limits limits;
    bool is_broken;

    bool is_in_blob;
    uint64_t blob_left;     /* bytes of the blob that have not arrived */
    unsigned blob_end_left; /* how many of the two bytes after a blob have not arrived */

    size_t line_length; /* of the line so far; only its first bytes are kept */
    bool line_is_ending;
    unsigned char line[KILNI_RESP_LINE_SIZE];

    uint64_t announced; /* how many values this reply has announced so far */
    unsigned depth;
    struct {
        uint64_t left; /* values that have not arrived */
        bool is_aside;
    } lists[KILNI_RESP_MAX_DEPTH];
} kilni_resp_reader;

typedef enum kilni_resp_result {
    KILNI_RESP_MORE,  /* the input is used up */
    KILNI_RESP_EVENT, /* there is an event */
    KILNI_RESP_BROKEN /* the bytes break the protocol, or a limit was exceeded; permanent */
} kilni_resp_result;

/* Reads @input up to the next event, and removes the bytes that it has read from @input.
 *
 * @ret_event  [out] set if the result is KILNI_RESP_EVENT */
kilni_resp_result kilni_resp_next(kilni_resp_reader *reader, kilni_byte_reader *input,
                                  kilni_resp_event *ret_event);

/* Returns how many bytes of the present blob have not arrived; 0: no blob is arriving. A caller
 * that has used up its input may receive up to this number of bytes directly into their final
 * place. After that, it must call kilni_resp_skip with the number of bytes received. No PIECE is
 * reported for them. */
uint64_t kilni_resp_blob_left(const kilni_resp_reader *reader);
void kilni_resp_skip(kilni_resp_reader *reader, uint64_t count);

/* Returns true if no byte of a reply has arrived yet. */
bool kilni_resp_is_between_replies(const kilni_resp_reader *reader);

/* The size of the end of a blob, which the sender sends together with the blob. */
#define KILNI_RESP_BLOB_END_SIZE 2u

/* One argument of a command. */
typedef struct kilni_resp_argument {
    const void *data;
    size_t size;
} kilni_resp_argument;

/* Appends a command. Returns KILN_OK; KILN_E_NO_MEMORY: @text is unchanged. */
kiln_status kilni_resp_append_command(kilni_text *text, const kilni_resp_argument *arguments,
                                      size_t count);
