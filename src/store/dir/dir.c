/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/layout.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/os.h"
#include "store/counter_file.h"
#include "store/journal_file.h"
#include "store/last_miss.h"

static void free_dir(kilni_dir *dir)
{
    kilni_dir_close_root(dir);
    free(dir->path);
    free(dir);
}

static void dir_close(kiln_store *store)
{
    kilni_dir *dir = (kilni_dir *)store;
    if (!kilni_dir_is_readonly(dir)) {
        kilni_dir_flush_pending(store);
    }
    /* The application might have closed the descriptor and opened a different file under its
     * number. */
    if (kilni_dir_is_there(dir)) {
        kilni_dir_trim_before_close(dir);
    }
    free_dir(dir);
}

static kiln_status dir_note_miss(kiln_store *store, const kiln_entry *miss)
{
    return kilni_last_miss_write(kilni_dir_root(kilni_dir_of(store)), KILNI_DIR_MISSED, miss);
}

static kiln_status dir_last_miss(kiln_store *store, kiln_entry **ret_miss)
{
    return kilni_last_miss_read(kilni_dir_root(kilni_dir_of(store)), KILNI_DIR_MISSED,
                                store->signing_key, ret_miss);
}

static kiln_status dir_journal_append(kiln_store *store, const void *records, size_t size)
{
    return kilni_journal_append(kilni_dir_root(kilni_dir_of(store)), KILNI_DIR_JOURNAL,
                                KILNI_DIR_OLD_JOURNAL, records, size);
}

static kiln_status dir_journal_read(kiln_store *store, kiln_journal_fn visit, void *user,
                                    kiln_journal_report *ret_report)
{
    return kilni_journal_read(kilni_dir_root(kilni_dir_of(store)), KILNI_DIR_JOURNAL,
                              KILNI_DIR_OLD_JOURNAL, visit, user, ret_report);
}

/* ---- the known drivers: a file of checksums, the oldest of which makes room ---- */

typedef struct driver_search {
    uint64_t driver;
    bool is_known, has_others;
} driver_search;

static void find_driver(driver_search *search, const kilni_counters *counters)
{
    for (uint32_t i = 0; i < counters->count; i++) {
        search->is_known |= counters->values[i] == search->driver;
    }
    search->has_others = counters->count > 0;
}

static void add_driver(void *user, kilni_counters *counters)
{
    driver_search *search = user;
    find_driver(search, counters);
    if (search->is_known) {
        return;
    }
    if (counters->count == KILNI_COUNTERS_MAX) {
        counters->count--;
        memmove(counters->values, counters->values + 1, counters->count * sizeof *counters->values);
    }
    counters->values[counters->count++] = search->driver;
}

static bool dir_is_new_driver(kiln_store *store, uint64_t driver)
{
    const int root = kilni_dir_root(kilni_dir_of(store));
    driver_search search = {.driver = driver};
    kilni_counters counters;
    if (kilni_counter_file_read(root, KILNI_DIR_DRIVERS, &counters) == KILN_OK) {
        find_driver(&search, &counters);
    }
    /* If the file can't be written, every process would find the driver to be new. */
    return !search.is_known &&
           kilni_counter_file_change(root, KILNI_DIR_DRIVERS, add_driver, &search) == KILN_OK &&
           !search.is_known && search.has_others;
}

static const kilni_dir_layout *layout_for(const kiln_store *store, const kiln_key *key)
{
    const kilni_dir *dir = (const kilni_dir *)store;
    return dir->layout != dir->request_layout && kilni_store_is_request(key) ? dir->request_layout
                                                                             : dir->layout;
}

static kiln_status dir_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                           size_t *ret_fill)
{
    bool is_first_use = false;
    const kiln_status status = layout_for(store, key)->get(store, key, ret_entry, &is_first_use);
    *ret_fill = is_first_use;
    return status;
}

static kiln_status dir_put(kiln_store *store, const kiln_entry *entry)
{
    return layout_for(store, kiln_entry_key(entry))->put(store, entry);
}

static kiln_status dir_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged)
{
    return layout_for(store, key)->remove(store, key, judged);
}

static kiln_status dir_read_digest(kiln_store *store, const kiln_digest *digest,
                                   kiln_entry **ret_entry)
{
    const kilni_dir_layout *layout = ((kilni_dir *)store)->layout;
    return layout->read_digest ? layout->read_digest(store, digest, ret_entry) : KILN_E_UNSUPPORTED;
}

static kiln_status dir_contains(kiln_store *store, const kiln_key *key)
{
    return layout_for(store, key)->contains(store, key);
}

static kiln_status dir_stat(kiln_store *store, uint32_t flags, kiln_store_stat *ret_stat)
{
    return flags & KILN_STAT_KNOWN ? kilni_dir_known_stat(store, ret_stat)
                                   : kilni_dir_stat(store, ret_stat);
}

static const char *dir_folder(const kiln_store *store)
{
    return ((const kilni_dir *)store)->path;
}

static const kilni_store_ops dir_ops = {
    .close = dir_close,
    .get = dir_get,
    .read_digest = dir_read_digest,
    .put = dir_put,
    .remove = dir_remove,
    .contains = dir_contains,
    .lease = kilni_dir_lease,
    .lease_release = kilni_dir_lease_release,
    .each = kilni_dir_each,
    .each_of_digest = kilni_dir_each_of_digest,
    .each_request = kilni_dir_each_request,
    .item_info = kilni_dir_item_info,
    .item_read = kilni_dir_item_read,
    .item_remove = kilni_dir_item_remove,
    .stat = dir_stat,
    .add_stats = kilni_dir_add_stats,
    .trim = kilni_dir_trim,
    .is_new_driver = dir_is_new_driver,
    .note_miss = dir_note_miss,
    .last_miss = dir_last_miss,
    .journal_append = dir_journal_append,
    .journal_read = dir_journal_read,
    .folder = dir_folder,
};

static const kilni_dir_layout *const layouts[] = {
    [KILNI_STORE_LAYOUT_KILN] = &kilni_layout_kiln,
    [KILNI_STORE_LAYOUT_SYCL] = &kilni_layout_sycl,
    [KILNI_STORE_LAYOUT_ONEDNN] = &kilni_layout_onednn,
};

static uint32_t capabilities_of(uint32_t flags)
{
    uint32_t capabilities = KILNI_STORE_TOTALS;
    if (!(flags & KILN_STORE_READONLY)) {
        capabilities |= KILNI_STORE_WRITABLE;
    }
    if (!(flags & (KILN_STORE_READONLY | KILN_STORE_NO_LEASE))) {
        capabilities |= KILNI_STORE_LEASES;
    }
    return capabilities;
}

static kiln_status open_dir(const char *path, const kilni_store_options *options,
                            kiln_store **ret_store, kiln_error *error)
{
    kilni_dir *dir = calloc(1, sizeof *dir);
    char *copy = strdup(path);
    if (!dir || !copy) {
        free(dir);
        free(copy);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    dir->store.ops = &dir_ops;
    dir->store.options = *options;
    dir->store.capabilities = capabilities_of(options->flags);
    dir->layout = layouts[options->layout];
    dir->request_layout = &kilni_layout_kiln;
    dir->hash_bits = 8 * sizeof(kiln_digest);
    dir->path = copy;
    dir->user = kilni_os()->geteuid();
    kiln_status status = kilni_dir_start(dir, error);
    if (status != KILN_OK) {
        free_dir(dir);
        return status;
    }
    *ret_store = &dir->store;
    return KILN_OK;
}

/* Accepts "file:///path", "file:/path" and "file://./path". */
static kiln_status check_url(const char *text, const char *path, kiln_error *error)
{
    if (path[0] == '/' || (path[0] == '.' && path != text)) {
        return KILN_OK;
    }
    return kilni_error_set(error, KILN_E_PARSE, 0,
                           "file:%s: expected a path that begins with '/' or '.', as in "
                           "file:///path or file://./path",
                           text);
}

static const char *const url_options[] = {"max-size", "max-entry", "readonly", "sync",   "lease",
                                          "stamp",    "policy",    "max-age",  "layout", "backend",
                                          "write",    "key-file",  "owner",    NULL};

const kilni_store_engine kilni_dir_engine = {
    .noun = "a directory",
    .scheme = "file:",
    .options = url_options,
    .check_url = check_url,
    .open = open_dir,
    .capabilities = capabilities_of,
};
