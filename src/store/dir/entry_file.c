/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens, checks and reads files that might be entries.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/size.h"
#include "entry/entry.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/dir/dir.h"

/* How many bytes are read before they are hashed. This piece must fit in a processor's caches. It
 * must also be so large that the cost of the calls is negligible. */
#define PIECE ((size_t)1 << 20)

/* Processors copy and hash data faster if the data begin at a cache line. */
#define CACHE_LINE ((size_t)64)

kiln_status kilni_dir_read_status(int system_error)
{
    /* The file is a socket, or a device that does not exist. */
    if (system_error == ENXIO) {
        return KILN_E_DENIED;
    }
    kiln_status status = kilni_status_from_errno(system_error);
    switch (status) {
    case KILN_BUSY:
        return KILN_MISS;
    case KILN_MISS:
    case KILN_E_DENIED:
    case KILN_E_NO_MEMORY:
        return status;
    default:
        return KILN_E_IO;
    }
}

kiln_status kilni_dir_write_status(int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    return status == KILN_EXISTS || status == KILN_BUSY ? KILN_E_IO : status;
}

/* O_NONBLOCK: opening a FIFO must not block. */
#define READ_FLAGS (O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* Checks a file that was just opened. If the file must not be used, this function closes it.
 *
 * @file  the descriptor; -1: opening the file failed, and errno says why */
static kiln_status check_file(const kilni_dir *dir, int file, int *ret_file, struct stat *ret_stat)
{
    if (file < 0) {
        return kilni_dir_read_status(errno);
    }
    kiln_status status = KILN_OK;
    if (kilni_os()->fstat(file, ret_stat) != 0) {
        status = kilni_dir_read_status(errno);
    } else if (!kilni_dir_trusts(dir, ret_stat, S_IFREG)) {
        status = KILN_E_DENIED;
    }
    if (status != KILN_OK) {
        kilni_os()->close(file);
        return status;
    }
    *ret_file = file;
    return KILN_OK;
}

kiln_status kilni_dir_open_file(const kilni_dir *dir, int directory, const char *path,
                                int *ret_file, struct stat *ret_stat)
{
    return check_file(dir, kilni_os()->openat(directory, path, READ_FLAGS, 0), ret_file, ret_stat);
}

kiln_status kilni_dir_open_file_below(const kilni_dir *dir, const char *path, int *ret_file,
                                      struct stat *ret_stat)
{
    return check_file(dir, kilni_file_open_below(kilni_dir_root(dir), path, READ_FLAGS), ret_file,
                      ret_stat);
}

uint64_t kilni_dir_largest_file(const kilni_dir *dir)
{
    const kilni_store_options *options = &dir->store.options;
    uint64_t most = KILNI_MAX_BYTES;
    most = options->max_entry_bytes < most ? options->max_entry_bytes : most;
    if (!kilni_dir_is_readonly(dir) && options->max_bytes > 0 && options->max_bytes < most) {
        most = options->max_bytes;
    }
    return most;
}

/* Allocates memory for an entry of @size bytes. The caller frees it with free(). */
static void *allocate_lines(size_t size)
{
    return aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
}

/* Returns the size of the next piece. If the rest would make a small last piece, the next piece
 * includes the rest. */
static size_t next_piece(size_t left)
{
    return left < 2 * PIECE ? left : PIECE;
}

/* Reads the entry in pieces. Returns KILN_E_CORRUPT if the file ends too early. */
static kiln_status read_pieces(int file, kilni_entry_arrival *arrival)
{
    while (arrival->arrived < arrival->size) {
        const size_t piece = next_piece(arrival->size - arrival->arrived);
        size_t count;
        if (kilni_file_read_at(file, arrival->bytes + arrival->arrived, piece,
                               (off_t)arrival->arrived, &count) != KILN_OK) {
            return kilni_dir_read_status(errno);
        }
        kilni_entry_arrival_add(arrival, count);
        if (count < piece) {
            return KILN_E_CORRUPT;
        }
    }
    return KILN_OK;
}

static kiln_status read_and_verify(int file, void *bytes, size_t size,
                                   const kilni_signing_key *signing_key, kiln_entry **ret_entry)
{
    kilni_entry_arrival arrival;
    kilni_entry_arrival_begin(&arrival, bytes, size);
    kiln_status status = read_pieces(file, &arrival);
    return status == KILN_OK ? kilni_entry_arrival_end(&arrival, signing_key, ret_entry) : status;
}

/* Checks the beginning of a large file before memory is allocated for it, because the file might
 * not contain an entry. */
static kiln_status probe(int file, uint64_t size)
{
    unsigned char bytes[KILNI_ENTRY_PROBE_SIZE];
    size_t count = 0;
    if (kilni_file_read_at(file, bytes, sizeof bytes, 0, &count) != KILN_OK) {
        return kilni_dir_read_status(errno);
    }
    return count < sizeof bytes ? KILN_E_CORRUPT : kilni_entry_probe(bytes, size);
}

kiln_status kilni_dir_read_file(const kilni_dir *dir, int file, const struct stat *stat,
                                kiln_entry **ret_entry)
{
    if (stat->st_size <= 0) {
        return KILN_E_CORRUPT;
    }
    if ((uint64_t)stat->st_size > kilni_dir_largest_file(dir)) {
        return KILN_MISS;
    }
    size_t size = (size_t)stat->st_size;
    if (size >= 2 * PIECE) {
        const kiln_status probed = probe(file, size);
        if (probed != KILN_OK) {
            return probed;
        }
    }
    /* The system provides each page of this memory only when the page is first written. */
    void *bytes = allocate_lines(size);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = read_and_verify(file, bytes, size, dir->store.signing_key, ret_entry);
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}

kiln_status kilni_dir_read_entry(const kilni_dir *dir, int file, const struct stat *stat,
                                 const kiln_key *key, kiln_entry **ret_entry, bool *ret_first_use)
{
    kiln_entry *entry = NULL;
    kiln_status status = kilni_dir_read_file(dir, file, stat, &entry);
    if (status == KILN_OK && !kiln_key_equals(key, kiln_entry_key(entry))) {
        kiln_entry_release(&entry);
        status = KILN_MISS;
    }
    if (status == KILN_OK) {
        *ret_first_use |= kilni_dir_record_use(dir, file, stat);
        *ret_entry = entry;
    }
    kilni_os()->close(file);
    return status;
}

uint64_t kilni_dir_disk_bytes(const struct stat *stat)
{
    /* Some file systems report that a file has no blocks until they have written the blocks. */
    return stat->st_blocks > 0 ? (uint64_t)stat->st_blocks * 512 : (uint64_t)stat->st_size;
}
