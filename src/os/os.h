/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of system calls. Kiln uses it for files, clocks, random bytes, memory barriers and
 * signals, but not for sockets, processes and libraries. Tests can replace the table. For example,
 * the fault tests make the n-th call of each kind fail, and count the calls.
 *
 * Each slot behaves like its system call: on failure, it returns -1 and sets errno. A call looks
 * like kilni_os()->read(…). The slots do not repeat a call that a signal interrupts or that
 * transfers too little. The functions of os/file.h do.
 */
#pragma once

#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

typedef struct kilni_os_table {
    /* Never returns 0, 1 or 2. If a program runs with these descriptors closed, what it writes to
     * them must not end up in one of Kiln's files. */
    int (*openat)(int directory, const char *path, int flags, mode_t mode);
    /* openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, for an existing file or folder: ELOOP
     * if any component is a symbolic link; ENOSYS or EPERM if the kernel or a sandbox refuses the
     * call itself. Never returns 0, 1 or 2. */
    int (*open_below)(int directory, const char *path, int flags);
    /* Does the same as open_below, but also with RESOLVE_NO_XDEV: EXDEV if a component is a mount
     * point. */
    int (*open_within)(int directory, const char *path, int flags);
    /* F_DUPFD_CLOEXEC: returns a duplicate numbered @least or higher. */
    int (*duplicate)(int file, int least);
    /* dup3 with O_CLOEXEC: @number switches to the new file atomically. It is never closed in
     * between. */
    int (*duplicate_over)(int file, int number);
    int (*close)(int file);
    ssize_t (*read)(int file, void *buffer, size_t size);
    ssize_t (*pread)(int file, void *buffer, size_t size, off_t offset);
    ssize_t (*write)(int file, const void *buffer, size_t size);
    ssize_t (*pwrite)(int file, const void *buffer, size_t size, off_t offset);
    int (*fstat)(int file, struct stat *ret_stat);
    int (*fstatat)(int directory, const char *path, struct stat *ret_stat, int flags);
    int (*renameat)(int from, const char *old_path, int to, const char *new_path);
    /* renameat2 with RENAME_NOREPLACE: EEXIST if @new_path exists; EINVAL or ENOSYS if the file
     * system or the kernel does not support this. */
    int (*rename_new)(int from, const char *old_path, int to, const char *new_path);
    int (*linkat)(int from, const char *old_path, int to, const char *new_path, int flags);
    int (*unlinkat)(int directory, const char *path, int flags);
    int (*mkdirat)(int directory, const char *path, mode_t mode);
    /* Also works on a descriptor opened with O_PATH. */
    int (*fchmod)(int file, mode_t mode);
    ssize_t (*readlinkat)(int directory, const char *path, char *buffer, size_t size);
    int (*futimens)(int file, const struct timespec times[2]);
    int (*fdatasync)(int file);
    int (*ftruncate)(int file, off_t size);
    /* F_OFD_SETLK on the byte range; type is F_RDLCK, F_WRLCK or F_UNLCK. */
    int (*lock)(int file, short type, off_t offset, off_t size);
    DIR *(*fdopendir)(int file);
    struct dirent *(*readdir)(DIR *directory);
    /* Moves to the position that is in the d_off of an entry. The next entry is at this position.
     */
    void (*seekdir)(DIR *directory, long position);
    int (*closedir)(DIR *directory);
    int (*clock_gettime)(clockid_t clock, struct timespec *ret_time);
    int (*nanosleep)(const struct timespec *duration, struct timespec *remaining);
    ssize_t (*getrandom)(void *buffer, size_t size, unsigned flags);
    uid_t (*geteuid)(void);
    int (*membarrier)(int command);
    /* pthread_sigmask, with the error in errno. */
    int (*mask_signals)(int how, const sigset_t *set, sigset_t *ret_before);
    int (*sigpending)(sigset_t *ret_set);
    int (*sigtimedwait)(const sigset_t *set, siginfo_t *ret_info, const struct timespec *timeout);
    /* Sends a signal to the calling thread. */
    int (*queue_signal)(siginfo_t *info);
} kilni_os_table;

/* Returns the table in use. */
const kilni_os_table *kilni_os(void);

/* Returns the system's own table, for tests to copy and change. */
const kilni_os_table *kilni_os_system(void);

/* Replaces the table in use; if @table is NULL, restores the system's own. Only tests call it,
 * while no other thread is in Kiln. */
void kilni_os_replace(const kilni_os_table *table);
