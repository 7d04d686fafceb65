/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/resp.h"

#include <string.h>

#include "base/size.h"

/* ---- lists ---- */

static bool is_in_aside(const kilni_resp_reader *reader)
{
    for (unsigned i = 0; i < reader->depth; i++) {
        if (reader->lists[i].is_aside) {
            return true;
        }
    }
    return false;
}

/* Called when a value has arrived completely. Closes the lists that end with this value. Returns
 * true if the reply is complete. A push message or an attribute is not an element of the list that
 * contains it, and does not complete a reply. */
static bool end_value(kilni_resp_reader *reader)
{
    while (reader->depth > 0) {
        const unsigned top = reader->depth - 1;
        if (--reader->lists[top].left > 0) {
            return false;
        }
        reader->depth = top;
        if (reader->lists[top].is_aside) {
            reader->announced = top == 0 ? 0 : reader->announced;
            return false;
        }
    }
    reader->announced = 0;
    return true;
}

/* Returns false if the list exceeds a limit. */
static bool begin_list(kilni_resp_reader *reader, uint64_t count, bool is_aside)
{
    if (reader->depth == KILNI_RESP_MAX_DEPTH || count > reader->limits.max_values ||
        reader->announced > reader->limits.max_values - count) {
        return false;
    }
    reader->announced += count;
    reader->lists[reader->depth].left = count;
    reader->lists[reader->depth].is_aside = is_aside;
    reader->depth++;
    return true;
}

/* ---- lines ---- */

typedef enum line_state { INCOMPLETE, COMPLETE, NO_LINE } line_state;

static bool add_to_line(kilni_resp_reader *reader, const unsigned char *bytes, size_t size)
{
    if (size > KILNI_RESP_MAX_LINE - reader->line_length || memchr(bytes, '\n', size)) {
        return false;
    }
    if (reader->line_length < sizeof reader->line) {
        const size_t room = sizeof reader->line - reader->line_length;
        memcpy(reader->line + reader->line_length, bytes, size < room ? size : room);
    }
    reader->line_length += size;
    return true;
}

/* Moves bytes from the input into the line, up to the end of the line. */
static line_state read_line(kilni_resp_reader *reader, kilni_byte_reader *input)
{
    while (input->left > 0) {
        if (reader->line_is_ending) {
            reader->line_is_ending = false;
            return *kilni_read_bytes(input, 1) == '\n' ? COMPLETE : NO_LINE;
        }
        const unsigned char *end = memchr(input->at, '\r', input->left);
        const size_t size = end ? (size_t)(end - input->at) : input->left;
        if (!add_to_line(reader, kilni_read_bytes(input, size), size)) {
            return NO_LINE;
        }
        if (end) {
            reader->line_is_ending = true;
            kilni_read_bytes(input, 1);
        }
    }
    return INCOMPLETE;
}

/* Reads the decimal number that follows the line's first character. The number must have at most 18
 * digits and extend to the end of the line. */
static bool read_number(const kilni_resp_reader *reader, int64_t *ret_number)
{
    const unsigned char *at = reader->line + 1;
    size_t left = reader->line_length - 1;
    const bool is_negative = left > 0 && *at == '-';
    if (is_negative) {
        at++;
        left--;
    }
    if (left == 0 || left > 18) {
        return false;
    }
    int64_t number = 0;
    for (; left > 0; at++, left--) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        number = 10 * number + (*at - '0');
    }
    *ret_number = is_negative ? -number : number;
    return true;
}

/* ---- values ---- */

/* Reads a value that consists of a single line. */
static bool read_simple(kilni_resp_reader *reader, kilni_resp_kind kind, kilni_resp_event *event)
{
    event->kind = kind;
    event->data = reader->line + 1;
    event->size =
        (reader->line_length < sizeof reader->line ? reader->line_length : sizeof reader->line) - 1;
    event->ends_reply = end_value(reader);
    return true;
}

static bool read_integer(kilni_resp_reader *reader, kilni_resp_event *event)
{
    event->kind = KILNI_RESP_INTEGER;
    if (!read_number(reader, &event->integer)) {
        return false;
    }
    event->ends_reply = end_value(reader);
    return true;
}

static bool read_boolean(kilni_resp_reader *reader, kilni_resp_event *event)
{
    const unsigned char value = reader->line[1];
    event->kind = KILNI_RESP_INTEGER;
    event->integer = value == 't';
    if (reader->line_length != 2 || (value != 't' && value != 'f')) {
        return false;
    }
    event->ends_reply = end_value(reader);
    return true;
}

static bool read_nil(kilni_resp_reader *reader, kilni_resp_event *event)
{
    event->kind = KILNI_RESP_NIL;
    event->ends_reply = end_value(reader);
    return true;
}

static bool read_blob(kilni_resp_reader *reader, bool is_failure, kilni_resp_event *event)
{
    int64_t size = 0;
    if (!read_number(reader, &size)) {
        return false;
    }
    if (size == -1) {
        return read_nil(reader, event);
    }
    if (size < 0 || (uint64_t)size > reader->limits.max_blob) {
        return false;
    }
    event->kind = KILNI_RESP_BLOB;
    event->size = (uint64_t)size;
    event->is_failure = is_failure;
    reader->is_in_blob = true;
    reader->blob_left = (uint64_t)size;
    reader->blob_end_left = KILNI_RESP_BLOB_END_SIZE;
    return true;
}

/* @width  the number of values per element: 2 in a map */
static bool read_list(kilni_resp_reader *reader, uint64_t width, bool is_aside,
                      kilni_resp_event *event)
{
    int64_t count = 0;
    uint64_t values = 0;
    if (!read_number(reader, &count)) {
        return false;
    }
    if (count == -1 && !is_aside) {
        return read_nil(reader, event);
    }
    if (count < 0 || !kilni_u64_multiply((uint64_t)count, width, &values)) {
        return false;
    }
    event->kind = KILNI_RESP_LIST;
    event->size = values;
    event->is_aside |= is_aside;
    if (values == 0) {
        event->ends_reply = !is_aside && end_value(reader);
        return true;
    }
    return begin_list(reader, values, is_aside);
}

/* Interprets a complete line. Returns false if the line breaks the protocol. */
static bool read_value(kilni_resp_reader *reader, kilni_resp_event *event)
{
    if (reader->line_length == 0) {
        return false;
    }
    switch (reader->line[0]) {
    case '+':
    case ',': /* a floating-point number */
    case '(': /* a number of any size */
        return read_simple(reader, KILNI_RESP_TEXT, event);
    case '-':
        return read_simple(reader, KILNI_RESP_ERROR, event);
    case ':':
        return read_integer(reader, event);
    case '#':
        return read_boolean(reader, event);
    case '_':
        return reader->line_length == 1 && read_nil(reader, event);
    case '$':
    case '=': /* a text with its format */
        return read_blob(reader, false, event);
    case '!':
        return read_blob(reader, true, event);
    case '*':
    case '~': /* a set */
        return read_list(reader, 1, false, event);
    case '%': /* a map */
        return read_list(reader, 2, false, event);
    case '>': /* a push message */
        return reader->depth == 0 && read_list(reader, 1, true, event);
    case '|': /* attributes of the value that follows */
        return read_list(reader, 2, true, event);
    default:
        return false;
    }
}

/* ---- blobs ---- */

static kilni_resp_result read_piece(kilni_resp_reader *reader, kilni_byte_reader *input,
                                    kilni_resp_event *event)
{
    if (input->left == 0) {
        return KILNI_RESP_MORE;
    }
    event->kind = KILNI_RESP_PIECE;
    event->size = input->left < reader->blob_left ? input->left : reader->blob_left;
    event->data = kilni_read_bytes(input, event->size);
    event->is_aside = is_in_aside(reader);
    reader->blob_left -= event->size;
    return KILNI_RESP_EVENT;
}

static kilni_resp_result read_blob_end(kilni_resp_reader *reader, kilni_byte_reader *input,
                                       kilni_resp_event *event)
{
    for (; reader->blob_end_left > 0; reader->blob_end_left--) {
        const unsigned char *byte = input->left > 0 ? kilni_read_bytes(input, 1) : NULL;
        if (!byte) {
            return KILNI_RESP_MORE;
        }
        if (*byte != (reader->blob_end_left == KILNI_RESP_BLOB_END_SIZE ? '\r' : '\n')) {
            return KILNI_RESP_BROKEN;
        }
    }
    reader->is_in_blob = false;
    event->kind = KILNI_RESP_BLOB_END;
    event->is_aside = is_in_aside(reader);
    event->ends_reply = end_value(reader);
    return KILNI_RESP_EVENT;
}

static kilni_resp_result read_whole_line(kilni_resp_reader *reader, kilni_byte_reader *input,
                                         kilni_resp_event *event)
{
    const line_state state = read_line(reader, input);
    if (state != COMPLETE) {
        return state == INCOMPLETE ? KILNI_RESP_MORE : KILNI_RESP_BROKEN;
    }
    event->is_aside = is_in_aside(reader);
    const bool is_value = read_value(reader, event);
    reader->line_length = 0;
    return is_value ? KILNI_RESP_EVENT : KILNI_RESP_BROKEN;
}

kilni_resp_result kilni_resp_next(kilni_resp_reader *reader, kilni_byte_reader *input,
                                  kilni_resp_event *ret_event)
{
    if (reader->is_broken) {
        return KILNI_RESP_BROKEN;
    }
    kilni_resp_event event = {.kind = KILNI_RESP_NIL};
    kilni_resp_result result;
    if (!reader->is_in_blob) {
        result = read_whole_line(reader, input, &event);
    } else if (reader->blob_left > 0) {
        result = read_piece(reader, input, &event);
    } else {
        result = read_blob_end(reader, input, &event);
    }
    reader->is_broken = result == KILNI_RESP_BROKEN;
    if (result == KILNI_RESP_EVENT) {
        *ret_event = event;
    }
    return result;
}

uint64_t kilni_resp_blob_left(const kilni_resp_reader *reader)
{
    return reader->is_in_blob && !reader->is_broken ? reader->blob_left : 0;
}

void kilni_resp_skip(kilni_resp_reader *reader, uint64_t count)
{
    reader->blob_left -= count;
}

bool kilni_resp_is_between_replies(const kilni_resp_reader *reader)
{
    return !reader->is_broken && !reader->is_in_blob && reader->depth == 0 &&
           reader->line_length == 0 && !reader->line_is_ending;
}

/* ---- commands ---- */

#define LENGTH_LINE_SIZE 23u /* a character, 20 digits, and the end of the line */

/* Appends the line that announces how many arguments, or how many bytes of an argument, follow. */
static kiln_status append_length(kilni_text *text, char kind, size_t length)
{
    char line[LENGTH_LINE_SIZE];
    size_t at = sizeof line;
    line[--at] = '\n';
    line[--at] = '\r';
    do {
        line[--at] = (char)('0' + length % 10);
        length /= 10;
    } while (length > 0);
    line[--at] = kind;
    return kilni_text_append_bytes(text, line + at, sizeof line - at);
}

static kiln_status append_argument(kilni_text *text, const kilni_resp_argument *argument)
{
    kiln_status status = append_length(text, '$', argument->size);
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(text, argument->data, argument->size);
    }
    return status == KILN_OK ? kilni_text_append_bytes(text, "\r\n", 2) : status;
}

kiln_status kilni_resp_append_command(kilni_text *text, const kilni_resp_argument *arguments,
                                      size_t count)
{
    size_t room = LENGTH_LINE_SIZE;
    for (size_t i = 0; i < count; i++) {
        if (!kilni_size_add(room, LENGTH_LINE_SIZE + 2, &room) ||
            !kilni_size_add(room, arguments[i].size, &room)) {
            return KILN_E_NO_MEMORY;
        }
    }
    /* All the memory is reserved first, so no append fails. */
    kiln_status status = kilni_text_reserve(text, room);
    if (status == KILN_OK) {
        status = append_length(text, '*', count);
    }
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        status = append_argument(text, &arguments[i]);
    }
    return status;
}
