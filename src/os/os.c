/* SPDX-License-Identifier: Apache-2.0 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static int system_duplicate(int file, int least)
{
    return fcntl(file, F_DUPFD_CLOEXEC, least);
}

static int system_duplicate_over(int file, int number)
{
    return dup3(file, number, O_CLOEXEC);
}

static int system_fchmod(int file, mode_t mode)
{
    int result = fchmod(file, mode);
    if (result == 0 || errno != EBADF) {
        return result;
    }
    char path[sizeof "/proc/self/fd/" + 3 * sizeof file];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return chmod(path, mode);
}

static int system_openat(int directory, const char *path, int flags, mode_t mode)
{
    const int file = openat(directory, path, flags, mode);
    if (file < 0 || file > STDERR_FILENO) {
        return file;
    }
    const int moved = system_duplicate(file, STDERR_FILENO + 1);
    const int error = errno;
    close(file);
    errno = error;
    return moved;
}

static int system_lock(int file, short type, off_t offset, off_t size)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = size};
    return fcntl(file, F_OFD_SETLK, &range);
}

static int system_membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

static const kilni_os_table system_table = {
    .openat = system_openat,
    .duplicate = system_duplicate,
    .duplicate_over = system_duplicate_over,
    .close = close,
    .read = read,
    .pread = pread,
    .write = write,
    .pwrite = pwrite,
    .fstat = fstat,
    .fstatat = fstatat,
    .renameat = renameat,
    .linkat = linkat,
    .unlinkat = unlinkat,
    .mkdirat = mkdirat,
    .fchmod = system_fchmod,
    .readlinkat = readlinkat,
    .futimens = futimens,
    .fdatasync = fdatasync,
    .ftruncate = ftruncate,
    .lock = system_lock,
    .fdopendir = fdopendir,
    .readdir = readdir,
    .seekdir = seekdir,
    .closedir = closedir,
    .clock_gettime = clock_gettime,
    .nanosleep = nanosleep,
    .getrandom = getrandom,
    .geteuid = geteuid,
    .membarrier = system_membarrier,
};

/* Written by tests only, while no other thread is in Kiln. */
static const kilni_os_table *table_in_force = &system_table;

const kilni_os_table *kilni_os(void)
{
    return table_in_force;
}

const kilni_os_table *kilni_os_system(void)
{
    return &system_table;
}

void kilni_os_replace(const kilni_os_table *table)
{
    table_in_force = table ? table : &system_table;
}
