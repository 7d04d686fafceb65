/* SPDX-License-Identifier: Apache-2.0 */
#include "subject.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/journal.h>
#include <kiln/signature.h>
#include <kiln/store.h>

#include "store/writer.h"

#define DRAIN_NS 60000000000u

static const bench_data *here;
static kiln_store *store, *signed_store, *journal_store, *group_store;
static kilni_writer *writer, *journal_writer;

static void make_key_file(const bench_data *data, char path[BENCH_PATH_SIZE])
{
    static const unsigned char key[32] = "a key of benches";
    snprintf(path, BENCH_PATH_SIZE, "%s/key", data->folder);
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bench_expect(file >= 0 && write(file, key, sizeof key) == (ssize_t)sizeof key, path);
    close(file);
}

/* @key_file  NULL: entries are not signed */
static kiln_store *open_store(const bench_data *data, const char *name, uint32_t flags,
                              const char *key_file)
{
    const kiln_store_params params = {.struct_size = sizeof params,
                                      .max_bytes = KILN_UNLIMITED,
                                      .flags = flags,
                                      .key_file = key_file};
    char path[BENCH_PATH_SIZE];
    kiln_store *opened = NULL;
    bench_make_folder(data, name, path);
    bench_expect(kiln_store_open(path, &params, &opened, NULL) == KILN_OK, path);
    return opened;
}

/* Opens a store in a directory into which a group may write. */
static kiln_store *open_group(const bench_data *data)
{
    char path[BENCH_PATH_SIZE], key[BENCH_PATH_SIZE], location[3 * BENCH_PATH_SIZE];
    kiln_public_key made;
    kiln_store *opened = NULL;
    bench_make_folder(data, "group", path);
    snprintf(key, sizeof key, "%s/secret-key", data->folder);
    bench_expect(chmod(path, 02770) == 0 &&
                     kiln_secret_key_make(key, "benches", &made, NULL) == KILN_OK,
                 path);
    snprintf(location, sizeof location, "group:%s?secret-key-file=%s", path, key);
    bench_expect(kiln_store_open(location, NULL, &opened, NULL) == KILN_OK, location);
    return opened;
}

static void open_kiln(const bench_data *data)
{
    here = data;
    char key_file[BENCH_PATH_SIZE];
    make_key_file(data, key_file);
    store = open_store(data, BENCH_STORE, 0, NULL);
    signed_store = open_store(data, "signed", 0, key_file);
    journal_store = open_store(data, "journal", KILN_STORE_JOURNAL, NULL);
    group_store = open_group(data);
    for (size_t i = 0; i < data->count; i++) {
        bench_expect(kiln_store_put(group_store, data->entries[i]) == KILN_OK, "put in a group");
        bench_expect(kiln_store_put(store, data->entries[i]) == KILN_OK, "put");
        bench_expect(kiln_store_put(signed_store, data->entries[i]) == KILN_OK, "signed put");
    }
    bench_expect(kilni_writer_new(store, KILN_UNLIMITED, &writer) == KILN_OK &&
                     kilni_writer_new(journal_store, KILN_UNLIMITED, &journal_writer) == KILN_OK,
                 "no writer");
}

static void close_kiln(void)
{
    kilni_writer_free(&writer, DRAIN_NS);
    kilni_writer_free(&journal_writer, DRAIN_NS);
    kiln_store_close(&journal_store);
    kiln_store_close(&store);
    kiln_store_close(&signed_store);
    kiln_store_close(&group_store);
}

static void run_get(size_t index)
{
    kiln_entry *entry = NULL;
    bench_expect(kiln_store_get(store, here->keys[index], &entry) == KILN_OK, "get");
    kiln_entry_release(&entry);
}

static void run_absent(size_t index)
{
    kiln_entry *entry = NULL;
    bench_expect(kiln_store_get(store, here->absent[index], &entry) == KILN_MISS, "absent get");
}

static void run_signed_get(size_t index)
{
    kiln_entry *entry = NULL;
    bench_expect(kiln_store_get(signed_store, here->keys[index], &entry) == KILN_OK, "signed get");
    kiln_entry_release(&entry);
}

static void run_group_get(size_t index)
{
    kiln_entry *entry = NULL;
    bench_expect(kiln_store_get(group_store, here->keys[index], &entry) == KILN_OK, "group get");
    kiln_entry_release(&entry);
}

static void run_put(size_t index)
{
    bench_expect(kiln_store_put(store, here->entries[index]) == KILN_OK, "put");
}

/* Does what a thread that built something does before it continues. */
static void run_hand_over(size_t index)
{
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = here->keys[index],
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance, .name = "kernel"},
        .payload = kiln_entry_payload(here->entries[index]),
    };
    kiln_entry *entry = NULL;
    bench_expect(kiln_entry_new(&params, &entry) == KILN_OK &&
                     kilni_writer_put(writer, entry, NULL) == KILN_OK,
                 "hand over");
    kiln_entry_release(&entry);
}

static void settle_hand_over(void)
{
    bench_expect(kilni_writer_drain(writer, DRAIN_NS) == KILN_OK, "the writer is stuck");
}

static void run_lease(size_t index)
{
    kiln_lease *lease = NULL;
    bench_expect(kiln_store_lease(store, here->keys[index], 0, &lease) == KILN_OK, "lease");
    kiln_lease_release(&lease);
}

/* Does what a hit adds for the journal. The thread itself writes the events to the file, as in a
 * process with one thread. */
static void run_note(size_t index)
{
    const kiln_journal_event event = {
        .kind = KILN_JOURNAL_HIT,
        .count = 1,
        .digest = kiln_key_digest(here->keys[index]),
        .load_ns = index,
    };
    kilni_writer_note(journal_writer, &event);
}

const bench_subject kiln_subjects[] = {
    {.name = "get", .is_repeated = true, .open = open_kiln, .run = run_get, .close = close_kiln},
    {.name = "absent", .run = run_absent},
    {.name = "get, signed", .run = run_signed_get},
    {.name = "get, group", .run = run_group_get},
    {.name = "put", .run = run_put},
    {.name = "hand over", .run = run_hand_over, .settle = settle_hand_over},
    {.name = "lease", .run = run_lease},
    {.name = "note", .run = run_note},
    {.name = NULL},
};
