/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a pack. Entries arrive in any order, and their number is not known until the last one has
 * arrived. So they are first written to a spool, which is a file without a name in the pack's
 * directory. The system removes the spool when the writing process ends. When all entries have
 * arrived, the pack is written under a temporary name, in the order of digests. Then it is synced
 * and renamed.
 */
#include <kiln/pack.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/sized_struct.h"
#include "entry/entry.h"
#include "os/file.h"
#include "os/os.h"
#include "store/key_file.h"
#include "store/pack/format.h"
#include "store/store.h"

#define DEFAULT_LEVEL 9u
#define MAX_LEVEL 12u
#define NAME_TRIES 4
#define COPY_BYTES ((size_t)1 << 16)
#define KNOWN_FLAGS KILN_PACK_STRIP_KEYS

struct kiln_pack_writer {
    int directory;
    char *name; /* the pack's name in that directory */
    int spool;
    uint64_t spool_size;
    uint32_t flags;
    int level;
    bool is_signing;
    kilni_signing_key signing_key;
    kilni_pack_slot *slots; /* their offsets are offsets in the spool */
    size_t count, capacity;
};

static kiln_status file_status(int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    return status < KILN_OK ? status : KILN_E_IO;
}

static kiln_status fail(const char *name, int system_error, kiln_error *error)
{
    return kilni_error_set(error, file_status(system_error), system_error, "%s: %s", name,
                           strerror(system_error));
}

/* Creates a file in the pack's directory, under a name that no file has. */
static int create_beside(const kiln_pack_writer *writer, mode_t mode, char name[NAME_MAX + 1])
{
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number;
        if (kilni_os()->getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
            return -1;
        }
        snprintf(name, NAME_MAX + 1, ".tmp-%016llx", (unsigned long long)number);
        int file = kilni_os()->openat(writer->directory, name,
                                      O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file >= 0 || errno != EEXIST) {
            return file;
        }
    }
    return -1;
}

static kiln_status open_spool(kiln_pack_writer *writer, kiln_error *error)
{
    char name[NAME_MAX + 1];
    writer->spool = create_beside(writer, 0600, name);
    if (writer->spool < 0 || kilni_os()->unlinkat(writer->directory, name, 0) != 0) {
        return fail(writer->name, errno, error);
    }
    return KILN_OK;
}

/* Opens the pack's directory, and stores the pack's name in that directory. */
static kiln_status open_directory(kiln_pack_writer *writer, const char *path, kiln_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (name[0] == '\0' || strlen(name) > NAME_MAX) {
        return kilni_error_set(error, KILN_E_INVALID, 0, "%s: not the name of a file", path);
    }
    char *folder = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
    writer->name = strdup(name);
    kiln_status status = folder && writer->name ? KILN_OK : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        writer->directory =
            kilni_os()->openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        status = writer->directory >= 0 ? KILN_OK : fail(path, errno, error);
    }
    free(folder);
    return status;
}

static kiln_status read_params(const kiln_pack_params *given, kiln_pack_writer *writer,
                               kiln_error *error)
{
    kiln_pack_params params;
    kiln_status status = kilni_sized_struct_copy(given, &params, sizeof params);
    if (status == KILN_OK && (params.flags & ~(uint32_t)KNOWN_FLAGS)) {
        status = KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK && params.level > MAX_LEVEL) {
        status = KILN_E_INVALID;
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "kiln_pack_params: %s", kiln_status_text(status));
    }
    writer->flags = params.flags;
    writer->level = (int)(params.level ? params.level : DEFAULT_LEVEL);
    writer->is_signing = params.key_file != NULL;
    return writer->is_signing ? kilni_key_file_read(params.key_file, &writer->signing_key, error)
                              : KILN_OK;
}

kiln_status kiln_pack_writer_open(const char *path, const kiln_pack_params *params,
                                  kiln_pack_writer **ret_writer, kiln_error *error)
{
    if (!path || !ret_writer) {
        return KILN_E_INVALID;
    }
    kiln_pack_writer *writer = calloc(1, sizeof *writer);
    if (!writer) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    writer->directory = writer->spool = -1;
    kiln_status status = read_params(params, writer, error);
    if (status == KILN_OK) {
        status = open_directory(writer, path, error);
    }
    if (status == KILN_OK) {
        status = open_spool(writer, error);
    }
    if (status != KILN_OK) {
        kiln_pack_writer_abandon(&writer);
        return status;
    }
    *ret_writer = writer;
    return KILN_OK;
}

void kiln_pack_writer_abandon(kiln_pack_writer **writer)
{
    if (!writer || !*writer) {
        return;
    }
    kiln_pack_writer *self = *writer;
    if (self->spool >= 0) {
        kilni_os()->close(self->spool);
    }
    if (self->directory >= 0) {
        kilni_os()->close(self->directory);
    }
    sodium_memzero(&self->signing_key, sizeof self->signing_key);
    free(self->slots);
    free(self->name);
    free(self);
    *writer = NULL;
}

/* ---- adding ---- */

static kiln_status reserve_slot(kiln_pack_writer *writer)
{
    if (writer->count < writer->capacity) {
        return KILN_OK;
    }
    size_t capacity = writer->capacity > 0 ? writer->capacity * 2 : 64;
    size_t size;
    kilni_pack_slot *slots =
        kilni_size_multiply(capacity, sizeof *slots, &size) ? realloc(writer->slots, size) : NULL;
    if (!slots) {
        return KILN_E_NO_MEMORY;
    }
    writer->slots = slots;
    writer->capacity = capacity;
    return KILN_OK;
}

/* Makes a copy of an entry in the form that the pack will contain. */
static kiln_status prepare(const kiln_pack_writer *writer, const kiln_entry *entry,
                           kiln_entry **ret_entry)
{
    const kilni_entry_form form = {.is_stripped = writer->flags & KILN_PACK_STRIP_KEYS,
                                   .level = writer->level,
                                   .signing_key = writer->is_signing ? &writer->signing_key : NULL};
    return kilni_entry_prepare(entry, &form, ret_entry);
}

kiln_status kiln_pack_writer_add(kiln_pack_writer *writer, const kiln_entry *entry)
{
    if (!writer || !entry) {
        return KILN_E_INVALID;
    }
    if (kilni_store_is_request(kiln_entry_key(entry))) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_entry *prepared = NULL;
    kiln_status status = reserve_slot(writer);
    if (status == KILN_OK) {
        status = prepare(writer, entry, &prepared);
    }
    if (status != KILN_OK) {
        return status;
    }
    kiln_bytes bytes = kiln_entry_encoding(prepared);
    status = kilni_file_write_at(writer->spool, bytes.data, bytes.size, (off_t)writer->spool_size);
    if (status == KILN_OK) {
        writer->slots[writer->count++] =
            (kilni_pack_slot){.digest = kiln_key_digest(kiln_entry_key(prepared)),
                              .offset = writer->spool_size,
                              .size = bytes.size};
        writer->spool_size += bytes.size;
    }
    kiln_entry_release(&prepared);
    return status;
}

/* ---- finishing ---- */

static int compare_slots(const void *left, const void *right)
{
    const kilni_pack_slot *a = left, *b = right;
    int order = memcmp(&a->digest, &b->digest, sizeof a->digest);
    return order != 0 ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

/* Sorts the slots into the order of the pack, and keeps only the first slot of each digest. */
static void sort_slots(kiln_pack_writer *writer)
{
    if (writer->count == 0) {
        return;
    }
    qsort(writer->slots, writer->count, sizeof *writer->slots, compare_slots);
    size_t kept = 1;
    for (size_t i = 1; i < writer->count; i++) {
        if (memcmp(&writer->slots[kept - 1].digest, &writer->slots[i].digest,
                   sizeof writer->slots[i].digest) != 0) {
            writer->slots[kept++] = writer->slots[i];
        }
    }
    writer->count = kept;
}

/* Returns how many consecutive slots, beginning at @first, belong to the same bucket. */
static size_t run_length(const kiln_pack_writer *writer, size_t first, uint64_t bucket_count)
{
    uint64_t bucket = kilni_pack_bucket_of(&writer->slots[first].digest, bucket_count);
    size_t end = first + 1;
    while (end < writer->count &&
           kilni_pack_bucket_of(&writer->slots[end].digest, bucket_count) == bucket) {
        end++;
    }
    return end - first;
}

static bool fits(const kiln_pack_writer *writer, uint64_t bucket_count)
{
    for (size_t first = 0; first < writer->count;) {
        size_t length = run_length(writer, first, bucket_count);
        if (length > KILNI_PACK_BUCKET_SLOTS) {
            return false;
        }
        first += length;
    }
    return true;
}

/* Returns a number of buckets with which no bucket overflows. Begins with so many buckets that they
 * are half full on average, and increases the number by an eighth until all slots fit. Returns 0 if
 * even the largest number is not enough. */
static uint64_t choose_bucket_count(const kiln_pack_writer *writer)
{
    uint64_t count = writer->count / (KILNI_PACK_BUCKET_SLOTS / 2) + 1;
    while (count <= KILNI_PACK_MAX_BUCKETS) {
        if (fits(writer, count)) {
            return count;
        }
        count += count / 8 + 1;
    }
    return 0;
}

/* A file that is written from beginning to end. */
typedef struct output {
    int file;
    uint64_t offset;
} output;

static kiln_status append(output *out, const void *bytes, size_t size)
{
    kiln_status status = kilni_file_write_at(out->file, bytes, size, (off_t)out->offset);
    out->offset += size;
    return status;
}

static kiln_status write_header(output *out, const kilni_pack_header *header)
{
    unsigned char page[KILNI_PACK_PAGE_SIZE];
    kilni_pack_header_encode(header, page);
    return append(out, page, sizeof page);
}

/* Writes all buckets. The entries will follow them in the order of the slots. */
static kiln_status write_index(const kiln_pack_writer *writer, output *out, uint64_t bucket_count)
{
    uint64_t offset = kilni_pack_entries_offset(bucket_count);
    size_t next = 0;
    kiln_status status = KILN_OK;
    for (uint64_t number = 0; status == KILN_OK && number < bucket_count; number++) {
        kilni_pack_slot slots[KILNI_PACK_BUCKET_SLOTS];
        unsigned char page[KILNI_PACK_PAGE_SIZE];
        size_t count = 0;
        while (next < writer->count &&
               kilni_pack_bucket_of(&writer->slots[next].digest, bucket_count) == number) {
            slots[count] = writer->slots[next++];
            slots[count].offset = offset;
            offset += slots[count++].size;
        }
        kilni_pack_bucket_encode(number, slots, count, page);
        status = append(out, page, sizeof page);
    }
    return status;
}

static kiln_status copy_entry(const kiln_pack_writer *writer, const kilni_pack_slot *slot,
                              output *out, void *buffer)
{
    kiln_status status = KILN_OK;
    for (uint64_t done = 0; status == KILN_OK && done < slot->size;) {
        size_t wanted = slot->size - done < COPY_BYTES ? (size_t)(slot->size - done) : COPY_BYTES;
        size_t count = 0;
        status =
            kilni_file_read_at(writer->spool, buffer, wanted, (off_t)(slot->offset + done), &count);
        if (status == KILN_OK && count != wanted) {
            errno = EIO;
            status = KILN_E_IO;
        }
        if (status == KILN_OK) {
            status = append(out, buffer, wanted);
        }
        done += wanted;
    }
    return status;
}

static kiln_status write_entries(const kiln_pack_writer *writer, output *out)
{
    void *buffer = malloc(COPY_BYTES);
    if (!buffer) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < writer->count; i++) {
        status = copy_entry(writer, &writer->slots[i], out, buffer);
    }
    free(buffer);
    return status;
}

static kiln_status write_pack(const kiln_pack_writer *writer, int file,
                              const kilni_pack_header *header)
{
    output out = {.file = file};
    kiln_status status = write_header(&out, header);
    if (status == KILN_OK) {
        status = write_index(writer, &out, header->bucket_count);
    }
    if (status == KILN_OK) {
        status = write_entries(writer, &out);
    }
    if (status == KILN_OK && kilni_os()->fdatasync(file) != 0) {
        status = file_status(errno);
    }
    return status;
}

/* Writes the pack under a temporary name, syncs it and renames it. */
static kiln_status publish(const kiln_pack_writer *writer, const kilni_pack_header *header)
{
    char temporary[NAME_MAX + 1];
    /* Packs are shipped, so all users are allowed to read the file. But only its owner is allowed
     * to write it, whatever the umask. */
    int file = create_beside(writer, 0644, temporary);
    if (file < 0) {
        return file_status(errno);
    }
    kiln_status status = write_pack(writer, file, header);
    /* Some network file systems report a failed write only now. */
    if (kilni_os()->close(file) != 0 && status == KILN_OK) {
        status = file_status(errno);
    }
    if (status == KILN_OK &&
        kilni_os()->renameat(writer->directory, temporary, writer->directory, writer->name) != 0) {
        status = file_status(errno);
    }
    if (status != KILN_OK) {
        kilni_os()->unlinkat(writer->directory, temporary, 0);
        return status;
    }
    /* The directory is synced to make the new name durable. If the file system cannot sync a
     * directory, the name becomes durable later, when the file system writes the directory. */
    kilni_os()->fdatasync(writer->directory);
    return KILN_OK;
}

static kilni_pack_header header_of(const kiln_pack_writer *writer)
{
    kilni_pack_header header = {.flags =
                                    writer->flags & KILN_PACK_STRIP_KEYS ? KILNI_PACK_STRIPPED : 0,
                                .entry_count = writer->count,
                                .bucket_count = choose_bucket_count(writer)};
    header.total_size = kilni_pack_entries_offset(header.bucket_count);
    for (size_t i = 0; i < writer->count; i++) {
        header.total_size += writer->slots[i].size;
    }
    return header;
}

kiln_status kiln_pack_writer_finish(kiln_pack_writer **writer, kiln_pack_report *ret_report,
                                    kiln_error *error)
{
    if (!writer || !*writer) {
        return KILN_E_INVALID;
    }
    if (ret_report && !kilni_sized_struct_is_valid(ret_report)) {
        kiln_pack_writer_abandon(writer);
        return KILN_E_INVALID;
    }
    sort_slots(*writer);
    kilni_pack_header header = header_of(*writer);
    kiln_status status = header.bucket_count > 0 ? publish(*writer, &header) : KILN_E_TOO_LARGE;
    if (status != KILN_OK) {
        kilni_error_set(error, status, 0, "%s: can't be written: %s", (*writer)->name,
                        kiln_status_text(status));
    }
    kiln_pack_writer_abandon(writer);
    const kiln_pack_report report = {.entries = header.entry_count, .bytes = header.total_size};
    if (status == KILN_OK && ret_report) {
        kilni_sized_struct_copy_out(ret_report, &report, sizeof report);
    }
    return status;
}
