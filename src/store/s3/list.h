/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the pages in which S3 lists the keys of a bucket ("ListBucketResult"). Does no I/O, so
 * that all of this code can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kilni_s3_page {
    bool has_more; /* the list continues after last_key, or after a later key that was left out */
    const char *last_key; /* the last key that was visited; points into the page; has no NUL */
    size_t last_key_size;
} kilni_s3_page;

/* A key of a page. */
typedef struct kilni_s3_key {
    const char *text; /* points into the page; has no terminating NUL */
    size_t text_size;
    uint64_t size, put_s; /* as in kilni_remote_listed */
} kilni_s3_key;

/* Visits the keys of a page. Skips keys with characters that XML escapes, because they do not
 * belong to Kiln.
 *
 * @visit     called with @user and each key
 * @ret_page  [out]
 * Returns false if the text is not a complete page. In that case, some keys may already have been
 * visited. */
bool kilni_s3_page_read(const char *text, size_t size,
                        void (*visit)(void *user, const kilni_s3_key *key), void *user,
                        kilni_s3_page *ret_page);
