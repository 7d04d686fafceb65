/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes temporaries. A temporary is a file that a writer fills and then renames, so that readers
 * see either a complete file or none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "os/file.h"
#include "os/os.h"
#include "store/dir/dir.h"

#define NAME_TRIES 4

/* Sets @ret_number to the next number. The numbers of a process are consecutive, and the first one
 * is random. Another process, such as a forked child, might use the same numbers. If a process
 * finds that a file already has its number (@is_taken), it continues with a new random number.
 * Every access is relaxed, because only the counter's own value matters. */
static bool next_number(bool is_taken, uint64_t *ret_number)
{
    static _Atomic uint64_t next; /* 0: not yet initialized */
    uint64_t number = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    if (number == 0 || is_taken) {
        if (kilni_os()->getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
            atomic_store_explicit(&next, 0, memory_order_relaxed);
            return false;
        }
        atomic_store_explicit(&next, number + 1, memory_order_relaxed);
    }
    *ret_number = number;
    return true;
}

static kiln_status create_temporary(int directory, const char *folder, char *path, size_t size,
                                    int *ret_file)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number;
        if (!next_number(i > 0, &number)) {
            return KILN_E_IO;
        }
        if (!kilni_dir_temporary_path(folder, number, path, size)) {
            return KILN_E_IO;
        }
        int file = kilni_os()->openat(directory, path,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0) {
            *ret_file = file;
            return KILN_OK;
        }
        if (errno != EEXIST) {
            return kilni_dir_write_status(errno);
        }
    }
    return KILN_E_IO;
}

/* Writes and closes a temporary. */
static kiln_status fill_temporary(const kilni_dir *dir, int file, kiln_bytes bytes,
                                  uint64_t *ret_disk_bytes)
{
    /* The lock shows that the writer is still running. On file systems without locks, leftovers are
     * recognized only by their age. */
    kilni_os()->lock(file, F_WRLCK, 0, 0);
    kiln_status status = kilni_file_write(file, bytes.data, bytes.size);
    bool is_synced = dir->store.options.flags & KILN_STORE_SYNC;
    if (status == KILN_OK && is_synced && kilni_os()->fdatasync(file) != 0) {
        status = kilni_dir_write_status(errno);
    }
    struct stat stat;
    if (status == KILN_OK && kilni_os()->fstat(file, &stat) != 0) {
        status = kilni_dir_write_status(errno);
    }
    if (status == KILN_OK) {
        kilni_file_ensure_known_mode(file, &stat, 0600);
    }
    /* Some network file systems report a failed write only now. */
    if (kilni_os()->close(file) != 0 && status == KILN_OK) {
        status = kilni_dir_write_status(errno);
    }
    if (status == KILN_OK) {
        *ret_disk_bytes = kilni_dir_disk_bytes(&stat);
    }
    return status;
}

kiln_status kilni_dir_write_temporary(const kilni_dir *dir, int directory, const char *folder,
                                      kiln_bytes bytes, char *path, size_t size,
                                      uint64_t *ret_disk_bytes)
{
    int file = -1;
    kiln_status status = create_temporary(directory, folder, path, size, &file);
    if (status != KILN_OK) {
        return status;
    }
    status = fill_temporary(dir, file, bytes, ret_disk_bytes);
    if (status != KILN_OK) {
        kilni_os()->unlinkat(directory, path, 0);
    }
    return status;
}

kiln_status kilni_dir_publish_temporary(int directory, const char *path, const char *name)
{
    if (kilni_os()->renameat(directory, path, directory, name) == 0) {
        return KILN_OK;
    }
    const kiln_status status = kilni_dir_write_status(errno);
    kilni_os()->unlinkat(directory, path, 0);
    return status;
}
