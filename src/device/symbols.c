/* SPDX-License-Identifier: Apache-2.0 */
#include "device/symbols.h"

#include <stdint.h>
#include <sys/mman.h>

#include "device/freestanding.h"

/* Pages that systems have: one that is smaller than the system's is refused. */
static const uintptr_t page_bytes[] = {4096, 16384, 65536};

static void *to_pointer(ElfW(Addr) address)
{
    return (void *)address; /* NOLINT: an address of the loader's is where it is */
}

/* Loaders turn the section's offsets into addresses, on most architectures. */
static void *address_of(const struct link_map *map, ElfW(Addr) value)
{
    return to_pointer(value < map->l_addr ? map->l_addr + value : value);
}

/* The number of symbols, as the GNU hash table tells: one more than the last in any chain. */
static size_t count_by_gnu_hash(const uint32_t *table)
{
    const uint32_t bucket_count = table[0], first = table[1], filter_words = table[2];
    const uint32_t *buckets = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++) {
        last = buckets[i] > last ? buckets[i] : last;
    }
    if (last < first) {
        return first;
    }
    while (!(chains[last - first] & 1u)) {
        last++;
    }
    return (size_t)last + 1;
}

int kilni_symbols_of(const struct link_map *map, kilni_symbols *ret_symbols)
{
    kilni_symbols found = {.map = map, .soname = ""};
    const uint32_t *hash = NULL, *gnu_hash = NULL;
    ElfW(Xword) soname = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            found.entries = address_of(map, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            found.names = address_of(map, entry->d_un.d_ptr);
            break;
        case DT_HASH:
            hash = address_of(map, entry->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            gnu_hash = address_of(map, entry->d_un.d_ptr);
            break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (!found.entries || !found.names || (!hash && !gnu_hash)) {
        return 0;
    }
    found.count = hash ? hash[1] : count_by_gnu_hash(gnu_hash);
    found.soname = soname ? found.names + soname : "";
    *ret_symbols = found;
    return 1;
}

const char *kilni_symbols_function(const kilni_symbols *of, size_t index)
{
    const ElfW(Sym) *entry = &of->entries[index];
    const int is_function = ELF64_ST_TYPE(entry->st_info) == STT_FUNC;
    return is_function && entry->st_shndx != SHN_UNDEF ? of->names + entry->st_name : NULL;
}

void *kilni_symbols_address(const kilni_symbols *of, size_t index)
{
    return to_pointer(of->map->l_addr + of->entries[index].st_value);
}

void *kilni_symbols_find(const struct link_map *map, const char *name)
{
    kilni_symbols of;
    if (!kilni_symbols_of(map, &of)) {
        return NULL;
    }
    for (size_t i = 0; i < of.count; i++) {
        const char *function = kilni_symbols_function(&of, i);
        if (function && kilni_bare_equal(function, name)) {
            return kilni_symbols_address(&of, i);
        }
    }
    return NULL;
}

int kilni_symbols_define(const struct link_map *map, const char *name)
{
    kilni_symbols of;
    if (!kilni_symbols_of(map, &of)) {
        return 0;
    }
    for (size_t i = 0; i < of.count; i++) {
        const ElfW(Sym) *entry = &of.entries[i];
        const unsigned char type = ELF64_ST_TYPE(entry->st_info);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC) &&
            (entry->st_shndx != SHN_UNDEF || entry->st_value != 0) &&
            kilni_bare_equal(of.names + entry->st_name, name)) {
            return 1;
        }
    }
    return 0;
}

/* How the loader has mapped what is there: an object's headers come first in it. */
int kilni_symbols_protection(const struct link_map *map, uintptr_t address)
{
    const ElfW(Ehdr) *head = to_pointer(map->l_addr);
    const ElfW(Phdr) *segments = to_pointer(map->l_addr + head->e_phoff);
    const size_t count =
        kilni_bare_begins_with((const char *)head->e_ident, ELFMAG) ? head->e_phnum : 0;
    int protection = PROT_READ, is_closed = 0;
    for (size_t i = 0; i < count; i++) {
        const uintptr_t begin = map->l_addr + segments[i].p_vaddr;
        const ElfW(Word) flags = segments[i].p_flags;
        if (address < begin || address - begin >= segments[i].p_memsz) {
            continue;
        }
        if (segments[i].p_type == PT_LOAD) {
            protection = (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
                         (flags & PF_X ? PROT_EXEC : 0);
        }
        is_closed |= segments[i].p_type == PT_GNU_RELRO;
    }
    return is_closed ? protection & ~PROT_WRITE : protection;
}

/* Changes how the pages of the table are mapped. Returns 1, or 0 where that is not allowed. */
static int protect(const kilni_symbols *of, int protection)
{
    const uintptr_t end = (uintptr_t)(of->entries + of->count);
    for (size_t i = 0; i < sizeof page_bytes / sizeof *page_bytes; i++) {
        const uintptr_t first = (uintptr_t)of->entries & ~(page_bytes[i] - 1);
        if (kilni_bare_protect(to_pointer(first), end - first, protection) == 0) {
            return 1;
        }
    }
    return 0;
}

int kilni_symbols_replace(const kilni_symbols *of, kilni_symbols_pick_fn pick, void *user)
{
    const int protection = kilni_symbols_protection(of->map, (uintptr_t)of->entries);
    if (!protect(of, PROT_READ | PROT_WRITE)) {
        return 0;
    }
    for (size_t i = 0; i < of->count; i++) {
        const char *name = kilni_symbols_function(of, i);
        void *picked = name ? pick(user, name, kilni_symbols_address(of, i)) : NULL;
        if (picked) {
            of->entries[i].st_value = (ElfW(Addr))picked - of->map->l_addr;
        }
    }
    protect(of, protection);
    return 1;
}
