/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/name_page.h"

#include <string.h>

#include "base/size.h"

/* Reads the digest in a name. Returns false if it is not the name of an entry. */
static bool digest_of(const kilni_remote_naming *naming, const kilni_remote_listed *listed,
                      kiln_digest *ret_digest)
{
    const char *name = listed->name;
    const size_t before = strlen(naming->before);
    const size_t behind = strlen(naming->behind);
    char text[KILN_DIGEST_TEXT_SIZE];
    const size_t length = sizeof text - 1;
    if (listed->name_size != before + length + behind ||
        memcmp(name, naming->before, before) != 0 ||
        memcmp(name + before + length, naming->behind, behind) != 0) {
        return false;
    }
    memcpy(text, name + before, length);
    text[length] = '\0';
    return kiln_digest_parse(text, ret_digest) == KILN_OK;
}

void kilni_name_page_add(void *user, const kilni_remote_listed *listed)
{
    kilni_name_page *page = user;
    kilni_listed_entry entry = {.size = listed->size, .put_s = listed->put_s};
    if (!digest_of(page->naming, listed, &entry.digest)) {
        return;
    }
    kilni_listed_entry *entries =
        kilni_array_grown(page->entries, page->count, &page->capacity, sizeof *entries);
    if (!entries) {
        page->has_failed = true;
        return;
    }
    page->entries = entries;
    page->entries[page->count++] = entry;
}
