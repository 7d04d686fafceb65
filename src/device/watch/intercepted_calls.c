/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/intercepted_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "device/watch/compilation.h"
#include "device/watch/file_stream.h"

static void note_read(const char *path)
{
    kilni_compilation_report(kilni_reads_note, path);
}

static void note_unsupported(const char *why)
{
    kilni_compilation_report(kilni_reads_fail, why);
}

/* ---- the replacements ---- */

static void changes(const char *path)
{
    kilni_compilation_report(kilni_reads_note_change, path);
}

static void note_open(int folder, const char *path, int flags)
{
    const int is_relative = folder != AT_FDCWD && path && *path != '/';
    if (is_relative) {
        note_unsupported("a file is opened by a call that cannot be checked");
    } else if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC))) {
        changes(path);
    } else {
        kilni_compilation_report(kilni_reads_note_opened, path);
    }
}

static int has_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

static int observed_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = has_mode(flags) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    note_open(AT_FDCWD, path, flags);
    return open(path, flags, mode);
}

static int observed_openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = has_mode(flags) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    note_open(folder, path, flags);
    return openat(folder, path, flags, mode);
}

/* Opens an ordinary stream. */
static FILE *open_plain(const char *path, const char *mode)
{
    note_read(path);
    return fopen(path, mode);
}

/* Returns a stream for a descriptor. On failure, closes the descriptor and returns NULL. */
static FILE *stream_of(int file, const char *mode)
{
    FILE *stream = fdopen(file, mode);
    if (!stream) {
        const int error = errno;
        close(file);
        errno = error;
    }
    return stream;
}

/* Opens a stream with a copy of the file, so that Kiln need not read the file once more to know
 * what the compiler reads. Only a regular file or a folder may be opened a second time. */
static FILE *open_copy(const char *path, const char *mode)
{
    kilni_seen seen = {.path = path};
    struct stat facts;
    const int file = open(path, O_RDONLY | (strchr(mode, 'e') ? O_CLOEXEC : 0));
    if (file < 0) {
        seen.error = errno;
        kilni_compilation_report_seen(&seen);
        return NULL;
    }
    if (fstat(file, &facts) != 0 || (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode))) {
        note_unsupported("a path that cannot be read, or is neither a file nor a folder");
        return stream_of(file, mode);
    }
    FILE *stream = S_ISREG(facts.st_mode)
                       ? kilni_file_stream_open(file, path, mode, &facts, &seen.bytes)
                       : NULL;
    if (!stream) {
        close(file);
        return open_plain(path, mode);
    }
    seen.facts = &facts;
    kilni_compilation_report_seen(&seen);
    return stream;
}

/* A stream with a copy has no lock. So only a thread with a compilation of its own gets one: no
 * other thread uses its streams. The threads that a compiler starts might share a stream. A comma
 * in the mode begins the name of a character set, from which the C library decodes the file. */
static FILE *observed_fopen(const char *path, const char *mode)
{
    if (strpbrk(mode, "wa+")) {
        changes(path);
        return fopen(path, mode);
    }
    const int can_copy = kilni_compilation_is_own() && *mode == 'r' && !strchr(mode, ',');
    return can_copy ? open_copy(path, mode) : open_plain(path, mode);
}

/* ---- calls that take a stream, or the descriptor of a stream ---- */

static int observed_fileno(FILE *file)
{
    const int descriptor = fileno(file);
    return descriptor >= 0 ? descriptor : kilni_file_stream_descriptor(file);
}

/* Kiln knows what the compiler reads through a stream with a copy, but not what it reads in other
 * ways. */
static void note_descriptor(int file)
{
    const char *path = kilni_file_stream_path(file);
    if (path) {
        kilni_compilation_report(kilni_reads_note_unseen, path);
    }
}

static void note_offset(int file)
{
    note_descriptor(file);
    if (!kilni_file_stream_drop_copy(file)) {
        note_unsupported("a file is read both through its stream and its descriptor");
    }
}

static ssize_t observed_read(int file, void *bytes, size_t size)
{
    note_offset(file);
    return read(file, bytes, size);
}

static ssize_t observed_pread(int file, void *bytes, size_t size, off_t offset)
{
    note_descriptor(file);
    return pread(file, bytes, size, offset);
}

static void *observed_mmap(void *address, size_t size, int protection, int flags, int file,
                           off_t offset)
{
    if (!(flags & MAP_ANONYMOUS)) {
        note_descriptor(file);
    }
    return mmap(address, size, protection, flags, file, offset);
}

static off_t observed_lseek(int file, off_t offset, int from)
{
    note_offset(file);
    return lseek(file, offset, from);
}

static int observed_dup(int file)
{
    note_offset(file);
    return dup(file);
}

/* A stream with a copy does not notice that its descriptor is replaced. */
static void note_duplicate(int file, int to)
{
    note_offset(file);
    if (kilni_file_stream_path(to)) {
        note_unsupported("the descriptor of a stream is replaced");
    }
}

static int observed_dup2(int file, int to)
{
    note_duplicate(file, to);
    return dup2(file, to);
}

static int observed_dup3(int file, int to, int flags)
{
    note_duplicate(file, to);
    return dup3(file, to, flags);
}

static int observed_fcntl(int file, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    note_offset(file);
    return fcntl(file, command, argument);
}

static int observed_ioctl(int file, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    note_offset(file);
    return ioctl(file, request, argument);
}

static FILE *observed_fdopen(int file, const char *mode)
{
    note_offset(file);
    return fdopen(file, mode);
}

static int observed_fstat(int file, struct stat *facts)
{
    const int result = fstat(file, facts);
    const char *path = kilni_file_stream_path(file);
    if (path && (result != 0 || !kilni_file_stream_is_same(file, facts))) {
        kilni_compilation_report(kilni_reads_note_contradiction, path);
    }
    return result;
}

/* Before version 2.33, the C library's headers implemented fstat with this function. */
static int observed_fxstat(int version, int file, struct stat *facts)
{
    (void)version;
    return observed_fstat(file, facts);
}

/* Returns 1 if the C library's function must not be called, because it would crash. */
static int is_copy(const FILE *file)
{
    const int is = kilni_file_stream_descriptor(file) >= 0;
    if (is) {
        note_unsupported("a stream is reopened, or read as wide characters");
        errno = EBADF;
    }
    return is;
}

static FILE *observed_freopen(const char *path, const char *mode, FILE *file)
{
    note_unsupported("a stream is reopened");
    return is_copy(file) ? NULL : freopen(path, mode, file);
}

static wint_t observed_getwc(FILE *file)
{
    return is_copy(file) ? WEOF : getwc(file);
}

static wint_t observed_ungetwc(wint_t character, FILE *file)
{
    return is_copy(file) ? WEOF : ungetwc(character, file);
}

/* ---- more replacements ---- */

static int observed_stat(const char *path, struct stat *facts)
{
    const int result = stat(path, facts);
    kilni_compilation_report_seen(
        &(kilni_seen){.path = path, .facts = result == 0 ? facts : NULL, .error = errno});
    return result;
}

static int observed_lstat(const char *path, struct stat *facts)
{
    kilni_compilation_report(kilni_reads_note_query, path);
    kilni_compilation_report(kilni_reads_note_link, path);
    return lstat(path, facts);
}

/* Before version 2.33, the C library's headers implemented stat and lstat with these functions. */
static int observed_xstat(int version, const char *path, struct stat *facts)
{
    (void)version;
    return observed_stat(path, facts);
}

static int observed_lxstat(int version, const char *path, struct stat *facts)
{
    (void)version;
    return observed_lstat(path, facts);
}

static int observed_access(const char *path, int mode)
{
    kilni_compilation_report(kilni_reads_note_query, path);
    return access(path, mode);
}

static int observed_statfs(const char *path, struct statfs *facts)
{
    note_read(path);
    return statfs(path, facts);
}

/* Links in /proc/self/fd contain the real paths of open files. Compilers read these links for files
 * that they have opened. kilni_reads_note_opened has already recorded the real names of these
 * files. */
static ssize_t observed_readlink(const char *path, char *buffer, size_t size)
{
    static const char descriptors[] = "/proc/self/fd/";
    if (strncmp(path, descriptors, sizeof descriptors - 1) != 0) {
        kilni_compilation_report(kilni_reads_note_link, path);
    }
    return readlink(path, buffer, size);
}

static char *observed_realpath(const char *path, char *resolved)
{
    kilni_compilation_report(kilni_reads_note_real_path, path);
    return realpath(path, resolved);
}

static DIR *observed_opendir(const char *path)
{
    kilni_compilation_report(kilni_reads_note_listing, path);
    return opendir(path);
}

static int observed_mkdir(const char *path, mode_t mode)
{
    const int result = mkdir(path, mode);
    kilni_compilation_report(result == 0 ? kilni_reads_note_made : kilni_reads_note_change, path);
    return result;
}

static int observed_unlink(const char *path)
{
    changes(path);
    return unlink(path);
}

static int observed_rmdir(const char *path)
{
    changes(path);
    return rmdir(path);
}

static int observed_remove(const char *path)
{
    changes(path);
    return remove(path);
}

static int observed_link(const char *from, const char *to)
{
    note_unsupported("a hard link is created");
    return link(from, to);
}

static int observed_symlink(const char *target, const char *path)
{
    note_unsupported("a symbolic link is created");
    return symlink(target, path);
}

/* The name is not known before the call. */
static int observed_mkstemp(char *path)
{
    note_unsupported("a temporary file is made");
    return mkstemp(path);
}

/* Relative paths have a different meaning after this call. */
static int observed_chdir(const char *path)
{
    note_unsupported("the working directory changes");
    return chdir(path);
}

static int observed_rename(const char *from, const char *to)
{
    changes(from);
    changes(to);
    return rename(from, to);
}

static pid_t observed_fork(void)
{
    note_unsupported("a process is started");
    return fork();
}

static int observed_system(const char *command)
{
    note_unsupported("a process is started");
    return system(command); /* NOLINT: the compiler's own call */
}

static int observed_posix_spawn(pid_t *process, const char *path,
                                const posix_spawn_file_actions_t *actions,
                                const posix_spawnattr_t *attributes, char *const arguments[],
                                char *const environment[])
{
    note_unsupported("a process is started");
    return posix_spawn(process, path, actions, attributes, arguments, environment);
}

static FILE *observed_popen(const char *command, const char *mode)
{
    note_unsupported("a process is started");
    return popen(command, mode); /* NOLINT: the compiler's own call */
}

/* The handlers that the compilers have installed, or found when they saved all handlers; NULL:
 * none. Relaxed: a signal handler reads what its own thread has written. */
static _Atomic(sighandler_t) handlers[NSIG];
static atomic_bool is_saved[NSIG];

/* A handler of LLVM's is removed when its signal arrives. */
static bool has_signal_arrived(void)
{
    bool has = false;
    for (int number = 1; number < NSIG && !has; number++) {
        const sighandler_t handler = atomic_load_explicit(&handlers[number], memory_order_relaxed);
        struct sigaction now;
        has = handler && sigaction(number, NULL, &now) == 0 && now.sa_handler != handler;
    }
    return has;
}

static void see_handler(int number, const struct sigaction *action)
{
    const bool is_function = action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
    atomic_store_explicit(&handlers[number], is_function ? action->sa_handler : NULL,
                          memory_order_relaxed);
}

/* LLVM's signal handlers restore the earlier handlers, and then remove temporary files. Every other
 * call of LLVM that sets a handler also asks for the present handler. So a call that does not ask
 * for it shows that a signal handler is running. But comgr saves all handlers before a compilation,
 * and restores them afterwards. */
static int observed_sigaction(int number, const struct sigaction *action,
                              struct sigaction *ret_before)
{
    const bool is_signal = number > 0 && number < NSIG;
    const bool restores = action && !ret_before;
    if (restores &&
        (!is_signal || !atomic_exchange_explicit(&is_saved[number], false, memory_order_relaxed) ||
         has_signal_arrived())) {
        kilni_compilation_interrupt();
    }
    const int result = sigaction(number, action, ret_before);
    if (result == 0 && is_signal && (action || ret_before)) {
        see_handler(number, restores ? &(struct sigaction){0} : action ? action : ret_before);
        if (!action) {
            atomic_store_explicit(&is_saved[number], true, memory_order_relaxed);
        }
    }
    return result;
}

/* Returns 1 for system calls that only concern threads. Such calls read nothing. */
static int is_about_threads(long number)
{
    return number == SYS_futex || number == SYS_gettid || number == SYS_sched_getaffinity ||
           number == SYS_getcpu || number == SYS_membarrier;
}

static long observed_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (!is_about_threads(number)) {
        note_unsupported("a system call is made directly");
    }
    return syscall(number, a, b, c, d, e, f);
}

/* ---- the functions ---- */

typedef struct replacement {
    const char *name;
    void *function;
} replacement;

static const replacement observed[] = {
    {"open", (void *)observed_open},
    {"open64", (void *)observed_open},
    {"openat", (void *)observed_openat},
    {"openat64", (void *)observed_openat},
    {"fopen", (void *)observed_fopen},
    {"fopen64", (void *)observed_fopen},
    {"freopen", (void *)observed_freopen},
    {"freopen64", (void *)observed_freopen},
    {"stat", (void *)observed_stat},
    {"stat64", (void *)observed_stat},
    {"lstat", (void *)observed_lstat},
    {"lstat64", (void *)observed_lstat},
    {"__xstat", (void *)observed_xstat},
    {"__xstat64", (void *)observed_xstat},
    {"__lxstat", (void *)observed_lxstat},
    {"__lxstat64", (void *)observed_lxstat},
    {"access", (void *)observed_access},
    {"statfs", (void *)observed_statfs},
    {"statfs64", (void *)observed_statfs},
    {"readlink", (void *)observed_readlink},
    {"realpath", (void *)observed_realpath},
    {"opendir", (void *)observed_opendir},
    {"mkdir", (void *)observed_mkdir},
    {"unlink", (void *)observed_unlink},
    {"rename", (void *)observed_rename},
    {"rmdir", (void *)observed_rmdir},
    {"remove", (void *)observed_remove},
    {"link", (void *)observed_link},
    {"mkstemp", (void *)observed_mkstemp},
    {"mkstemp64", (void *)observed_mkstemp},
    {"symlink", (void *)observed_symlink},
    {"chdir", (void *)observed_chdir},
    {"fork", (void *)observed_fork},
    {"system", (void *)observed_system},
    {"posix_spawn", (void *)observed_posix_spawn},
    {"popen", (void *)observed_popen},
    {"sigaction", (void *)observed_sigaction},
    {"syscall", (void *)observed_syscall},
};

/* These functions matter only to a library that opens streams. */
static const replacement observed_for_streams[] = {
    {"fileno", (void *)observed_fileno},   {"fileno_unlocked", (void *)observed_fileno},
    {"read", (void *)observed_read},       {"pread", (void *)observed_pread},
    {"pread64", (void *)observed_pread},   {"mmap", (void *)observed_mmap},
    {"mmap64", (void *)observed_mmap},     {"lseek", (void *)observed_lseek},
    {"lseek64", (void *)observed_lseek},   {"dup", (void *)observed_dup},
    {"dup2", (void *)observed_dup2},       {"dup3", (void *)observed_dup3},
    {"fcntl", (void *)observed_fcntl},     {"fcntl64", (void *)observed_fcntl},
    {"ioctl", (void *)observed_ioctl},     {"fdopen", (void *)observed_fdopen},
    {"fstat", (void *)observed_fstat},     {"fstat64", (void *)observed_fstat},
    {"__fxstat", (void *)observed_fxstat}, {"__fxstat64", (void *)observed_fxstat},
    {"getwc", (void *)observed_getwc},     {"ungetwc", (void *)observed_ungetwc},
};

/* Functions with which a later version of a compiler's library might read files. No known version
 * calls them. */
static const char *const unobserved[] = {"__fxstatat",
                                         "__fxstatat64",
                                         "__open64_2",
                                         "__open_2",
                                         "__openat64_2",
                                         "__openat_2",
                                         "__readlink_chk",
                                         "__readlinkat_chk",
                                         "__realpath_chk",
                                         "canonicalize_file_name",
                                         "creat",
                                         "creat64",
                                         "dlmopen",
                                         "eaccess",
                                         "euidaccess",
                                         "faccessat",
                                         "fchdir",
                                         "fdopendir",
                                         "fstatat",
                                         "fstatat64",
                                         "fts64_open",
                                         "fts_open",
                                         "ftw",
                                         "ftw64",
                                         "glob",
                                         "glob64",
                                         "mkdirat",
                                         "mkdtemp",
                                         "mkostemp",
                                         "mkostemp64",
                                         "mkostemps",
                                         "mkostemps64",
                                         "mkstemps",
                                         "mkstemps64",
                                         "nftw",
                                         "nftw64",
                                         "open_by_handle_at",
                                         "openat2",
                                         "posix_spawnp",
                                         "readlinkat",
                                         "renameat",
                                         "renameat2",
                                         "scandir",
                                         "scandir64",
                                         "scandirat",
                                         "scandirat64",
                                         "statvfs",
                                         "statvfs64",
                                         "statx",
                                         "tmpfile",
                                         "tmpfile64",
                                         "unlinkat",
                                         "vfork"};

/* These functions matter only to a library that opens streams. */
static const char *const unobserved_for_streams[] = {"__fgetws_chk",
                                                     "__fgetws_unlocked_chk",
                                                     "__isoc99_fwscanf",
                                                     "__isoc23_fwscanf",
                                                     "__isoc99_vfwscanf",
                                                     "__isoc23_vfwscanf",
                                                     "__pread64_chk",
                                                     "__pread_chk",
                                                     "__read_chk",
                                                     "aio_read",
                                                     "aio_read64",
                                                     "copy_file_range",
                                                     "fgetwc",
                                                     "fgetwc_unlocked",
                                                     "fgetws",
                                                     "fgetws_unlocked",
                                                     "fwide",
                                                     "fwscanf",
                                                     "getwc_unlocked",
                                                     "preadv",
                                                     "preadv2",
                                                     "preadv64",
                                                     "preadv64v2",
                                                     "readv",
                                                     "sendfile",
                                                     "sendfile64",
                                                     "splice",
                                                     "vfwscanf"};

static void *find(const replacement *items, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, items[i].name) == 0) {
            return items[i].function;
        }
    }
    return NULL;
}

static int has_name(const char *const *items, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, items[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

int kilni_call_opens_stream(const char *name)
{
    return strcmp(name, "fopen") == 0 || strcmp(name, "fopen64") == 0;
}

void *kilni_call_find(const char *name, int opens_streams)
{
    void *function = find(observed, sizeof observed / sizeof *observed, name);
    return function || !opens_streams
               ? function
               : find(observed_for_streams,
                      sizeof observed_for_streams / sizeof *observed_for_streams, name);
}

int kilni_call_is_unobserved(const char *name, int opens_streams)
{
    return has_name(unobserved, sizeof unobserved / sizeof *unobserved, name) ||
           (opens_streams &&
            has_name(unobserved_for_streams,
                     sizeof unobserved_for_streams / sizeof *unobserved_for_streams, name));
}
