/* SPDX-License-Identifier: Apache-2.0 */
#include "store/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sized_struct.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/file_limit.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/journal_record.h"
#include "store/lock.h"

#define READ_BYTES 65536u

/* Opens a file of the journal, and checks it. */
static kiln_status open_private(int directory, const char *path, int flags, int *ret_file,
                                struct stat *ret_stat)
{
    const int file = kilni_file_open_or_make(directory, path, flags);
    if (file < 0) {
        return kilni_status_from_errno(errno);
    }
    kiln_status status = KILN_OK;
    if (kilni_os()->fstat(file, ret_stat) != 0) {
        status = KILN_E_IO;
    } else if (kilni_trust_of(ret_stat, S_IFREG, kilni_os()->geteuid(), false, S_IRWXG | S_IRWXO) !=
               KILNI_TRUSTED) {
        status = KILN_E_DENIED;
    }
    if (status != KILN_OK) {
        kilni_os()->close(file);
        return status;
    }
    *ret_file = file;
    return KILN_OK;
}

/* ---- appending ---- */

static kiln_status write_once(int file, const void *records, size_t size)
{
    kilni_file_limit_begin();
    const ssize_t count = kilni_os()->write(file, records, size);
    const int system_error = count < 0 ? errno : ENOSPC;
    if (count < 0 && system_error == EFBIG) {
        kilni_file_limit_reached();
    }
    kilni_file_limit_end();
    if (count == (ssize_t)size) {
        return KILN_OK;
    }
    return kilni_status_from_errno(system_error) == KILN_E_FULL ? KILN_E_FULL : KILN_E_IO;
}

/* Makes the present file the file before, unless a different process has done so. All processes
 * that want to rename one file lock that file, and only the first one finds it under its name. On a
 * file system without locks, two processes could rename one after the other, and the older events
 * would be lost. */
static void rotate(int directory, const char *path, const char *before)
{
    kilni_lock lock;
    struct stat opened, named;
    if (kilni_lock_open_briefly(directory, path, O_RDWR, &lock, &opened) != KILN_OK) {
        return;
    }
    const kiln_status status = kilni_lock_take(&lock, F_WRLCK, 0, 0, 0);
    if ((status == KILN_OK || status == KILN_E_UNSUPPORTED) &&
        opened.st_size >= (off_t)KILNI_JOURNAL_FILE_BYTES &&
        kilni_os()->fstatat(directory, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) {
        kilni_os()->renameat(directory, path, directory, before);
    }
    kilni_lock_close(&lock);
}

kiln_status kilni_journal_append(int directory, const char *path, const char *before,
                                 const void *records, size_t size)
{
    int file;
    struct stat stat;
    const kiln_status status =
        open_private(directory, path, O_WRONLY | O_APPEND | O_CREAT, &file, &stat);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_status written = write_once(file, records, size);
    kilni_os()->close(file);
    if (before && (uint64_t)stat.st_size + size >= KILNI_JOURNAL_FILE_BYTES) {
        rotate(directory, path, before);
    }
    return written;
}

kiln_status kilni_journal_encode_given(const kiln_journal_event *given, unsigned char *bytes,
                                       size_t *ret_size)
{
    kiln_journal_event event;
    const kiln_status status =
        given ? kilni_sized_struct_copy(given, &event, sizeof event) : KILN_E_INVALID;
    if (status != KILN_OK) {
        return status;
    }
    if (event.kind < KILN_JOURNAL_HIT || event.kind > KILN_JOURNAL_MEMORY_HITS) {
        return KILN_E_INVALID;
    }
    event.time_ns = kilni_file_clock_ns();
    event.pid = (uint32_t)getpid();
    event.program = program_invocation_short_name;
    *ret_size = kilni_journal_encode(&event, bytes);
    return KILN_OK;
}

kiln_status kiln_journal_add_to_file(const char *path, const kiln_journal_event *event)
{
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    size_t size = 0;
    if (!path || path[0] != '/') {
        return KILN_E_INVALID;
    }
    const kiln_status status = kilni_journal_encode_given(event, record, &size);
    return status == KILN_OK ? kilni_journal_append(AT_FDCWD, path, NULL, record, size) : status;
}

/* ---- reading ---- */

/* Reads one file with a buffer of READ_BYTES. */
static kiln_status read_records(int file, unsigned char *buffer, kilni_journal_reader *reader)
{
    size_t kept = 0;
    bool is_last = false;
    while (!is_last && !reader->has_ended) {
        size_t count = 0;
        if (kilni_file_read(file, buffer + kept, READ_BYTES - kept, &count) != KILN_OK) {
            return KILN_E_IO;
        }
        is_last = count < READ_BYTES - kept;
        const size_t used = kilni_journal_read_bytes(reader, buffer, kept + count, is_last);
        kept = kept + count - used;
        memmove(buffer, buffer + used, kept);
        reader->report.bytes += count;
    }
    reader->is_skipping = false;
    return KILN_OK;
}

/* Reads both files, either of which can be -1. */
static kiln_status read_files(int older, int newer, kilni_journal_reader *reader)
{
    unsigned char *buffer = malloc(READ_BYTES);
    if (!buffer) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = older < 0 ? KILN_OK : read_records(older, buffer, reader);
    if (status == KILN_OK && newer >= 0) {
        status = read_records(newer, buffer, reader);
    }
    free(buffer);
    return status;
}

/* The present file is opened first. If it becomes the file before in the meantime, it is opened
 * twice, and read once. */
static kiln_status open_both(int directory, const char *path, const char *before, int *ret_newer,
                             int *ret_older)
{
    struct stat newer = {0}, older;
    kiln_status status = open_private(directory, path, O_RDONLY, ret_newer, &newer);
    if ((status != KILN_OK && status != KILN_MISS) || !before) {
        return status;
    }
    const kiln_status second = open_private(directory, before, O_RDONLY, ret_older, &older);
    if (second == KILN_OK && status == KILN_OK && newer.st_ino == older.st_ino &&
        newer.st_dev == older.st_dev) {
        kilni_file_close(ret_older);
    }
    return second == KILN_MISS ? status : second;
}

kiln_status kilni_journal_read(int directory, const char *path, const char *before,
                               kiln_journal_fn visit, void *user, kiln_journal_report *ret_report)
{
    int newer = -1, older = -1;
    kilni_journal_reader reader = {.visit = visit, .user = user};
    kiln_status status = open_both(directory, path, before, &newer, &older);
    if (status == KILN_OK) {
        status = read_files(older, newer, &reader);
    }
    kilni_file_close(&newer);
    kilni_file_close(&older);
    if (status == KILN_OK && ret_report) {
        kilni_sized_struct_copy_out(ret_report, &reader.report, sizeof reader.report);
    }
    return status;
}

kiln_status kiln_journal_read_file(const char *path, kiln_journal_fn visit, void *user,
                                   kiln_journal_report *ret_report)
{
    if (!path || path[0] != '/' || !visit ||
        (ret_report && !kilni_sized_struct_is_valid(ret_report))) {
        return KILN_E_INVALID;
    }
    const kiln_status status = kilni_journal_read(AT_FDCWD, path, NULL, visit, user, ret_report);
    return status == KILN_E_READONLY || status == KILN_E_FULL ? KILN_E_IO : status;
}
