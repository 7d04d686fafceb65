/* SPDX-License-Identifier: Apache-2.0 */
#include "restart.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "device/freestanding.h"

/* This library's name in LD_AUDIT. */
static const char own_name[] = "libkiln_nvrtc_audit.so";

/* Bytes of thread-local memory that glibc reserves for libraries that are loaded later.
 * GLIBC_TUNABLES can replace the first number, which is the default. glibc always adds at least the
 * second number. */
enum { DEFAULT_SET_ASIDE = 512, ALWAYS_ADDED = 1024 };

/* All written under the loader's lock. */
static char **program_arguments, **program_environment;
static size_t fixed_bytes; /* bytes of thread-local memory that the objects so far need at a fixed
                              place */

void restart_prepare(char **arguments, char **environment)
{
    program_arguments = arguments;
    program_environment = environment;
}

/* ---- executing the program again ---- */

/* Returns a variable's entry in the environment, which is the text "NAME=value"; NULL if the
 * variable is not set. @prefix is "NAME=". */
static char **find_variable(const char *prefix)
{
    for (char **entry = program_environment; entry && *entry; entry++) {
        if (kilni_bare_begins_with(*entry, prefix)) {
            return entry;
        }
    }
    return NULL;
}

static size_t length_of_item(const char *list)
{
    size_t length = 0;
    while (list[length] && list[length] != ':') {
        length++;
    }
    return length;
}

static int is_own(const char *item, size_t length)
{
    const size_t own = sizeof own_name - 1;
    return length >= own && (length == own || item[length - own - 1] == '/') &&
           kilni_bare_begins_with(item + length - own, own_name);
}

/* Removes this library from a list. Returns true if the list contained this library. */
static int take_own_out(char *list)
{
    char *to = list;
    int was_in_it = 0;
    for (const char *item = list; *item;) {
        const size_t length = length_of_item(item);
        const char *next = item + length + (item[length] == ':');
        if (is_own(item, length)) {
            was_in_it = 1;
        } else if (length > 0) {
            if (to != list) {
                *to++ = ':';
            }
            for (size_t i = 0; i < length; i++) {
                *to++ = item[i];
            }
        }
        item = next;
    }
    *to = '\0';
    return was_in_it;
}

/* Returns true if the program was executed directly, and false if the loader was executed with the
 * program's name as an argument. In the second case, AT_BASE is 0, and /proc/self/exe is the
 * loader. The auxiliary vector, which contains AT_BASE, follows the environment in memory. */
static int was_started_by_its_name(void)
{
    char **end = program_environment;
    while (*end) {
        end++;
    }
    for (const ElfW(auxv_t) *item = (const ElfW(auxv_t) *)(const void *)(end + 1);
         item->a_type != AT_NULL; item++) {
        if (item->a_type == AT_BASE) {
            return item->a_un.a_val != 0;
        }
    }
    return 0;
}

/* Removes LD_AUDIT and executes the program. Called if no library is left in the variable. The
 * variable must then be removed, because the loader treats an empty value differently from a
 * missing variable. Restores the variable if execve fails. */
static void execute_without(char **variable, const char *path)
{
    char *const removed = *variable;
    for (char **entry = variable; *entry; entry++) {
        entry[0] = entry[1];
    }
    kilni_bare_call(SYS_execve, (long)path, (long)program_arguments, (long)program_environment, 0);
    char *moved = removed;
    for (char **entry = variable; moved; entry++) {
        char *const next = *entry;
        *entry = moved;
        moved = next;
    }
}

/* Executes the program again, without this library. Returns only if it could not be executed again.
 * In that case, the program continues in this process. */
static void restart(void)
{
    static const char prefix[] = "LD_AUDIT=";
    static char path[4096];
    char **variable = find_variable(prefix);
    const long length = kilni_bare_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe",
                                        (long)path, sizeof path - 1);
    if (!variable || length <= 0 || !was_started_by_its_name() ||
        !take_own_out(*variable + sizeof prefix - 1)) {
        return;
    }
    path[length] = '\0';
    if ((*variable)[sizeof prefix - 1] == '\0') {
        execute_without(variable, path);
    } else {
        kilni_bare_call(SYS_execve, (long)path, (long)program_arguments, (long)program_environment,
                        0);
    }
}

/* ---- what makes a restart necessary ---- */

static const ElfW(Dyn) * find_entry(const struct link_map *map, ElfW(Sxword) tag)
{
    const ElfW(Dyn) *entry = map->l_ld;
    while (entry && entry->d_tag != DT_NULL && entry->d_tag != tag) {
        entry++;
    }
    return entry && entry->d_tag == tag ? entry : NULL;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

/* Returns true if an object defines the symbol @name. This runs for each object of each program,
 * and must be fast. So it searches only the GNU hash table. Compilers with LeakSanitizer write this
 * table into every object. */
static int defines(const kilni_symbols *symbols, const char *name)
{
    const ElfW(Dyn) *entry = find_entry(symbols->map, DT_GNU_HASH);
    if (!entry) {
        return 0;
    }
    const ElfW(Addr) value = entry->d_un.d_ptr;
    const ElfW(Addr) address = value < symbols->map->l_addr ? symbols->map->l_addr + value : value;
    const uint32_t *table = (const uint32_t *)address; /* NOLINT: where the loader put it */
    const uint32_t bucket_count = table[0], first = table[1], filter_words = table[2];
    const uint32_t *buckets = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    const uint32_t hash = gnu_hash_of(name);
    for (uint32_t i = bucket_count > 0 ? buckets[hash % bucket_count] : 0; i >= first && i > 0;
         i++) {
        const char *symbol = kilni_symbols_function(symbols, i);
        if ((chains[i - first] | 1u) == (hash | 1u) && symbol && kilni_bare_equal(symbol, name)) {
            return 1;
        }
        if (chains[i - first] & 1u) {
            return 0;
        }
    }
    return 0;
}

/* Returns an object's header, which must be at the address where the object is loaded. Returns NULL
 * for an object without a header there, such as a program that is linked to a fixed address. Such
 * objects are ignored. */
static const ElfW(Ehdr) * header_of(const struct link_map *map)
{
    enum { PAGE = 4096 };
    unsigned char unused;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)map->l_addr; /* NOLINT */
    return map->l_addr != 0 && map->l_addr % PAGE == 0 &&
                   kilni_bare_call(SYS_mincore, (long)map->l_addr, PAGE, (long)&unused, 0) == 0 &&
                   kilni_bare_begins_with((const char *)header->e_ident, ELFMAG)
               ? header
               : NULL;
}

static size_t thread_local_bytes(const struct link_map *map)
{
    const ElfW(Ehdr) *header = header_of(map);
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(map->l_addr + header->e_phoff); /* NOLINT */
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_TLS) {
            return segments[i].p_memsz + segments[i].p_align;
        }
    }
    return 0;
}

static int needs_fixed_place(const struct link_map *map)
{
    const ElfW(Dyn) *flags = find_entry(map, DT_FLAGS);
    return flags && (flags->d_un.d_val & DF_STATIC_TLS) && header_of(map);
}

/* Returns the number of bytes that glibc is told to reserve in GLIBC_TUNABLES, or glibc's default
 * number. */
static size_t set_aside(void)
{
    static const char tunable[] = "glibc.rtld.optional_static_tls=";
    char **variable = find_variable("GLIBC_TUNABLES=");
    for (const char *at = variable ? *variable : ""; *at; at++) {
        if (kilni_bare_begins_with(at, tunable)) {
            size_t bytes = 0;
            for (at += sizeof tunable - 1; *at >= '0' && *at <= '9'; at++) {
                bytes = bytes * 10 + (size_t)(*at - '0');
            }
            return bytes;
        }
    }
    return DEFAULT_SET_ASIDE;
}

void restart_unless_suitable(const kilni_symbols *symbols)
{
    fixed_bytes += needs_fixed_place(symbols->map) ? thread_local_bytes(symbols->map) : 0;
    if (fixed_bytes > set_aside() + ALWAYS_ADDED || defines(symbols, "__lsan_do_leak_check")) {
        restart();
    }
}
