/* SPDX-License-Identifier: Apache-2.0 */
#include "os/owned_file.h"

#include <errno.h>

#include "os/os.h"

/* Kiln's descriptors get this number or a higher one, if the process may have so many. A new
 * process has a table of 64 descriptors. When a process needs a larger one, Linux makes the thread
 * wait for milliseconds until no other thread can still be using the old table (RCU). */
#define MIN_NUMBER 48

kiln_status kilni_owned_file_take(int file, kilni_owned_file *ret_owned)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) != 0) {
        return KILN_E_IO;
    }
    *ret_owned = (kilni_owned_file){.file = file, .device = stat.st_dev, .inode = stat.st_ino};
    kilni_owned_file_move_up(ret_owned);
    return KILN_OK;
}

void kilni_owned_file_move_up(kilni_owned_file *owned)
{
    const int moved = kilni_os()->duplicate(owned->file, MIN_NUMBER);
    if (moved >= 0) {
        kilni_os()->close(owned->file);
        owned->file = moved;
    }
}

kiln_status kilni_owned_file_replace(const kilni_owned_file *owned, int file,
                                     kilni_owned_file *ret_owned)
{
    struct stat stat;
    if (!kilni_owned_file_is_intact(owned)) {
        return kilni_owned_file_take(file, ret_owned);
    }
    if (kilni_os()->fstat(file, &stat) != 0 || kilni_os()->duplicate_over(file, owned->file) < 0) {
        return KILN_E_IO;
    }
    kilni_os()->close(file);
    *ret_owned =
        (kilni_owned_file){.file = owned->file, .device = stat.st_dev, .inode = stat.st_ino};
    return KILN_OK;
}

bool kilni_owned_file_is_intact(const kilni_owned_file *owned)
{
    struct stat stat;
    if (owned->file < 0) {
        return false;
    }
    /* A file system that fails to answer does not mean that the number belongs to a different
     * file. */
    if (kilni_os()->fstat(owned->file, &stat) != 0) {
        return errno != EBADF;
    }
    return stat.st_dev == owned->device && stat.st_ino == owned->inode;
}

void kilni_owned_file_close(kilni_owned_file *owned)
{
    if (kilni_owned_file_is_intact(owned)) {
        kilni_os()->close(owned->file);
    }
    owned->file = -1;
}
