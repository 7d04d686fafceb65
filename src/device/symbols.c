/* SPDX-License-Identifier: Apache-2.0 */
#include "device/symbols.h"

#include <stdint.h>
#include <sys/mman.h>

#include "device/freestanding.h"

/* Page sizes that systems use. A system refuses an address that is not aligned to its own page
 * size. */
static const uintptr_t page_bytes[] = {4096, 16384, 65536};

static void *to_pointer(ElfW(Addr) address)
{
    return (void *)address; /* NOLINT: the loader provides the address */
}

/* Returns the value of the last entry with the given tag, or 0 if there is none. */
static ElfW(Xword) value_of(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag)
{
    ElfW(Xword) value = 0;
    for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        value = entry->d_tag == tag ? entry->d_un.d_val : value;
    }
    return value;
}

/* Returns the table with the given tag, or NULL if there is none. On most architectures, the loader
 * has replaced the table's offset in the dynamic section with an address. */
static void *table_of(ElfW(Addr) base, const ElfW(Dyn) * dynamic, ElfW(Sxword) tag)
{
    const ElfW(Addr) value = value_of(dynamic, tag);
    return to_pointer(value > 0 && value < base ? base + value : value);
}

/* Returns the number of symbols according to the GNU hash table. This is one more than the last
 * index in any chain. */
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

/* Skips the relative relocations, which refer to the object itself. Linkers put them first in the
 * table, and DT_RELACOUNT is their count. */
static void skip_own(kilni_relocations *data, size_t own)
{
    const size_t skipped = own <= data->count ? own : data->count;
    data->items += skipped;
    data->count -= skipped;
}

kilni_symbols kilni_symbols_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic)
{
    const size_t entry_bytes = sizeof(ElfW(Rela)), soname = value_of(dynamic, DT_SONAME);
    kilni_symbols found = {
        .base = base,
        .dynamic = dynamic,
        .entries = table_of(base, dynamic, DT_SYMTAB),
        .names = table_of(base, dynamic, DT_STRTAB),
        .names_size = value_of(dynamic, DT_STRSZ),
        .data = {table_of(base, dynamic, DT_RELA), value_of(dynamic, DT_RELASZ) / entry_bytes},
        .calls = {table_of(base, dynamic, DT_JMPREL), value_of(dynamic, DT_PLTRELSZ) / entry_bytes},
    };
    skip_own(&found.data, value_of(dynamic, DT_RELACOUNT));
    found.soname = soname ? kilni_symbols_text(&found, soname) : "";
    return found;
}

int kilni_symbols_of(const struct link_map *map, kilni_symbols *ret_symbols)
{
    kilni_symbols found = kilni_symbols_at(map->l_addr, map->l_ld);
    const uint32_t *hash = table_of(map->l_addr, map->l_ld, DT_HASH),
                   *gnu_hash = table_of(map->l_addr, map->l_ld, DT_GNU_HASH);
    if (!found.entries || !found.names || (!hash && !gnu_hash)) {
        return 0;
    }
    found.map = map;
    found.count = hash ? hash[1] : count_by_gnu_hash(gnu_hash);
    *ret_symbols = found;
    return 1;
}

const char *kilni_symbols_text(const kilni_symbols *of, size_t at)
{
    return of->names && at < of->names_size ? of->names + at : "";
}

/* ---- what an object imports ---- */

#if defined(__x86_64__)
enum { SLOT_OF_CALL = R_X86_64_JUMP_SLOT, SLOT_OF_DATA = R_X86_64_GLOB_DAT, SLOT = R_X86_64_64 };
#else
enum {
    SLOT_OF_CALL = R_AARCH64_JUMP_SLOT,
    SLOT_OF_DATA = R_AARCH64_GLOB_DAT,
    SLOT = R_AARCH64_ABS64
};
#endif

/* Returns 1 if the loader stores the symbol's address unchanged for a relocation of this type. */
static int fills_slot(unsigned long type)
{
    return type == SLOT_OF_CALL || type == SLOT_OF_DATA || type == SLOT;
}

static void visit_imports(const kilni_symbols *of, kilni_relocations table,
                          kilni_symbols_import_fn visit, void *user)
{
    for (size_t i = 0; i < table.count && of->entries; i++) {
        const ElfW(Rela) *item = &table.items[i];
        const ElfW(Sym) *symbol = &of->entries[ELF64_R_SYM(item->r_info)];
        if (fills_slot(ELF64_R_TYPE(item->r_info)) && symbol->st_name < of->names_size) {
            visit(user, symbol, of->names + symbol->st_name, to_pointer(of->base + item->r_offset));
        }
    }
}

void kilni_symbols_each_import(const kilni_symbols *of, kilni_symbols_import_fn visit, void *user)
{
    visit_imports(of, of->calls, visit, user);
    visit_imports(of, of->data, visit, user);
}

/* ---- what an object defines ---- */

const char *kilni_symbols_function(const kilni_symbols *of, size_t index)
{
    const ElfW(Sym) *entry = &of->entries[index];
    const int is_function = ELF64_ST_TYPE(entry->st_info) == STT_FUNC;
    return is_function && entry->st_shndx != SHN_UNDEF ? of->names + entry->st_name : NULL;
}

void *kilni_symbols_address(const kilni_symbols *of, size_t index)
{
    return to_pointer(of->base + of->entries[index].st_value);
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

/* Returns 1 if the loader might bind a function with this name to this entry. */
static int binds(const kilni_symbols *of, size_t index, const char *name)
{
    const ElfW(Sym) *entry = &of->entries[index];
    const unsigned char type = ELF64_ST_TYPE(entry->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) &&
           (entry->st_shndx != SHN_UNDEF || entry->st_value != 0) &&
           kilni_bare_equal(of->names + entry->st_name, name);
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    return hash;
}

/* Asks the chain of the name's hash. The lowest bit of a hash marks the end of a chain. */
static int chain_binds(const kilni_symbols *of, const uint32_t *table, const char *name)
{
    const uint32_t bucket_count = table[0], first = table[1], filter_words = table[2];
    const uint32_t *buckets = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    const uint32_t hash = gnu_hash_of(name);
    uint32_t index = bucket_count > 0 ? buckets[hash % bucket_count] : 0;
    if (index < first) {
        return 0;
    }
    while ((chains[index - first] | 1u) != (hash | 1u) || !binds(of, index, name)) {
        if (chains[index++ - first] & 1u) {
            return 0;
        }
    }
    return 1;
}

/* The GNU hash table leaves out the entries before table[1], which are undefined. */
int kilni_symbols_define(const struct link_map *map, const char *name)
{
    kilni_symbols of = kilni_symbols_at(map->l_addr, map->l_ld);
    const uint32_t *table = table_of(map->l_addr, map->l_ld, DT_GNU_HASH);
    if (!of.entries || !of.names || (!table && !kilni_symbols_of(map, &of))) {
        return 0;
    }
    if (table && chain_binds(&of, table, name)) {
        return 1;
    }
    const size_t count = table ? table[1] : of.count;
    for (size_t i = 0; i < count; i++) {
        if (binds(&of, i, name)) {
            return 1;
        }
    }
    return 0;
}

/* Looks up the protection in the object's program headers, which are mapped at its beginning. */
int kilni_symbols_protection(const struct link_map *map, uintptr_t address)
{
    const ElfW(Ehdr) *head = to_pointer(map->l_addr);
    const ElfW(Phdr) *segments = to_pointer(map->l_addr + head->e_phoff);
    const size_t count =
        kilni_bare_begins_with((const char *)head->e_ident, ELFMAG) ? head->e_phnum : 0;
    int protection = PROT_READ, is_relro = 0;
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
        is_relro |= segments[i].p_type == PT_GNU_RELRO;
    }
    return is_relro ? protection & ~PROT_WRITE : protection;
}

/* Changes the protection of the pages of the symbol table. Returns 1, or 0 if the system
 * refuses. */
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
            of->entries[i].st_value = (ElfW(Addr))picked - of->base;
        }
    }
    protect(of, protection);
    return 1;
}
