/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a page of an S3 listing. Keys lie in the page, one after the other, and have
 * no characters that XML escapes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/s3/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct visited {
    const char *at; /* the earliest place of the next key */
    const char *end;
} visited;

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_key(void *user, const kilni_s3_key *key)
{
    visited *keys = user;
    const char *text = key->text;
    const size_t size = key->text_size;
    require(text >= keys->at && size <= (size_t)(keys->end - text));
    require(!memchr(text, '&', size) && !memchr(text, '<', size));
    require(key->put_s > 0 || key->size == 0);
    keys->at = text + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    visited keys = {.at = text, .end = text + size};
    kilni_s3_page page;
    if (kilni_s3_page_read(text, size, check_key, &keys, &page) && page.last_key_size > 0) {
        require(page.last_key >= text && page.last_key_size <= (size_t)(keys.end - page.last_key));
    }
    return 0;
}
