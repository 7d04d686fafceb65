/* SPDX-License-Identifier: Apache-2.0 */
#include "store/totals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bytes.h"
#include "key/hash.h"
#include "os/file.h"
#include "os/os.h"
#include "store/lock.h"

#define MAGIC "KILNSTAT"
#define MAGIC_SIZE 8u
#define VERSION 1u
#define HEADER_SIZE (MAGIC_SIZE + 4u + 4u)
#define CHECKSUM_SIZE 8u
/* Later versions may append fields. Fields that this version does not know are kept. */
#define MAX_FIELDS 255u
#define MAX_FILE_SIZE (HEADER_SIZE + 8u * MAX_FIELDS + CHECKSUM_SIZE)
/* A process holds the lock only for microseconds, unless it is stopped during that time. */
#define LOCK_WAIT_NS 5000000u

enum { FIELD_ENTRIES = 0, FIELD_BYTES = 1, FIELD_COUNTERS = 2 };
enum { KNOWN_FIELDS = FIELD_COUNTERS + KILNI_STATS_COUNT };

_Static_assert(sizeof(kiln_stats) % sizeof(uint64_t) == 0, "kiln_stats is an array of uint64_t");
_Static_assert(KNOWN_FIELDS <= MAX_FIELDS, "a statistics file has room for all counters");

typedef struct field_list {
    uint64_t values[MAX_FIELDS];
    uint32_t count;
} field_list;

static bool is_all_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* What a file contains. */
typedef enum content_kind { SOUND, EMPTY, DAMAGED, FOREIGN } content_kind;

static content_kind decode(const unsigned char *bytes, size_t size, field_list *ret_fields)
{
    /* A power failure can leave zeros in place of the written bytes. */
    if (size <= MAX_FILE_SIZE && is_all_zero(bytes, size)) {
        return EMPTY;
    }
    kilni_byte_reader reader = {.at = bytes, .left = size};
    const unsigned char *magic = kilni_read_bytes(&reader, MAGIC_SIZE);
    if (!magic || memcmp(magic, MAGIC, MAGIC_SIZE) != 0) {
        return FOREIGN;
    }
    uint32_t version = kilni_read_u32(&reader);
    uint32_t count = kilni_read_u32(&reader);
    if (!reader.failed && version > VERSION) {
        return FOREIGN;
    }
    if (reader.failed || version != VERSION || count > MAX_FIELDS ||
        reader.left != 8u * count + CHECKSUM_SIZE) {
        return DAMAGED;
    }
    for (uint32_t i = 0; i < count; i++) {
        ret_fields->values[i] = kilni_read_u64(&reader);
    }
    ret_fields->count = count;
    return kilni_read_u64(&reader) == kilni_checksum(bytes, size - CHECKSUM_SIZE) ? SOUND : DAMAGED;
}

/* Reads at most @most bytes. If the content is not SOUND, sets all fields to zero. */
static kiln_status load_first(int file, size_t most, field_list *ret_fields,
                              content_kind *ret_content)
{
    unsigned char bytes[MAX_FILE_SIZE + 1];
    size_t size = 0;
    memset(ret_fields, 0, sizeof *ret_fields);
    if (kilni_file_read_at(file, bytes, most, 0, &size) != KILN_OK) {
        return KILN_E_IO;
    }
    *ret_content = decode(bytes, size, ret_fields);
    if (*ret_content != SOUND) {
        memset(ret_fields, 0, sizeof *ret_fields);
    }
    return *ret_content == FOREIGN ? KILN_E_CORRUPT : KILN_OK;
}

/* A file usually still has the size that it had when it was opened, so the first read asks only for
 * that many bytes. If the file has grown, its beginning is never SOUND. The second read asks for
 * one byte more than a valid file can have, to detect files that are too long. */
static kiln_status load(int file, off_t size_before, field_list *ret_fields,
                        content_kind *ret_content)
{
    if (size_before > 0 && size_before <= (off_t)MAX_FILE_SIZE) {
        const kiln_status status = load_first(file, (size_t)size_before, ret_fields, ret_content);
        if (status == KILN_OK && *ret_content == SOUND) {
            return KILN_OK;
        }
    }
    return load_first(file, MAX_FILE_SIZE + 1, ret_fields, ret_content);
}

static kiln_status save(int file, const field_list *fields, bool is_new)
{
    unsigned char bytes[MAX_FILE_SIZE];
    kilni_byte_writer writer = {.at = bytes, .left = sizeof bytes};
    kilni_write_bytes(&writer, MAGIC, MAGIC_SIZE);
    kilni_write_u32(&writer, VERSION);
    kilni_write_u32(&writer, fields->count);
    for (uint32_t i = 0; i < fields->count; i++) {
        kilni_write_u64(&writer, fields->values[i]);
    }
    kilni_write_u64(&writer, kilni_checksum(bytes, (size_t)(writer.at - bytes)));
    size_t size = (size_t)(writer.at - bytes);
    const kiln_status status = is_new ? kilni_file_resize(file, (off_t)size) : KILN_OK;
    return status == KILN_OK ? kilni_file_write_at(file, bytes, size, 0) : status;
}

static uint64_t add_signed(uint64_t value, int64_t change)
{
    uint64_t amount = change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
    if (change < 0) {
        return value > amount ? value - amount : 0;
    }
    return value + amount;
}

void kilni_totals_apply(kilni_totals *totals, const kilni_totals_change *change)
{
    if (change->is_recount) {
        totals->entries = 0;
        totals->bytes = 0;
    }
    totals->entries = add_signed(totals->entries, change->entries);
    totals->bytes = add_signed(totals->bytes, change->bytes);
    kilni_stats_add(&totals->counters, &change->counters);
}

static kilni_totals totals_of(const field_list *fields)
{
    kilni_totals totals = {.entries = fields->values[FIELD_ENTRIES],
                           .bytes = fields->values[FIELD_BYTES]};
    memcpy(&totals.counters, &fields->values[FIELD_COUNTERS], sizeof totals.counters);
    return totals;
}

static void apply(field_list *fields, const kilni_totals_change *change)
{
    if (fields->count < KNOWN_FIELDS) {
        fields->count = KNOWN_FIELDS;
    }
    kilni_totals totals = totals_of(fields);
    kilni_totals_apply(&totals, change);
    fields->values[FIELD_ENTRIES] = totals.entries;
    fields->values[FIELD_BYTES] = totals.bytes;
    memcpy(&fields->values[FIELD_COUNTERS], &totals.counters, sizeof totals.counters);
}

/* Opens and locks a file. The caller must close the lock if the status is KILN_OK or KILN_BUSY. */
static kiln_status open_locked(int directory, const char *path, int flags, short type,
                               uint64_t wait_ns, kilni_lock *ret_lock, off_t *ret_size)
{
    struct stat stat;
    kiln_status status = kilni_lock_open_briefly(directory, path, flags, ret_lock, &stat);
    if (status != KILN_OK) {
        return status;
    }
    *ret_size = stat.st_size;
    status = kilni_lock_take(ret_lock, type, 0, 0, wait_ns);
    if (status != KILN_OK && status != KILN_BUSY) {
        kilni_lock_close(ret_lock);
        return KILN_E_IO;
    }
    return status;
}

kiln_status kilni_totals_change_file(int directory, const char *path,
                                     const kilni_totals_change *change, kilni_totals *ret_totals)
{
    kilni_lock lock;
    off_t size = 0;
    kiln_status status =
        open_locked(directory, path, O_RDWR | O_CREAT, F_WRLCK, LOCK_WAIT_NS, &lock, &size);
    if (status == KILN_BUSY) {
        kilni_lock_close(&lock);
    }
    if (status != KILN_OK) {
        return status;
    }
    field_list fields;
    content_kind content = EMPTY;
    status = load(lock.held.file, size, &fields, &content);
    bool is_new = content != SOUND;
    if (status == KILN_OK) {
        apply(&fields, change);
        status = save(lock.held.file, &fields, is_new);
    }
    kilni_lock_close(&lock);
    if (status == KILN_OK && ret_totals) {
        *ret_totals = totals_of(&fields);
        ret_totals->is_new = is_new;
    }
    return status;
}

/* Reads the file without the lock. If the content is not sound, perhaps because a writer is
 * changing it, waits for the lock and reads the file again. */
static kiln_status read_unlocked(kilni_lock *lock, off_t size, field_list *ret_fields,
                                 content_kind *ret_content)
{
    kiln_status status = load(lock->held.file, size, ret_fields, ret_content);
    if (status == KILN_OK && *ret_content == SOUND) {
        return KILN_OK;
    }
    status = kilni_lock_take(lock, F_RDLCK, 0, 0, LOCK_WAIT_NS);
    return status == KILN_OK ? load(lock->held.file, size, ret_fields, ret_content) : status;
}

kiln_status kilni_totals_read_file(int directory, const char *path, kilni_totals *ret_totals)
{
    kilni_lock lock;
    off_t size = 0;
    kiln_status status = open_locked(directory, path, O_RDONLY, F_RDLCK, 0, &lock, &size);
    if (status != KILN_OK && status != KILN_BUSY) {
        return status;
    }
    field_list fields;
    content_kind content = EMPTY;
    status = status == KILN_OK ? load(lock.held.file, size, &fields, &content)
                               : read_unlocked(&lock, size, &fields, &content);
    kilni_lock_close(&lock);
    if (status == KILN_OK && content == DAMAGED) {
        status = KILN_E_CORRUPT;
    }
    if (status != KILN_OK) {
        return status;
    }
    *ret_totals = totals_of(&fields);
    ret_totals->is_new = content == EMPTY;
    return KILN_OK;
}

void kilni_stats_add(kiln_stats *sum, const kiln_stats *delta)
{
#define ADD(name, meaning) sum->name += delta->name;
    KILN_STATS_LIST(ADD)
#undef ADD
}

bool kilni_stats_is_zero(const kiln_stats *stats)
{
    static const kiln_stats zero;
    return memcmp(stats, &zero, sizeof zero) == 0;
}
