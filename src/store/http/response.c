/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/response.h"

#include <string.h>
#include <strings.h>

#include "store/http/date.h"

/* ---- lines ---- */

typedef enum line_state { INCOMPLETE, COMPLETE, NO_LINE } line_state;

/* Appends bytes to the line. Returns false if they contain a line end or a NUL, or if the lines are
 * too long. */
static bool add_to_line(kilni_http_reader *reader, const unsigned char *bytes, size_t size)
{
    if (size > KILNI_HTTP_MAX_HEAD - reader->line_bytes || memchr(bytes, '\n', size) ||
        memchr(bytes, '\0', size)) {
        return false;
    }
    if (reader->line_length < sizeof reader->line) {
        const size_t room = sizeof reader->line - reader->line_length;
        memcpy(reader->line + reader->line_length, bytes, size < room ? size : room);
    }
    reader->line_length += size;
    reader->line_bytes += size;
    return true;
}

/* Moves bytes from the input into the line, up to the end of the line. The line end counts as two
 * bytes of the line. */
static line_state read_line(kilni_http_reader *reader, kilni_byte_reader *input)
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
            if (KILNI_HTTP_MAX_HEAD - reader->line_bytes < 2) {
                return NO_LINE;
            }
            reader->line_bytes += 2;
            reader->line_is_ending = true;
            kilni_read_bytes(input, 1);
        }
    }
    return INCOMPLETE;
}

/* ---- texts ---- */

typedef struct span {
    const char *at;
    size_t length;
} span;

static bool is_blank(char character)
{
    return character == ' ' || character == '\t';
}

static span trim(span text)
{
    while (text.length > 0 && is_blank(text.at[0])) {
        text.at++;
        text.length--;
    }
    while (text.length > 0 && is_blank(text.at[text.length - 1])) {
        text.length--;
    }
    return text;
}

static bool equals(span text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.at, word, text.length) == 0;
}

/* Removes from @text everything up to and including a character. Returns the part before that
 * character. If the character does not occur, removes and returns the whole text. */
static span take_until(span *text, char at)
{
    const char *found = text->length > 0 ? memchr(text->at, at, text->length) : NULL;
    const span taken = {text->at, found ? (size_t)(found - text->at) : text->length};
    const size_t used = taken.length + (found ? 1 : 0);
    text->at += used;
    text->length -= used;
    return taken;
}

static bool contains_word(span list, const char *word)
{
    while (list.length > 0) {
        if (equals(trim(take_until(&list, ',')), word)) {
            return true;
        }
    }
    return false;
}

/* Reads a number. The whole text must consist of digits: at most 18 decimal digits, or at most 15
 * hexadecimal digits. */
static bool read_number(span digits, unsigned base, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (digits.length == 0 || digits.length > (base == 10 ? 18u : 15u)) {
        return false;
    }
    for (size_t i = 0; i < digits.length; i++) {
        const char lower = (char)(digits.at[i] | 0x20);
        unsigned value = 16;
        if (digits.at[i] >= '0' && digits.at[i] <= '9') {
            value = (unsigned)(digits.at[i] - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = (unsigned)(lower - 'a') + 10;
        }
        if (value >= base) {
            return false;
        }
        number = number * base + value;
    }
    *ret_number = number;
    return true;
}

/* ---- fields: each returns false if the answer cannot be trusted ---- */

static bool read_length(kilni_http_reader *reader, span value)
{
    uint64_t size;
    if (!read_number(value, 10, &size) || (reader->head.has_size && reader->head.size != size)) {
        return false;
    }
    reader->head.has_size = true;
    reader->head.size = size;
    return true;
}

/* Accepts only "chunked", because Kiln does not ask for any other encoding. */
static bool read_transfer_encoding(kilni_http_reader *reader, span value)
{
    const bool is_known = !reader->has_encoding && equals(value, "chunked");
    reader->has_encoding = true;
    reader->head.is_chunked = true;
    return is_known;
}

static bool read_connection(kilni_http_reader *reader, span value)
{
    reader->head.is_last |= contains_word(value, "close");
    return true;
}

static bool read_content_type(kilni_http_reader *reader, span value)
{
    reader->head.is_page |= equals(trim(take_until(&value, ';')), "text/html");
    return true;
}

static bool read_content_encoding(kilni_http_reader *reader, span value)
{
    reader->head.is_encoded |= !equals(value, "identity") && value.length > 0;
    return true;
}

/* Reads Retry-After. A date is ignored, because the server's clock may be wrong. */
static bool read_retry_after(kilni_http_reader *reader, span value)
{
    uint64_t seconds;
    if (read_number(value, 10, &seconds)) {
        reader->head.retry_after_s = seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
    }
    return true;
}

/* Reads "bytes 0-LAST/SIZE". Kiln asks only for ranges that begin at 0. */
static bool read_content_range(kilni_http_reader *reader, span value)
{
    uint64_t last;
    const span unit = take_until(&value, ' ');
    const span first = take_until(&value, '-');
    if (!equals(unit, "bytes") || !equals(first, "0") ||
        !read_number(take_until(&value, '/'), 10, &last) ||
        !read_number(value, 10, &reader->head.whole_size)) {
        return reader->head.status != 206;
    }
    reader->head.is_range = true;
    return last < reader->head.whole_size;
}

/* A date that cannot be read is ignored. */
static bool read_date(kilni_http_reader *reader, span value)
{
    kilni_http_date_read(value.at, value.length, &reader->head.sent_s);
    return true;
}

static bool read_last_modified(kilni_http_reader *reader, span value)
{
    kilni_http_date_read(value.at, value.length, &reader->head.modified_s);
    return true;
}

static const struct field {
    const char *name;
    bool (*read)(kilni_http_reader *reader, span value);
} fields[] = {
    {"Content-Length", read_length},
    {"Transfer-Encoding", read_transfer_encoding},
    {"Connection", read_connection},
    {"Content-Type", read_content_type},
    {"Content-Encoding", read_content_encoding},
    {"Retry-After", read_retry_after},
    {"Content-Range", read_content_range},
    {"Date", read_date},
    {"Last-Modified", read_last_modified},
};

/* Reads a header field. A name that ends with a blank is refused, and so is a line that begins with
 * a blank, because parsers understand these in different ways. */
static bool read_field(kilni_http_reader *reader)
{
    const size_t kept =
        reader->line_length < sizeof reader->line ? reader->line_length : sizeof reader->line;
    span line = {reader->line, kept};
    const bool has_name = memchr(line.at, ':', line.length) != NULL;
    const span name = take_until(&line, ':');
    if (!has_name || name.length == 0 || is_blank(name.at[0]) ||
        is_blank(name.at[name.length - 1])) {
        return false;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (equals(name, fields[i].name)) {
            return kept == reader->line_length && fields[i].read(reader, trim(line));
        }
    }
    return true;
}

/* ---- the parts of an answer ---- */

static kilni_http_result break_off(kilni_http_reader *reader)
{
    reader->state = KILNI_HTTP_BROKEN_STATE;
    return KILNI_HTTP_BROKEN;
}

/* Reads "HTTP/1.x NNN" and an optional text after it. An answer with a status below 200 is an
 * interim answer, which precedes the final one. */
static bool read_status(kilni_http_reader *reader)
{
    const char *line = reader->line;
    uint64_t status;
    if (reader->line_length < 12 || memcmp(line, "HTTP/1.", 7) != 0 ||
        (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
        !read_number((span){line + 9, 3}, 10, &status) ||
        (reader->line_length > 12 && line[12] != ' ') || status < 100 || status > 599 ||
        status == 101) {
        return false;
    }
    reader->head = (kilni_http_head){.status = (unsigned)status, .is_last = line[7] == '0'};
    reader->has_encoding = false;
    reader->is_interim = status < 200;
    reader->state = KILNI_HTTP_FIELDS;
    return true;
}

/* Decides what follows the head. */
static kilni_http_result end_head(kilni_http_reader *reader)
{
    kilni_http_head *head = &reader->head;
    if (head->is_chunked && head->has_size) {
        return break_off(reader);
    }
    if (reader->is_interim) {
        reader->state = KILNI_HTTP_STATUS_LINE;
        return head->is_chunked || (head->has_size && head->size > 0) ? break_off(reader)
                                                                      : KILNI_HTTP_MORE;
    }
    if (reader->answers_head || head->status == 204 || head->status == 304) {
        /* Some servers send the last chunk even after an answer that has no body. */
        head->is_last |= head->is_chunked;
        reader->state = KILNI_HTTP_DONE;
    } else if (head->is_chunked) {
        reader->state = KILNI_HTTP_CHUNK_SIZE;
    } else if (head->has_size) {
        reader->left = head->size;
        reader->state = head->size > 0 ? KILNI_HTTP_BODY : KILNI_HTTP_DONE;
    } else {
        head->is_last = true; /* the body, if any, ends with the connection */
        reader->state = KILNI_HTTP_DONE;
    }
    return KILNI_HTTP_HEAD;
}

/* Reads "SIZE" and an optional extension after it. The total size of all lines of an answer must
 * not exceed the size of its chunks by more than KILNI_HTTP_MAX_HEAD bytes. */
static bool read_chunk_size(kilni_http_reader *reader)
{
    span line = {reader->line, reader->line_length};
    if (reader->line_length >= sizeof reader->line ||
        !read_number(trim(take_until(&line, ';')), 16, &reader->left)) {
        return false;
    }
    reader->state = reader->left > 0 ? KILNI_HTTP_CHUNK : KILNI_HTTP_TRAILER;
    reader->line_bytes -=
        reader->left < reader->line_bytes ? (size_t)reader->left : reader->line_bytes;
    return true;
}

/* Interprets a complete line. Returns KILNI_HTTP_MORE if the line causes no event. */
static kilni_http_result take_line(kilni_http_reader *reader)
{
    const bool is_empty = reader->line_length == 0;
    switch (reader->state) {
    case KILNI_HTTP_STATUS_LINE:
        return read_status(reader) ? KILNI_HTTP_MORE : break_off(reader);
    case KILNI_HTTP_FIELDS:
        if (is_empty) {
            return end_head(reader);
        }
        return read_field(reader) ? KILNI_HTTP_MORE : break_off(reader);
    case KILNI_HTTP_CHUNK_SIZE:
        return read_chunk_size(reader) ? KILNI_HTTP_MORE : break_off(reader);
    case KILNI_HTTP_CHUNK_END:
        reader->state = KILNI_HTTP_CHUNK_SIZE;
        return is_empty ? KILNI_HTTP_MORE : break_off(reader);
    default: /* the trailer, whose fields are ignored */
        reader->state = is_empty ? KILNI_HTTP_DONE : KILNI_HTTP_TRAILER;
        return KILNI_HTTP_MORE;
    }
}

static void end_part(kilni_http_reader *reader)
{
    if (reader->left == 0) {
        reader->state = reader->state == KILNI_HTTP_BODY ? KILNI_HTTP_DONE : KILNI_HTTP_CHUNK_END;
    }
}

static kilni_http_result read_piece(kilni_http_reader *reader, kilni_byte_reader *input,
                                    kilni_byte_reader *ret_piece)
{
    const size_t size = input->left < reader->left ? input->left : (size_t)reader->left;
    *ret_piece = (kilni_byte_reader){.at = kilni_read_bytes(input, size), .left = size};
    reader->left -= size;
    end_part(reader);
    return KILNI_HTTP_PIECE;
}

kilni_http_result kilni_http_next(kilni_http_reader *reader, kilni_byte_reader *input,
                                  kilni_byte_reader *ret_piece)
{
    kilni_http_result result = KILNI_HTTP_MORE;
    reader->has_begun |= input->left > 0;
    while (result == KILNI_HTTP_MORE) {
        if (reader->state == KILNI_HTTP_DONE) {
            return KILNI_HTTP_END;
        }
        if (reader->state == KILNI_HTTP_BROKEN_STATE) {
            return KILNI_HTTP_BROKEN;
        }
        if (input->left == 0) {
            return KILNI_HTTP_MORE;
        }
        if (kilni_http_body_left(reader) > 0) {
            return read_piece(reader, input, ret_piece);
        }
        const line_state state = read_line(reader, input);
        if (state != COMPLETE) {
            return state == INCOMPLETE ? KILNI_HTTP_MORE : break_off(reader);
        }
        result = take_line(reader);
        reader->line_length = 0;
    }
    return result;
}

uint64_t kilni_http_body_left(const kilni_http_reader *reader)
{
    return reader->state == KILNI_HTTP_BODY || reader->state == KILNI_HTTP_CHUNK ? reader->left : 0;
}

void kilni_http_skip(kilni_http_reader *reader, uint64_t count)
{
    reader->left -= count;
    end_part(reader);
}
