/* SPDX-License-Identifier: Apache-2.0 */
#include "face/onednn/constant_environment.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <kiln/cache.h>

#include "base/size.h"
#include "base/text.h"

/* The maximum number of bytes of a piece that a warning shows. */
enum { SHOWN_BYTES = 60 };

/* Larger than the name of any policy. */
enum { POLICY_NAME_SIZE = 16 };

enum { MOST_FIELDS = 3 };

/* Consecutive characters in the variable's value. */
typedef struct span {
    const char *at;
    size_t length;
} span;

static bool span_is(span text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.at, word, text.length) == 0;
}

static bool read_kind(span text, size_t *ret_kind)
{
    static const char *const names[KILNI_CONSTANT_KINDS] = {"cpu", "gpu"};
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        if (span_is(text, names[i])) {
            *ret_kind = i;
            return true;
        }
    }
    return false;
}

static bool read_number(span text, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.length; i++) {
        char digit = text.at[i];
        if (digit < '0' || digit > '9' || !kilni_u64_multiply(number, 10, &number) ||
            !kilni_u64_add(number, (uint64_t)(digit - '0'), &number)) {
            return false;
        }
    }
    *ret_number = number;
    return text.length > 0;
}

static bool read_policy(span text, uint32_t *ret_policy)
{
    char name[POLICY_NAME_SIZE];
    if (text.length >= sizeof name) {
        return false;
    }
    memcpy(name, text.at, text.length);
    name[text.length] = '\0';
    return kiln_policy_parse(name, ret_policy) == KILN_OK;
}

/* Splits at ':'. Returns the number of fields; the first three are stored. */
static size_t split(span piece, span fields[MOST_FIELDS])
{
    size_t count = 0;
    for (;;) {
        const char *colon = memchr(piece.at, ':', piece.length);
        size_t length = colon ? (size_t)(colon - piece.at) : piece.length;
        if (count < MOST_FIELDS) {
            fields[count] = (span){piece.at, length};
        }
        count++;
        if (!colon) {
            return count;
        }
        piece = (span){colon + 1, piece.length - length - 1};
    }
}

/* Applies a piece. If the piece is malformed, returns a text that says what was expected; otherwise
 * NULL. */
static const char *read_piece(span piece, kilni_constant_limits *kinds)
{
    span fields[MOST_FIELDS];
    size_t count = split(piece, fields);
    if (count < 2 || count > MOST_FIELDS) {
        return "kind:MiB or kind:MiB:policy";
    }
    size_t kind;
    if (!read_kind(fields[0], &kind)) {
        return "the kind cpu or gpu";
    }
    kilni_constant_limits limits = kinds[kind];
    if (!read_number(fields[1], &limits.capacity_mib)) {
        return "a capacity in MiB, digits only, below 2^64";
    }
    if (count == MOST_FIELDS && !read_policy(fields[2], &limits.policy)) {
        return "the policy no_evict, cost, lru, fifo or auto";
    }
    kinds[kind] = limits;
    return NULL;
}

static void warn(kilni_constant_warnings *warnings, size_t number, span piece, const char *expected)
{
    size_t count = warnings->count++;
    if (count >= KILNI_CONSTANT_WARNINGS) {
        snprintf(warnings->lines[KILNI_CONSTANT_WARNINGS], KILNI_CONSTANT_WARNING_SIZE,
                 "%s: %zu more pieces are ignored", KILNI_CONSTANT_VARIABLE,
                 warnings->count - KILNI_CONSTANT_WARNINGS);
        return;
    }
    char shown[SHOWN_BYTES + 1];
    size_t length = kilni_text_cut(piece.at, piece.length, SHOWN_BYTES);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)piece.at[i];
        shown[i] = byte < 0x20 || byte == 0x7f ? '?' : piece.at[i];
    }
    shown[length] = '\0';
    snprintf(warnings->lines[count], KILNI_CONSTANT_WARNING_SIZE,
             "%s, piece %zu, \"%s%s\": expected %s; it is ignored", KILNI_CONSTANT_VARIABLE, number,
             shown, length < piece.length ? "..." : "", expected);
}

void kilni_constant_environment_read(const char *value, kilni_constant_limits *kinds,
                                     kilni_constant_warnings *warnings)
{
    for (size_t number = 1; value; number++) {
        span piece = {value, strcspn(value, ";")};
        /* An empty piece, between two ';' or after the last one, is ignored. */
        const char *expected = piece.length > 0 ? read_piece(piece, kinds) : NULL;
        if (expected) {
            warn(warnings, number, piece, expected);
        }
        value = value[piece.length] ? value + piece.length + 1 : NULL;
    }
}
