/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/list.h"

#include <string.h>

#include "store/http/date.h"

typedef struct span {
    const char *at;
    size_t size;
} span;

/* Removes from @text everything up to the end of the first occurrence of a tag. Returns false and
 * changes nothing if the tag does not occur. */
static bool skip_to(span *text, const char *tag)
{
    const size_t length = strlen(tag);
    const char *found = text->size > 0 ? memmem(text->at, text->size, tag, length) : NULL;
    if (!found) {
        return false;
    }
    text->size -= (size_t)(found - text->at) + length;
    text->at = found + length;
    return true;
}

/* Reads the text before a tag, and removes the text and the tag from @text. */
static bool take_text(span *text, const char *end, span *ret_taken)
{
    const char *begin = text->at;
    if (!skip_to(text, end)) {
        return false;
    }
    *ret_taken = (span){begin, (size_t)(text->at - begin) - strlen(end)};
    return true;
}

/* Reads the element IsTruncated, which each page contains once. */
static bool read_truth(span page, bool *ret_is_true)
{
    span value;
    if (!skip_to(&page, "<IsTruncated>") || !take_text(&page, "</IsTruncated>", &value)) {
        return false;
    }
    *ret_is_true = value.size == 4 && memcmp(value.at, "true", 4) == 0;
    return *ret_is_true || (value.size == 5 && memcmp(value.at, "false", 5) == 0);
}

/* Returns the text of an element; an empty span if there is none. */
static span text_of(span contents, const char *begin, const char *end)
{
    span text = {contents.at, 0};
    return skip_to(&contents, begin) && take_text(&contents, end, &text) ? text
                                                                         : (span){contents.at, 0};
}

static bool read_number(span digits, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9' || number > UINT64_MAX / 10 - 1) {
            return false;
        }
        number = 10 * number + (uint64_t)(digits.at[i] - '0');
    }
    *ret_number = number;
    return digits.size > 0;
}

/* Reads the size of a value, and when it was put. Leaves both 0 if one of them is missing. */
static void read_facts(span contents, kilni_s3_key *key)
{
    const span size = text_of(contents, "<Size>", "</Size>");
    const span date = text_of(contents, "<LastModified>", "</LastModified>");
    uint64_t put_s;
    if (kilni_http_date_read_iso(date.at, date.size, &put_s) && put_s > 0 &&
        read_number(size, &key->size)) {
        key->put_s = put_s;
    }
}

bool kilni_s3_page_read(const char *text, size_t size,
                        void (*visit)(void *user, const kilni_s3_key *key), void *user,
                        kilni_s3_page *ret_page)
{
    span rest = {text, size};
    kilni_s3_page page = {.has_more = false};
    if (!skip_to(&rest, "<ListBucketResult") || !read_truth(rest, &page.has_more) ||
        !memmem(rest.at, rest.size, "</ListBucketResult>", strlen("</ListBucketResult>"))) {
        return false;
    }
    while (skip_to(&rest, "<Contents>")) {
        span contents, name;
        if (!take_text(&rest, "</Contents>", &contents)) {
            return false;
        }
        span from_key = contents;
        if (!skip_to(&from_key, "<Key>") || !take_text(&from_key, "</Key>", &name)) {
            return false;
        }
        if (!memchr(name.at, '&', name.size) && !memchr(name.at, '<', name.size)) {
            kilni_s3_key key = {.text = name.at, .text_size = name.size};
            read_facts(contents, &key);
            page.last_key = name.at;
            page.last_key_size = name.size;
            visit(user, &key);
        }
    }
    *ret_page = page;
    return true;
}
