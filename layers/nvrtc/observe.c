/* SPDX-License-Identifier: Apache-2.0 */
#include "observe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../shared/session.h"
#include "symbols.h"

/* ---- who is told ---- */

/* Guards the list and all reads in it. Not held while NVRTC runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static observation *all_under_way;

/* That of this thread; NULL: it compiles nothing. Looked at without the lock: the first time in
 * each thread may need the loader, as in library.c. */
static _Thread_local observation *own;

void observe_lock(void)
{
    pthread_mutex_lock(&lock);
}

void observe_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void observe_begin(observation *under_way, kilni_nvrtc_reads *reads)
{
    own = under_way;
    pthread_mutex_lock(&lock);
    *under_way = (observation){.reads = reads, .next = all_under_way};
    all_under_way = under_way;
    pthread_mutex_unlock(&lock);
}

void observe_end(observation *under_way)
{
    pthread_mutex_lock(&lock);
    observation **link = &all_under_way;
    while (*link != under_way) {
        link = &(*link)->next;
    }
    *link = under_way->next;
    own = NULL;
    pthread_mutex_unlock(&lock);
}

typedef void note_fn(kilni_nvrtc_reads *reads, const char *text);

/* NVRTC is not to find another errno than the C library left. */
static void tell(note_fn *note, const char *text)
{
    if (session_is_forked()) {
        return;
    }
    const int number = errno;
    const observation *const mine = own;
    pthread_mutex_lock(&lock);
    if (mine) {
        note(mine->reads, text);
    } else {
        for (observation *each = all_under_way; each; each = each->next) {
            note(each->reads, text);
        }
    }
    pthread_mutex_unlock(&lock);
    errno = number;
}

static void looks_at(const char *path)
{
    tell(kilni_nvrtc_reads_note, path);
}

static void spoils(const char *why)
{
    tell(kilni_nvrtc_reads_spoil, why);
}

/* ---- what NVRTC calls ---- */

static int opens(int folder, const char *path, int flags, va_list arguments)
{
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    const int is_relative = folder != AT_FDCWD && path && *path != '/';
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) || is_relative) {
        spoils("a file is written, or opened in a way that can't be followed");
    } else {
        looks_at(path);
    }
    return openat(folder, path, flags, mode);
}

static int observed_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const int file = opens(AT_FDCWD, path, flags, arguments);
    va_end(arguments);
    return file;
}

static int observed_openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const int file = opens(folder, path, flags, arguments);
    va_end(arguments);
    return file;
}

static FILE *observed_fopen(const char *path, const char *mode)
{
    if (strpbrk(mode, "wa+")) {
        spoils("a file is written");
    } else {
        looks_at(path);
    }
    return fopen(path, mode);
}

static FILE *observed_freopen(const char *path, const char *mode, FILE *file)
{
    spoils("a stream is opened anew");
    return freopen(path, mode, file);
}

/* NVRTC asks each time whether PWD leads to the working directory, which it spells like that then.
 * Where a result may say it, both are in its key; all others are as good with another PWD. What it
 * includes it looks at by opening it too, so that a file of that path is noted. */
static int asks_how_folder_is_spelled(const char *path)
{
    const char *spelled = getenv("PWD");
    return path && spelled && strcmp(path, spelled) == 0;
}

static int observed_stat(const char *path, struct stat *facts)
{
    if (!asks_how_folder_is_spelled(path)) {
        looks_at(path);
    }
    return stat(path, facts);
}

static int observed_lstat(const char *path, struct stat *facts)
{
    looks_at(path);
    tell(kilni_nvrtc_reads_note_link, path);
    return lstat(path, facts);
}

/* As the C library's headers called them until version 2.33. */
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
    looks_at(path);
    return access(path, mode);
}

static int observed_statfs(const char *path, struct statfs *facts)
{
    looks_at(path);
    return statfs(path, facts);
}

static ssize_t observed_readlink(const char *path, char *buffer, size_t size)
{
    tell(kilni_nvrtc_reads_note_link, path);
    return readlink(path, buffer, size);
}

static char *observed_realpath(const char *path, char *resolved)
{
    tell(kilni_nvrtc_reads_note_real_path, path);
    return realpath(path, resolved);
}

static DIR *observed_opendir(const char *path)
{
    spoils("a folder is read");
    return opendir(path);
}

static int observed_mkdir(const char *path, mode_t mode)
{
    spoils("a folder is made");
    return mkdir(path, mode);
}

static int observed_unlink(const char *path)
{
    spoils("a file is removed");
    return unlink(path);
}

static int observed_rmdir(const char *path)
{
    spoils("a folder is removed");
    return rmdir(path);
}

static int observed_remove(const char *path)
{
    spoils("a file is removed");
    return remove(path);
}

static int observed_link(const char *from, const char *to)
{
    spoils("a file gets another name");
    return link(from, to);
}

static int observed_symlink(const char *target, const char *path)
{
    spoils("a link is made");
    return symlink(target, path);
}

/* Relative paths are others from there on. */
static int observed_chdir(const char *path)
{
    spoils("the working directory changes");
    return chdir(path);
}

static int observed_rename(const char *from, const char *to)
{
    spoils("a file is renamed");
    return rename(from, to);
}

static pid_t observed_fork(void)
{
    spoils("a process is started");
    return fork();
}

static int observed_system(const char *command)
{
    spoils("a process is started");
    return system(command); /* NOLINT: NVRTC's own call */
}

static FILE *observed_popen(const char *command, const char *mode)
{
    spoils("a process is started");
    return popen(command, mode); /* NOLINT: NVRTC's own call */
}

/* Those that are about threads read nothing. */
static int is_about_threads(long number)
{
    return number == SYS_futex || number == SYS_gettid || number == SYS_sched_getaffinity ||
           number == SYS_getcpu || number == SYS_membarrier;
}

static long observed_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (!is_about_threads(number)) {
        spoils("a system call that can't be followed");
    }
    return syscall(number, a, b, c, d, e, f);
}

static const struct {
    const char *name;
    void *function;
} observed[] = {
    {"open", (void *)observed_open},         {"open64", (void *)observed_open},
    {"openat", (void *)observed_openat},     {"openat64", (void *)observed_openat},
    {"fopen", (void *)observed_fopen},       {"fopen64", (void *)observed_fopen},
    {"freopen", (void *)observed_freopen},   {"freopen64", (void *)observed_freopen},
    {"stat", (void *)observed_stat},         {"stat64", (void *)observed_stat},
    {"lstat", (void *)observed_lstat},       {"lstat64", (void *)observed_lstat},
    {"__xstat", (void *)observed_xstat},     {"__xstat64", (void *)observed_xstat},
    {"__lxstat", (void *)observed_lxstat},   {"__lxstat64", (void *)observed_lxstat},
    {"access", (void *)observed_access},     {"statfs", (void *)observed_statfs},
    {"statfs64", (void *)observed_statfs},   {"readlink", (void *)observed_readlink},
    {"realpath", (void *)observed_realpath}, {"opendir", (void *)observed_opendir},
    {"mkdir", (void *)observed_mkdir},       {"unlink", (void *)observed_unlink},
    {"rename", (void *)observed_rename},     {"rmdir", (void *)observed_rmdir},
    {"remove", (void *)observed_remove},     {"link", (void *)observed_link},
    {"symlink", (void *)observed_symlink},   {"chdir", (void *)observed_chdir},
    {"fork", (void *)observed_fork},         {"system", (void *)observed_system},
    {"popen", (void *)observed_popen},       {"syscall", (void *)observed_syscall},
};

/* What a later libnvrtc may look at files by, and none that is known does. */
static const char *const unobserved[] = {
    "__fxstatat",     "__fxstatat64",   "__open64_2",
    "__openat64_2",   "__open_2",       "__openat_2",
    "__realpath_chk", "__readlink_chk", "canonicalize_file_name",
    "creat",          "creat64",        "dlmopen",
    "eaccess",        "euidaccess",     "faccessat",
    "fchdir",         "fdopendir",      "fstatat",
    "fstatat64",      "fts_open",       "ftw",
    "glob",           "glob64",         "mkdirat",
    "mkstemp",        "nftw",           "openat2",
    "posix_spawn",    "posix_spawnp",   "readlinkat",
    "renameat",       "renameat2",      "scandir",
    "scandir64",      "statvfs",        "statvfs64",
    "statx",          "unlinkat",       "vfork"};

/* ---- putting them in place ---- */

#if defined(__x86_64__)
enum { SLOT_OF_CALL = R_X86_64_JUMP_SLOT, SLOT_OF_DATA = R_X86_64_GLOB_DAT, SLOT = R_X86_64_64 };
#elif defined(__aarch64__)
enum {
    SLOT_OF_CALL = R_AARCH64_JUMP_SLOT,
    SLOT_OF_DATA = R_AARCH64_GLOB_DAT,
    SLOT = R_AARCH64_ABS64
};
#endif

/* Places of a library that the loader fills with addresses of others' functions. */
typedef struct relocations {
    const ElfW(Rela) * items;
    size_t count;
} relocations;

static relocations relocations_of(const struct link_map *map, ElfW(Sxword) table_tag,
                                  ElfW(Sxword) size_tag)
{
    relocations of = {0};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == table_tag) {
            const uintptr_t at = entry->d_un.d_ptr;
            const uintptr_t address = at < map->l_addr ? map->l_addr + at : at;
            of.items = (const ElfW(Rela) *)address; /* NOLINT: where the loader put it */
        } else if (entry->d_tag == size_tag) {
            of.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        }
    }
    return of.items ? of : (relocations){0};
}

static void *function_for(const char *name)
{
    for (size_t i = 0; i < sizeof observed / sizeof *observed; i++) {
        if (strcmp(name, observed[i].name) == 0) {
            return observed[i].function;
        }
    }
    return NULL;
}

/* The loader may have made the place read-only, once it was filled. */
static int write_slot(uintptr_t slot, void *function)
{
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)(slot & ~(page_size - 1)); /* NOLINT: where the loader put it */
    void **place = (void **)slot;                   /* NOLINT */
    if (mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    __atomic_store_n(place, function, __ATOMIC_RELEASE);
    return 1;
}

static int replace_in(const symbols *of, relocations table, size_t *replaced)
{
    for (size_t i = 0; i < table.count; i++) {
        const ElfW(Rela) *item = &table.items[i];
        const unsigned long type = ELF64_R_TYPE(item->r_info);
        const unsigned long symbol = ELF64_R_SYM(item->r_info);
        if ((type != SLOT_OF_CALL && type != SLOT_OF_DATA && type != SLOT) || symbol == 0 ||
            of->entries[symbol].st_shndx != SHN_UNDEF) {
            continue;
        }
        void *function = function_for(of->names + of->entries[symbol].st_name);
        if (!function) {
            continue;
        }
        if (!write_slot(of->map->l_addr + item->r_offset, function)) {
            return 0;
        }
        (*replaced)++;
    }
    return 1;
}

static int is_unobserved(const char *name)
{
    for (size_t i = 0; i < sizeof unobserved / sizeof *unobserved; i++) {
        if (strcmp(name, unobserved[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static int calls_unobserved(const symbols *of)
{
    for (size_t i = 1; i < of->count; i++) {
        if (of->entries[i].st_shndx == SHN_UNDEF &&
            is_unobserved(of->names + of->entries[i].st_name)) {
            return 1;
        }
    }
    return 0;
}

kiln_status observe_library(const struct link_map *map)
{
    symbols of;
    size_t replaced = 0;
    if (!symbols_of(map, &of) || calls_unobserved(&of) ||
        !replace_in(&of, relocations_of(map, DT_JMPREL, DT_PLTRELSZ), &replaced) ||
        !replace_in(&of, relocations_of(map, DT_RELA, DT_RELASZ), &replaced)) {
        return KILN_E_UNSUPPORTED;
    }
    /* A library that opens no files by these functions opens them by others. */
    return replaced > 0 ? KILN_OK : KILN_E_UNSUPPORTED;
}
