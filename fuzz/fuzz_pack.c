/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens any bytes as a pack, once as they are and once with the size and the checksums of header
 * and index corrected, because no fuzzer guesses those. A pack that opens is walked, read and
 * searched.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "key/hash.h"
#include "store/pack/format.h"
#include "store/pack/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* A look-up of an item's key must return the same entry as the item. */
static void look_up(kiln_store *store, const kiln_entry *entry)
{
    kiln_entry *found = NULL;
    require(kiln_store_contains(store, kiln_entry_key(entry)) == KILN_OK);
    require(kiln_store_get(store, kiln_entry_key(entry), &found) == KILN_OK);
    kiln_bytes a = kiln_entry_encoding(entry), b = kiln_entry_encoding(found);
    require(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
    kiln_entry_release(&found);
}

static int visit(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    kiln_entry *entry = NULL;
    if (kiln_item_get_info(item, &info) == KILN_OK) {
        volatile size_t seen = strlen(info.device) + strlen(info.name) + strlen(info.tool);
        (void)seen;
    }
    if (kiln_item_read(item, &entry) == KILN_OK) {
        look_up(user, entry);
    }
    kiln_entry_release(&entry);
    return 0;
}

static void open_pack(const uint8_t *bytes, size_t size)
{
    int file = memfd_create("pack", MFD_CLOEXEC);
    if (file < 0) {
        return;
    }
    const kilni_store_options options = {.flags = KILN_STORE_READONLY,
                                         .max_entry_bytes = (uint64_t)1 << 30};
    kiln_store *store = NULL;
    if (write(file, bytes, size) != (ssize_t)size) {
        close(file);
        return;
    }
    if (kilni_pack_open_file("fuzzed", file, &options, &store, NULL) == KILN_OK) {
        kiln_store_stat stat = {.struct_size = sizeof stat};
        kiln_verify_report report = {.struct_size = sizeof report};
        require(kiln_store_get_stat(store, 0, &stat) == KILN_OK);
        kiln_store_each(store, visit, store);
        kiln_store_verify(store, NULL, NULL, &report);
        kiln_store_close(&store);
    }
}

static void put_number(uint8_t *at, uint64_t number)
{
    for (size_t i = 0; i < 8; i++) {
        at[i] = (uint8_t)(number >> (8 * i));
    }
}

static void seal(uint8_t *page)
{
    kiln_digest checksum = kilni_hash(page, KILNI_PACK_CHECKED_SIZE);
    memcpy(page + KILNI_PACK_CHECKED_SIZE, checksum.bytes, sizeof checksum.bytes);
}

/* Corrects the checksums of the header and of as many pages of the index as the header states and
 * the file has. */
static void seal_index(uint8_t *bytes, size_t size)
{
    size_t pages = size / KILNI_PACK_PAGE_SIZE;
    uint64_t buckets = bytes[32]; /* the lowest byte of the number of buckets */
    put_number(bytes + 16, size);
    for (size_t page = 0; page < pages && page <= buckets; page++) {
        seal(bytes + page * KILNI_PACK_PAGE_SIZE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = calloc(1, size > 0 ? size : 1);
    if (!bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    open_pack(bytes, size);
    if (size >= 2 * KILNI_PACK_PAGE_SIZE) {
        seal_index(bytes, size);
        open_pack(bytes, size);
    }
    free(bytes);
    return 0;
}
