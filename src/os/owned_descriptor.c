/* SPDX-License-Identifier: Apache-2.0 */
#include "os/owned_descriptor.h"

#include <errno.h>

#include "os/os.h"

/* Kiln's descriptors get at least this number, if the limit of the process allows it. The number is
 * less than 64 because a new process has a table of 64 descriptors. When a process needs a larger
 * table, Linux makes the thread wait until no other thread can still be using the old table (RCU).
 * This takes milliseconds. */
#define MIN_NUMBER 48

kiln_status kilni_owned_descriptor_take(int file, kilni_owned_descriptor *ret_owned)
{
    struct stat stat;
    if (kilni_os()->fstat(file, &stat) != 0) {
        return KILN_E_IO;
    }
    *ret_owned =
        (kilni_owned_descriptor){.file = file, .device = stat.st_dev, .inode = stat.st_ino};
    kilni_owned_descriptor_move_up(ret_owned);
    return KILN_OK;
}

void kilni_owned_descriptor_move_up(kilni_owned_descriptor *owned)
{
    const int moved = kilni_os()->duplicate(owned->file, MIN_NUMBER);
    if (moved >= 0) {
        kilni_os()->close(owned->file);
        owned->file = moved;
    }
}

kiln_status kilni_owned_descriptor_replace(const kilni_owned_descriptor *owned, int file,
                                           kilni_owned_descriptor *ret_owned)
{
    struct stat stat;
    if (!kilni_owned_descriptor_is_intact(owned)) {
        return kilni_owned_descriptor_take(file, ret_owned);
    }
    if (kilni_os()->fstat(file, &stat) != 0 || kilni_os()->duplicate_over(file, owned->file) < 0) {
        return KILN_E_IO;
    }
    kilni_os()->close(file);
    *ret_owned =
        (kilni_owned_descriptor){.file = owned->file, .device = stat.st_dev, .inode = stat.st_ino};
    return KILN_OK;
}

bool kilni_owned_descriptor_is_intact(const kilni_owned_descriptor *owned)
{
    struct stat stat;
    if (owned->file < 0) {
        return false;
    }
    /* An error of the file system does not mean that the number belongs to a different file. */
    if (kilni_os()->fstat(owned->file, &stat) != 0) {
        return errno != EBADF;
    }
    return stat.st_dev == owned->device && stat.st_ino == owned->inode;
}

void kilni_owned_descriptor_close(kilni_owned_descriptor *owned)
{
    if (kilni_owned_descriptor_is_intact(owned)) {
        kilni_os()->close(owned->file);
    }
    owned->file = -1;
}
