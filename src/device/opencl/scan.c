/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
    /* A zero byte is a blank to the compilers that go on behind it. */
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
           (unsigned char)c >= 0x80;
}

static bool is_name(char c)
{
    return is_name_start(c) || is_digit(c);
}

/* The length of a newline, 0 where none stands at @at. */
static size_t newline_at(const char *at, const char *end)
{
    if (at < end && *at == '\n') {
        return 1;
    }
    return end - at >= 2 && at[0] == '\r' && at[1] == '\n' ? 2 : 0;
}

/* The length of a splice whose backslash stands at @at, 0 where it is none. */
static size_t splice_at(const char *at, const char *end, bool *ret_doubtful)
{
    const char *behind = at + 1;
    while (behind < end && is_blank(*behind) && *behind != '\0') {
        behind++;
    }
    size_t newline = newline_at(behind, end);
    *ret_doubtful = behind != at + 1;
    return newline > 0 ? (size_t)(behind - at) + newline : 0;
}

static const char *refuse_raw(const char *bytes, size_t size)
{
    const char *end = bytes + size;
    for (const char *at = bytes; (at = memchr(at, '\r', (size_t)(end - at))) != NULL; at++) {
        if (newline_at(at, end) == 0) {
            return "a carriage return without a newline";
        }
    }
    bool trigraph = memmem(bytes, size, "?\?=", 3) || memmem(bytes, size, "?\?/", 3);
    return trigraph ? "a trigraph" : NULL;
}

static kiln_status note_doubtful(kilni_clean_text *text)
{
    /* Grows at powers of two. */
    size_t count = text->doubtful_count;
    if ((count & (count - 1)) == 0) {
        size_t *grown = realloc(text->doubtful_splices,
                                (count ? 2 * count : 1) * sizeof *text->doubtful_splices);
        if (!grown) {
            return KILN_E_NO_MEMORY;
        }
        text->doubtful_splices = grown;
    }
    text->doubtful_splices[text->doubtful_count++] = text->length;
    return KILN_OK;
}

static void copy_up_to(const char **io_at, const char *to, kilni_clean_text *text)
{
    size_t count = (size_t)(to - *io_at);
    memcpy(text->bytes + text->length, *io_at, count);
    text->length += count;
    *io_at = to;
}

static kiln_status remove_splices(const char *at, const char *end, kilni_clean_text *text)
{
    const char *backslash = at;
    while ((backslash = memchr(backslash, '\\', (size_t)(end - backslash))) != NULL) {
        bool doubtful = false;
        size_t splice = splice_at(backslash, end, &doubtful);
        copy_up_to(&at, splice > 0 ? backslash : backslash + 1, text);
        at += splice;
        backslash = at;
        if (splice > 0 && doubtful && note_doubtful(text) != KILN_OK) {
            return KILN_E_NO_MEMORY;
        }
    }
    copy_up_to(&at, end, text);
    return KILN_OK;
}

kiln_status kilni_clean_text_make(const void *bytes, size_t size, kilni_clean_text *ret_text,
                                  const char **ret_refusal)
{
    const char *start = size > 0 ? bytes : "";
    if (size >= 3 && memcmp(start, "\xEF\xBB\xBF", 3) == 0) {
        start += 3;
        size -= 3;
    }
    const char *refusal = refuse_raw(start, size);
    if (refusal) {
        *ret_refusal = refusal;
        return KILN_E_UNSUPPORTED;
    }
    kilni_clean_text text = {.bytes = malloc(size + 1)};
    if (!text.bytes) {
        return KILN_E_NO_MEMORY;
    }
    if (remove_splices(start, start + size, &text) != KILN_OK) {
        kilni_clean_text_done(&text);
        return KILN_E_NO_MEMORY;
    }
    text.bytes[text.length] = '\0';
    *ret_text = text;
    return KILN_OK;
}

void kilni_clean_text_done(kilni_clean_text *text)
{
    free(text->bytes);
    free(text->doubtful_splices);
    *text = (kilni_clean_text){0};
}

void kilni_scanner_start(kilni_scanner *scanner, const kilni_clean_text *text)
{
    kilni_scanner_start_piece(scanner, text->bytes, text->length);
    scanner->text = text;
}

void kilni_scanner_start_piece(kilni_scanner *scanner, const char *text, size_t length)
{
    *scanner = (kilni_scanner){.at = text, .end = text + length};
}

static void refuse(kilni_scanner *scanner, const char *why)
{
    if (!scanner->refusal) {
        scanner->refusal = why;
    }
    scanner->at = scanner->end;
}

static bool has_doubtful_splice(const kilni_scanner *scanner, const char *from, const char *to)
{
    const kilni_clean_text *text = scanner->text;
    for (size_t i = 0; text && i < text->doubtful_count; i++) {
        const char *splice = text->bytes + text->doubtful_splices[i];
        if (splice >= from && splice <= to) {
            return true;
        }
    }
    return false;
}

static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    if (!newline) {
        return end;
    }
    return newline > at && newline[-1] == '\r' ? newline - 1 : newline;
}

static void skip_line_comment(kilni_scanner *scanner)
{
    const char *start = scanner->at;
    scanner->at = line_end(start, scanner->end);
    if (has_doubtful_splice(scanner, start, scanner->at)) {
        refuse(scanner, "a comment that goes on behind backslash and blank");
    }
}

static void skip_block_comment(kilni_scanner *scanner)
{
    const char *start = scanner->at;
    const char *close = memmem(start + 2, (size_t)(scanner->end - start - 2), "*/", 2);
    scanner->at = close ? close + 2 : scanner->end;
    if (scanner->in_prose && memchr(start, '\n', (size_t)(scanner->at - start))) {
        refuse(scanner, "a comment that begins in #error, #warning or #pragma and goes on");
    }
}

void kilni_scan_blanks(kilni_scanner *scanner)
{
    while (scanner->at < scanner->end) {
        size_t left = (size_t)(scanner->end - scanner->at);
        if (is_blank(*scanner->at)) {
            scanner->at++;
        } else if (left >= 2 && scanner->at[0] == '/' && scanner->at[1] == '/') {
            skip_line_comment(scanner);
        } else if (left >= 2 && scanner->at[0] == '/' && scanner->at[1] == '*') {
            skip_block_comment(scanner);
        } else {
            return;
        }
    }
}

/* A string or character constant; without a closing quote it ends with the line. */
static void scan_quoted(kilni_scanner *scanner, kilni_token *token)
{
    char quote = *scanner->at;
    const char *end = line_end(scanner->at, scanner->end);
    const char *at = scanner->at + 1;
    while (at < end && *at != quote) {
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    }
    if (at < end) {
        token->kind = quote == '"' ? KILNI_TOKEN_STRING : KILNI_TOKEN_CHARACTER;
        at++;
    } else {
        token->kind = KILNI_TOKEN_OTHER;
        if (memmem(scanner->at, (size_t)(end - scanner->at), "/*", 2)) {
            refuse(scanner, "an open quote before a comment");
            return;
        }
    }
    scanner->at = at;
}

static bool is_raw_string_prefix(const char *name, size_t length)
{
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strlen(prefixes[i]) == length && memcmp(prefixes[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void scan_name(kilni_scanner *scanner, kilni_token *token)
{
    token->kind = KILNI_TOKEN_IDENTIFIER;
    while (scanner->at < scanner->end && is_name(*scanner->at)) {
        scanner->at++;
    }
    size_t length = (size_t)(scanner->at - token->text);
    if (scanner->at < scanner->end && *scanner->at == '"' &&
        is_raw_string_prefix(token->text, length)) {
        refuse(scanner, "a raw string");
    }
}

static void scan_number(kilni_scanner *scanner, kilni_token *token)
{
    token->kind = KILNI_TOKEN_NUMBER;
    const char *at = scanner->at + 1;
    while (at < scanner->end) {
        bool sign = (*at == '+' || *at == '-') && strchr("eEpP", at[-1]);
        if (!is_name(*at) && *at != '.' && !sign) {
            break;
        }
        at++;
    }
    scanner->at = at;
    if (at < scanner->end && *at == '\'') {
        refuse(scanner, "a quote within a number");
    }
}

static void scan_other(kilni_scanner *scanner, kilni_token *token)
{
    static const char *const longer[] = {"%:%:", "##", "%:"};
    token->kind = KILNI_TOKEN_OTHER;
    size_t left = (size_t)(scanner->end - scanner->at);
    bool may_be_longer = *scanner->at == '#' || *scanner->at == '%';
    for (size_t i = 0; may_be_longer && i < sizeof longer / sizeof *longer; i++) {
        size_t length = strlen(longer[i]);
        if (length <= left && memcmp(scanner->at, longer[i], length) == 0) {
            scanner->at += length;
            return;
        }
    }
    scanner->at++;
}

kilni_token kilni_scan_next(kilni_scanner *scanner)
{
    const char *before = scanner->at;
    kilni_scan_blanks(scanner);
    kilni_token token = {
        .kind = KILNI_TOKEN_END, .after_space = scanner->at != before, .text = scanner->at};
    size_t left = (size_t)(scanner->end - scanner->at);
    if (left == 0) {
        return token;
    }
    size_t newline = newline_at(scanner->at, scanner->end);
    char c = *scanner->at;
    if (newline > 0) {
        token.kind = KILNI_TOKEN_NEWLINE;
        scanner->at += newline;
        scanner->in_prose = false;
    } else if (c == '"' || c == '\'') {
        scan_quoted(scanner, &token);
    } else if (is_name_start(c)) {
        scan_name(scanner, &token);
    } else if (is_digit(c) || (c == '.' && left >= 2 && is_digit(scanner->at[1]))) {
        scan_number(scanner, &token);
    } else {
        scan_other(scanner, &token);
    }
    token.length = (size_t)(scanner->at - token.text);
    if (scanner->refusal) {
        token.kind = KILNI_TOKEN_END;
    }
    return token;
}

bool kilni_scan_header_name(kilni_scanner *scanner, kilni_token *ret_name)
{
    if (scanner->at == scanner->end || (*scanner->at != '"' && *scanner->at != '<')) {
        return false;
    }
    const char *start = scanner->at;
    const char *end = line_end(start, scanner->end);
    char close = *start == '<' ? '>' : '"';
    const char *last = memchr(start + 1, close, (size_t)(end - start - 1));
    if (!last) {
        return false;
    }
    size_t length = (size_t)(last - start) + 1;
    if (memchr(start, '\\', length)) {
        refuse(scanner, "a backslash in the name of an include");
    } else if (*start == '<' && memmem(start, length, "/*", 2)) {
        refuse(scanner, "a comment in the name of an include");
    } else if (memchr(start, '\0', length)) {
        refuse(scanner, "a zero byte in the name of an include");
    } else {
        scanner->at = last + 1;
    }
    *ret_name = (kilni_token){.kind = KILNI_TOKEN_STRING, .text = start, .length = length};
    return true;
}

bool kilni_token_is(const kilni_token *token, const char *text)
{
    return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

bool kilni_token_is_hash(const kilni_token *token)
{
    return token->kind == KILNI_TOKEN_OTHER &&
           (kilni_token_is(token, "#") || kilni_token_is(token, "%:"));
}

bool kilni_token_is_paste(const kilni_token *token)
{
    return token->kind == KILNI_TOKEN_OTHER &&
           (kilni_token_is(token, "##") || kilni_token_is(token, "%:%:"));
}
