/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/watch.h"

#include <dirent.h>
#include <dlfcn.h>
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

#include "device/nvrtc/symbols.h"

/* ---- who is told ---- */

/* Guards the list and all reads in it. Not held while NVRTC runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_nvrtc_watch *all_under_way;

/* That of this thread; NULL: it compiles nothing. Looked at without the lock: the first time in
 * each thread may need the loader, whose lock another may have that waits for this one. */
static _Thread_local kilni_nvrtc_watch *own;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The parent's compilations are not this process's. */
static void after_fork_in_child(void)
{
    all_under_way = NULL;
    own = NULL;
    pthread_mutex_unlock(&lock);
}

static pthread_once_t once_registered = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_forks(void)
{
    is_registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

void kilni_nvrtc_watch_begin(kilni_nvrtc_watch *watch, kilni_nvrtc_reads *reads)
{
    own = watch;
    pthread_mutex_lock(&lock);
    *watch = (kilni_nvrtc_watch){.reads = reads, .next = all_under_way};
    all_under_way = watch;
    pthread_mutex_unlock(&lock);
}

void kilni_nvrtc_watch_end(kilni_nvrtc_watch *watch)
{
    own = NULL;
    pthread_mutex_lock(&lock);
    kilni_nvrtc_watch **link = &all_under_way;
    while (*link && *link != watch) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = watch->next;
    }
    pthread_mutex_unlock(&lock);
}

typedef void note_fn(kilni_nvrtc_reads *reads, const char *text);

/* NVRTC is not to find another errno than the C library left. */
static void tell(note_fn *note, const char *text)
{
    const int number = errno;
    const kilni_nvrtc_watch *const mine = own;
    pthread_mutex_lock(&lock);
    if (mine) {
        note(mine->reads, text);
    } else {
        for (kilni_nvrtc_watch *each = all_under_way; each; each = each->next) {
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

/* ---- whose a function is ---- */

static const struct link_map *map_of(const void *address)
{
    Dl_info unused;
    struct link_map *map = NULL;
    return address && dladdr1(address, &unused, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Whether the place may be taken: it leads to a function of that name, or into the library itself,
 * where the loader has yet to look for it. Otherwise somebody else has taken it. */
static int is_free(const struct link_map *map, const void *address, const char *name)
{
    const struct link_map *owner = map_of(address);
    return !owner || owner == map || symbols_find(owner, name) != NULL;
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

/* What to do with a place that leads to such a function. Returns 0 where it can't be done. */
typedef int place_fn(const struct link_map *map, uintptr_t slot, const char *name, void *function);

static int check_place(const struct link_map *map, uintptr_t slot, const char *name, void *function)
{
    void *const *place = (void *const *)slot; /* NOLINT */
    const void *address = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    return address == function || is_free(map, address, name);
}

static int take_place(const struct link_map *map, uintptr_t slot, const char *name, void *function)
{
    (void)map;
    (void)name;
    return write_slot(slot, function);
}

static int for_places_in(const symbols *of, relocations table, place_fn *act, size_t *count)
{
    for (size_t i = 0; i < table.count; i++) {
        const ElfW(Rela) *item = &table.items[i];
        const unsigned long type = ELF64_R_TYPE(item->r_info);
        const unsigned long symbol = ELF64_R_SYM(item->r_info);
        if ((type != SLOT_OF_CALL && type != SLOT_OF_DATA && type != SLOT) || symbol == 0 ||
            of->entries[symbol].st_shndx != SHN_UNDEF) {
            continue;
        }
        const char *name = of->names + of->entries[symbol].st_name;
        void *function = function_for(name);
        if (function && !act(of->map, of->map->l_addr + item->r_offset, name, function)) {
            return 0;
        }
        *count += function != NULL;
    }
    return 1;
}

static int for_places(const symbols *of, place_fn *act, size_t *ret_count)
{
    *ret_count = 0;
    return for_places_in(of, relocations_of(of->map, DT_JMPREL, DT_PLTRELSZ), act, ret_count) &&
           for_places_in(of, relocations_of(of->map, DT_RELA, DT_RELASZ), act, ret_count);
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

/* What NVRTC calls has to be there for as long as it is. A program itself always is. */
static int stay_loaded(void)
{
    const struct link_map *map = map_of((const void *)(uintptr_t)&all_under_way); /* NOLINT */
    if (!map || !map->l_name || map->l_name[0] == '\0') {
        return map != NULL;
    }
    void *handle = dlopen(map->l_name, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
    if (!handle) {
        dlerror(); /* no other reader's affair */
    }
    return handle != NULL;
}

kiln_status kilni_nvrtc_watch_library(const struct link_map *map)
{
    symbols of;
    size_t count;
    pthread_once(&once_registered, register_forks);
    /* A library that opens no files by these functions opens them by others. */
    if (!is_registered || !stay_loaded() || !symbols_of(map, &of) || calls_unobserved(&of) ||
        !for_places(&of, check_place, &count) || count == 0 ||
        !for_places(&of, take_place, &count)) {
        return KILN_E_UNSUPPORTED;
    }
    return KILN_OK;
}

kiln_status kilni_nvrtc_watch_functions(const kilni_nvrtc_functions *nvrtc)
{
    void *address;
    memcpy(&address, &nvrtc->compile, sizeof address);
    const struct link_map *map = map_of(address);
    /* Where a layer stands in for NVRTC, it is not NVRTC that is asked. */
    return map && symbols_find(map, "nvrtcCompileProgram") == address
               ? kilni_nvrtc_watch_library(map)
               : KILN_E_UNSUPPORTED;
}
