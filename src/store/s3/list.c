/* SPDX-License-Identifier: Apache-2.0 */
#include "store/s3/list.h"

#include <string.h>

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

bool kilni_s3_page_read(const char *text, size_t size,
                        void (*visit)(void *user, const char *key, size_t size), void *user,
                        kilni_s3_page *ret_page)
{
    span rest = {text, size};
    kilni_s3_page page = {.has_more = false};
    if (!skip_to(&rest, "<ListBucketResult") || !read_truth(rest, &page.has_more) ||
        !memmem(rest.at, rest.size, "</ListBucketResult>", strlen("</ListBucketResult>"))) {
        return false;
    }
    while (skip_to(&rest, "<Contents>")) {
        span key;
        if (!skip_to(&rest, "<Key>") || !take_text(&rest, "</Key>", &key)) {
            return false;
        }
        if (!memchr(key.at, '&', key.size) && !memchr(key.at, '<', key.size)) {
            page.last_key = key.at;
            page.last_key_size = key.size;
            visit(user, key.at, key.size);
        }
    }
    *ret_page = page;
    return true;
}
