/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol of Redis and Valkey: RESP2, and what RESP3 adds. This code does no I/O, so that all
 * of it can be fuzzed. Commands are written in one piece. Replies are read in pieces as they
 * arrive. The reader reports each announced size before the bytes arrive, allocates nothing, and
 * accepts nothing that exceeds the limits that its caller sets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "base/bytes.h"
#include "base/text.h"

/* How deeply lists may be nested in a reply. */
#define KILNI_RESP_MAX_DEPTH 8u

/* The text of a line beyond this many bytes is skipped. */
#define KILNI_RESP_LINE_SIZE 512u

/* A longer line breaks the reader: no server sends one. */
#define KILNI_RESP_MAX_LINE 65536u

typedef enum kilni_resp_kind {
    KILNI_RESP_TEXT,    /* a line of text, such as OK; also a floating-point or big number */
    KILNI_RESP_ERROR,   /* a line that describes why a command failed */
    KILNI_RESP_INTEGER, /* also a boolean */
    KILNI_RESP_NIL,
    KILNI_RESP_LIST,  /* the size is the number of the values that follow; those of a map are keys
                         and values in turn */
    KILNI_RESP_BLOB,  /* the size is the number of the bytes that follow, in pieces; then comes
                         BLOB_END */
    KILNI_RESP_PIECE, /* the next bytes of a blob */
    KILNI_RESP_BLOB_END, /* all bytes of a blob have arrived */
} kilni_resp_kind;

typedef struct kilni_resp_event {
    kilni_resp_kind kind;
    bool is_failure; /* of BLOB: the blob is an error message */
    bool ends_reply; /* this was the last event of a reply */
    /* The event belongs to a message that is not part of the reply, such as a push message. The
     * caller must ignore the event. */
    bool is_aside;
    int64_t integer;
    uint64_t size; /* of TEXT and ERROR: of the text that is kept; of PIECE: of the bytes that have
                      arrived */
    const unsigned char *data; /* of TEXT, ERROR and PIECE; valid until the next call */
} kilni_resp_event;

/* What a reply may announce. If a reply announces more, the reader fails. */
typedef struct kilni_resp_limits {
    uint64_t max_blob;   /* bytes in one blob */
    uint64_t max_values; /* values in all lists of a reply together */
} kilni_resp_limits;

/* A zeroed reader is at the beginning of a reply. The limits may be changed between replies. */
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
 * that has used up its input may receive up to that many bytes into their final place. It must then
 * call kilni_resp_skip with the number of these bytes. No PIECE is reported for them. */
uint64_t kilni_resp_blob_left(const kilni_resp_reader *reader);
void kilni_resp_skip(kilni_resp_reader *reader, uint64_t count);

/* Whether no byte of a reply has arrived yet. */
bool kilni_resp_is_between_replies(const kilni_resp_reader *reader);

/* One argument of a command. */
typedef struct kilni_resp_argument {
    const void *data;
    size_t size;
} kilni_resp_argument;

/* Appends a command. Returns KILN_OK; KILN_E_NO_MEMORY, and @text is unchanged. */
kiln_status kilni_resp_append_command(kilni_text *text, const kilni_resp_argument *arguments,
                                      size_t count);
