/* SPDX-License-Identifier: Apache-2.0 */
#include "store/missed.h"

#include <fcntl.h>
#include <stdlib.h>

#include "entry/entry.h"
#include "os/file.h"
#include "os/os.h"
#include "store/lock.h"

/* So long a reader waits for who writes; what it reads then is as the checksum says. */
#define READ_WAIT_NS UINT64_C(100000000)

static kiln_status replace_content(int file, kiln_bytes bytes)
{
    kiln_status status = kilni_file_write_at(file, bytes.data, bytes.size, 0);
    if (status == KILN_OK && kilni_os()->ftruncate(file, (off_t)bytes.size) != 0) {
        status = KILN_E_IO;
    }
    return status;
}

kiln_status kilni_missed_write(int directory, const char *path, const kiln_entry *entry)
{
    kilni_lock lock;
    kiln_status status = kilni_lock_open(directory, path, O_RDWR | O_CREAT, &lock);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_lock_take(&lock, F_WRLCK, 0, 0, 0);
    /* Without locks two may write at once; the checksum tells. */
    if (status == KILN_OK || status == KILN_E_UNSUPPORTED) {
        status = replace_content(lock.held.file, kiln_entry_encoding(entry));
    }
    kilni_lock_close(&lock);
    return status;
}

static kiln_status read_content(int file, kiln_entry **ret_entry)
{
    unsigned char *bytes = malloc(KILNI_MISSED_MAX_BYTES);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    size_t count = 0;
    kiln_status status = kilni_file_read_at(file, bytes, KILNI_MISSED_MAX_BYTES, 0, &count);
    if (status == KILN_OK) {
        status = kilni_entry_adopt(bytes, count, ret_entry);
    }
    if (status != KILN_OK) {
        free(bytes);
    }
    return status;
}

kiln_status kilni_missed_read(int directory, const char *path, kiln_entry **ret_entry)
{
    kilni_lock lock;
    kiln_status status = kilni_lock_open(directory, path, O_RDONLY, &lock);
    if (status != KILN_OK) {
        return status;
    }
    kilni_lock_take(&lock, F_RDLCK, 0, 0, READ_WAIT_NS);
    status = read_content(lock.held.file, ret_entry);
    kilni_lock_close(&lock);
    return status;
}
