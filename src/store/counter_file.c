/* SPDX-License-Identifier: Apache-2.0 */
#include "store/counter_file.h"

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
#define MAX_FILE_SIZE (HEADER_SIZE + 8u * KILNI_COUNTERS_MAX + CHECKSUM_SIZE)
/* How long to wait for the lock. A process holds the lock only for microseconds, unless it is
 * stopped while it holds the lock. */
#define LOCK_WAIT_NS 5000000u

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

static content_kind decode(const unsigned char *bytes, size_t size, kilni_counters *ret_counters)
{
    /* After a power failure, a file can contain zeros instead of the written bytes. */
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
    if (reader.failed || version != VERSION || count > KILNI_COUNTERS_MAX ||
        reader.left != 8u * count + CHECKSUM_SIZE) {
        return DAMAGED;
    }
    for (uint32_t i = 0; i < count; i++) {
        ret_counters->values[i] = kilni_read_u64(&reader);
    }
    ret_counters->count = count;
    return kilni_read_u64(&reader) == kilni_checksum(bytes, size - CHECKSUM_SIZE) ? SOUND : DAMAGED;
}

/* Reads at most @most bytes. Sets all counters to zero if the content is not SOUND. */
static kiln_status load_first(int file, size_t most, kilni_counters *ret_counters,
                              content_kind *ret_content)
{
    unsigned char bytes[MAX_FILE_SIZE + 1];
    size_t size = 0;
    memset(ret_counters, 0, sizeof *ret_counters);
    if (kilni_file_read_at(file, bytes, most, 0, &size) != KILN_OK) {
        return KILN_E_IO;
    }
    *ret_content = decode(bytes, size, ret_counters);
    if (*ret_content != SOUND) {
        memset(ret_counters, 0, sizeof *ret_counters);
    }
    return *ret_content == FOREIGN ? KILN_E_CORRUPT : KILN_OK;
}

/* A file usually still has the size that it had when it was opened, so the first read asks only for
 * that many bytes. If the file has grown, the part that was read is never SOUND. The second read
 * asks for one byte more than a valid file can have, to detect files that are too long. */
static kiln_status load(int file, off_t size_before, kilni_counters *ret_counters,
                        content_kind *ret_content)
{
    if (size_before > 0 && size_before <= (off_t)MAX_FILE_SIZE) {
        const kiln_status status = load_first(file, (size_t)size_before, ret_counters, ret_content);
        if (status == KILN_OK && *ret_content == SOUND) {
            return KILN_OK;
        }
    }
    return load_first(file, MAX_FILE_SIZE + 1, ret_counters, ret_content);
}

static kiln_status save(int file, const kilni_counters *counters, bool is_new)
{
    unsigned char bytes[MAX_FILE_SIZE];
    kilni_byte_writer writer = {.at = bytes, .left = sizeof bytes};
    kilni_write_bytes(&writer, MAGIC, MAGIC_SIZE);
    kilni_write_u32(&writer, VERSION);
    kilni_write_u32(&writer, counters->count);
    for (uint32_t i = 0; i < counters->count; i++) {
        kilni_write_u64(&writer, counters->values[i]);
    }
    kilni_write_u64(&writer, kilni_checksum(bytes, (size_t)(writer.at - bytes)));
    size_t size = (size_t)(writer.at - bytes);
    const kiln_status status = is_new ? kilni_file_resize(file, (off_t)size) : KILN_OK;
    return status == KILN_OK ? kilni_file_write_at(file, bytes, size, 0) : status;
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

kiln_status kilni_counter_file_change(int directory, const char *path,
                                      kilni_counters_change_fn *change, void *user)
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
    kilni_counters counters;
    content_kind content = EMPTY;
    status = load(lock.held.file, size, &counters, &content);
    if (status == KILN_OK) {
        counters.is_new = content != SOUND;
        change(user, &counters);
        status = save(lock.held.file, &counters, content != SOUND);
    }
    kilni_lock_close(&lock);
    return status;
}

/* Reads the file without the lock. If the content is not sound, a writer might be changing it, so
 * the function waits for the lock and reads the file again. */
static kiln_status read_unlocked(kilni_lock *lock, off_t size, kilni_counters *ret_counters,
                                 content_kind *ret_content)
{
    kiln_status status = load(lock->held.file, size, ret_counters, ret_content);
    if (status == KILN_OK && *ret_content == SOUND) {
        return KILN_OK;
    }
    status = kilni_lock_take(lock, F_RDLCK, 0, 0, LOCK_WAIT_NS);
    return status == KILN_OK ? load(lock->held.file, size, ret_counters, ret_content) : status;
}

kiln_status kilni_counter_file_read(int directory, const char *path, kilni_counters *ret_counters)
{
    kilni_lock lock;
    off_t size = 0;
    kiln_status status = open_locked(directory, path, O_RDONLY, F_RDLCK, 0, &lock, &size);
    if (status != KILN_OK && status != KILN_BUSY) {
        return status;
    }
    content_kind content = EMPTY;
    status = status == KILN_OK ? load(lock.held.file, size, ret_counters, &content)
                               : read_unlocked(&lock, size, ret_counters, &content);
    kilni_lock_close(&lock);
    if (status == KILN_OK && content == DAMAGED) {
        status = KILN_E_CORRUPT;
    }
    ret_counters->is_new = content == EMPTY;
    return status;
}
