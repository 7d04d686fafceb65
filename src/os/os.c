/* SPDX-License-Identifier: Apache-2.0 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
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

enum { STANDARD_COUNT = STDERR_FILENO + 1 };

static bool is_open(int number)
{
    return fcntl(number, F_GETFD) >= 0;
}

/* Checks the three descriptors with one call, because this happens for nearly every file that is
 * opened for writing. */
static bool are_standard_numbers_open(void)
{
    struct pollfd standard[STANDARD_COUNT] = {
        {.fd = STDIN_FILENO}, {.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};
    if (poll(standard, STANDARD_COUNT, 0) < 0) {
        return is_open(STDIN_FILENO) && is_open(STDOUT_FILENO) && is_open(STDERR_FILENO);
    }
    for (int i = 0; i < STANDARD_COUNT; i++) {
        if (standard[i].revents & POLLNVAL) {
            return false;
        }
    }
    return true;
}

/* Opens a filler on each of the descriptors 0, 1 and 2 that is free, and returns the number of
 * fillers. A program that was started without these descriptors might still write to them, and such
 * writes must not reach one of Kiln's files. A filler cannot be written to. */
static int fill_standard_numbers(int *ret_fillers)
{
    int count = 0;
    while (!are_standard_numbers_open()) {
        const int filler = open("/", O_PATH | O_CLOEXEC);
        if (filler < 0) {
            break;
        }
        if (filler > STDERR_FILENO || count == STANDARD_COUNT) {
            close(filler);
            break;
        }
        ret_fillers[count++] = filler;
    }
    return count;
}

/* Closes the fillers. If another thread has meanwhile closed one and opened a file under its
 * number, that file stays open. */
static void free_standard_numbers(const int *fillers, int count)
{
    for (int i = 0; i < count; i++) {
        const int flags = fcntl(fillers[i], F_GETFL);
        if (flags >= 0 && (flags & O_PATH)) {
            close(fillers[i]);
        }
    }
}

/* Moves a descriptor that is 0, 1 or 2 to a higher number. A new descriptor can have one of these
 * numbers even after they were filled, because another thread might have closed a filler. */
static int move_up(int file)
{
    if (file < 0 || file > STDERR_FILENO) {
        return file;
    }
    const int moved = system_duplicate(file, STDERR_FILENO + 1);
    const int error = errno;
    close(file);
    errno = error;
    return moved;
}

static int system_openat(int directory, const char *path, int flags, mode_t mode)
{
    if ((flags & O_ACCMODE) == O_RDONLY) {
        return move_up(openat(directory, path, flags, mode));
    }
    int fillers[STANDARD_COUNT];
    const int count = fill_standard_numbers(fillers);
    const int file = move_up(openat(directory, path, flags, mode));
    const int error = errno;
    free_standard_numbers(fillers, count);
    errno = error;
    return file;
}

static int open_resolved(int directory, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)flags, .resolve = resolve};
    return move_up((int)syscall(SYS_openat2, directory, path, &how, sizeof how));
}

static int system_open_below(int directory, const char *path, int flags)
{
    return open_resolved(directory, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int system_open_within(int directory, const char *path, int flags)
{
    return open_resolved(directory, path, flags,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

static int system_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    return renameat2(from, old_path, to, new_path, RENAME_NOREPLACE);
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

static int system_mask_signals(int how, const sigset_t *set, sigset_t *ret_before)
{
    const int error = pthread_sigmask(how, set, ret_before);
    errno = error;
    return error == 0 ? 0 : -1;
}

static int system_queue_signal(siginfo_t *info)
{
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), info->si_signo, info);
}

static const kilni_os_table system_table = {
    .openat = system_openat,
    .open_below = system_open_below,
    .open_within = system_open_within,
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
    .rename_new = system_rename_new,
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
    .mask_signals = system_mask_signals,
    .sigpending = sigpending,
    .sigtimedwait = sigtimedwait,
    .queue_signal = system_queue_signal,
};

/* Written only by tests, while no other thread is in Kiln. */
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
