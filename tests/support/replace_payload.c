/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts a different payload under the key of an entry, as a writer of a store can:
 *
 *   replace_payload DIR DIGEST FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/store.h>
#include <kiln/store_tools.h>

static int copy_entry(void *user, kiln_item *item)
{
    void **wanted = user;
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_item_info info = {.struct_size = sizeof info};
    if (kiln_item_get_info(item, &info) != KILN_OK) {
        return 0;
    }
    kiln_digest_format(&info.digest, digest);
    return strcmp(digest, wanted[0]) == 0 &&
           kiln_item_read(item, (kiln_entry **)(void *)&wanted[1]) == KILN_OK;
}

int main(int argc, char **argv)
{
    static char bytes[16 << 20];
    void *wanted[2] = {argv[2], NULL};
    kiln_store *store = NULL;
    kiln_entry *changed = NULL;
    FILE *file = argc == 4 ? fopen(argv[3], "rb") : NULL;
    if (!file || kiln_store_open(argv[1], NULL, &store, NULL) != KILN_OK ||
        kiln_store_each(store, copy_entry, wanted) != KILN_OK || !wanted[1]) {
        return 1;
    }
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = kiln_entry_key(wanted[1]),
                                      .kind = kiln_entry_kind_of(wanted[1]),
                                      .provenance = kiln_entry_provenance(wanted[1]),
                                      .payload = {bytes, size}};
    if (kiln_entry_new(&params, &changed) != KILN_OK || kiln_store_put(store, changed) != KILN_OK) {
        return 1;
    }
    kiln_entry_release(&changed);
    kiln_entry_release((kiln_entry **)(void *)&wanted[1]);
    kiln_store_close(&store);
    fclose(file);
    return 0;
}
