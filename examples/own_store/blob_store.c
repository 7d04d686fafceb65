/* SPDX-License-Identifier: Apache-2.0 */
#include "blob_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "BLOBS 1\n";

/* A record: this header, the ID's bytes, the blob's bytes. */
typedef struct head {
    uint64_t id_size, size, uses;
} head;

typedef struct record {
    head head;
    uint8_t *bytes; /* the ID, then the blob */
} record;

struct blob_store {
    char *path;
    uint64_t max_bytes, bytes;
    FILE *trace;
    record *records;
    size_t count;
    int is_changed;
};

static uint64_t bytes_of(const record *of)
{
    return of->head.id_size + of->head.size;
}

static void tell(const blob_store *store, const char *what, const record *of)
{
    if (store->trace) {
        fprintf(store->trace, "%s a blob of %llu bytes, used %llu times\n", what,
                (unsigned long long)of->head.size, (unsigned long long)of->head.uses);
    }
}

/* Takes ownership of a record, or frees it. */
static int append(blob_store *store, record added)
{
    record *more = realloc(store->records, (store->count + 1) * sizeof *more);
    if (!more) {
        free(added.bytes);
        return -1;
    }
    store->records = more;
    store->records[store->count++] = added;
    store->bytes += bytes_of(&added);
    return 0;
}

static void drop(blob_store *store, record *dropped)
{
    store->bytes -= bytes_of(dropped);
    free(dropped->bytes);
    *dropped = store->records[--store->count];
    store->is_changed = 1;
}

/* ---- the file ---- */

/* Rejects any size that is larger than the store may hold. */
static int read_record(blob_store *store, FILE *file)
{
    record found = {0};
    if (fread(&found.head, sizeof found.head, 1, file) != 1 ||
        found.head.id_size > store->max_bytes || found.head.size > store->max_bytes) {
        return -1;
    }
    found.bytes = malloc(bytes_of(&found) + 1);
    if (!found.bytes || fread(found.bytes, 1, bytes_of(&found), file) != bytes_of(&found)) {
        free(found.bytes);
        return -1;
    }
    return append(store, found);
}

static void read_all(blob_store *store)
{
    char begin[sizeof magic];
    FILE *file = fopen(store->path, "rb");
    if (!file) {
        return;
    }
    if (fread(begin, sizeof begin, 1, file) == 1 && memcmp(begin, magic, sizeof magic) == 0) {
        while (read_record(store, file) == 0) {
        }
    }
    fclose(file);
}

static int write_all(const blob_store *store)
{
    char name[4096];
    if (snprintf(name, sizeof name, "%s.%ld", store->path, (long)getpid()) >= (int)sizeof name) {
        return -1;
    }
    FILE *file = fopen(name, "wb");
    if (!file) {
        return -1;
    }
    int is_whole = fwrite(magic, sizeof magic, 1, file) == 1;
    for (size_t i = 0; i < store->count && is_whole; i++) {
        const record *of = &store->records[i];
        is_whole = fwrite(&of->head, sizeof of->head, 1, file) == 1 &&
                   fwrite(of->bytes, 1, bytes_of(of), file) == bytes_of(of);
    }
    is_whole = fclose(file) == 0 && is_whole;
    if (!is_whole || rename(name, store->path) != 0) {
        unlink(name);
        return -1;
    }
    return 0;
}

/* ---- the policy ---- */

/* The record that was used least often; if there are several, the oldest of them. */
static record *victim(blob_store *store)
{
    record *least = store->records;
    for (size_t i = 1; i < store->count; i++) {
        if (store->records[i].head.uses < least->head.uses) {
            least = &store->records[i];
        }
    }
    return least;
}

static void make_room(blob_store *store, uint64_t bytes)
{
    while (store->count && store->bytes + bytes > store->max_bytes) {
        record *least = victim(store);
        tell(store, "evicted", least);
        drop(store, least);
    }
}

/* ---- the calls ---- */

static record *find(const blob_store *store, const uint8_t *id, size_t id_size)
{
    for (size_t i = 0; i < store->count; i++) {
        record *of = &store->records[i];
        if (of->head.id_size == id_size && memcmp(of->bytes, id, id_size) == 0) {
            return of;
        }
    }
    return NULL;
}

blob_store *blob_store_open(const char *path, uint64_t max_bytes, FILE *trace)
{
    blob_store *store = calloc(1, sizeof *store);
    if (!store) {
        return NULL;
    }
    store->path = strdup(path);
    if (!store->path) {
        free(store);
        return NULL;
    }
    store->max_bytes = max_bytes;
    store->trace = trace;
    read_all(store);
    make_room(store, 0);
    return store;
}

const uint8_t *blob_store_find(blob_store *store, const uint8_t *id, size_t id_size,
                               size_t *ret_size)
{
    record *found = find(store, id, id_size);
    if (!found) {
        return NULL;
    }
    found->head.uses++;
    store->is_changed = 1;
    tell(store, "found", found);
    *ret_size = found->head.size;
    return found->bytes + id_size;
}

int blob_store_keep(blob_store *store, const uint8_t *id, size_t id_size, const uint8_t *blob,
                    size_t size)
{
    record kept = {.head = {id_size, size, 1}};
    record *before = find(store, id, id_size);
    if (before) {
        drop(store, before);
    }
    if (bytes_of(&kept) > store->max_bytes) {
        return -1;
    }
    kept.bytes = malloc(bytes_of(&kept) + 1);
    if (!kept.bytes) {
        return -1;
    }
    memcpy(kept.bytes, id, id_size);
    memcpy(kept.bytes + id_size, blob, size);
    make_room(store, bytes_of(&kept));
    tell(store, "kept", &kept);
    store->is_changed = 1;
    return append(store, kept);
}

int blob_store_close(blob_store *store)
{
    const int result = store->is_changed ? write_all(store) : 0;
    for (size_t i = 0; i < store->count; i++) {
        free(store->records[i].bytes);
    }
    free(store->records);
    free(store->path);
    free(store);
    return result;
}
