/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic symbols of a loaded object, read from where the loader has mapped them.
 */
#pragma once

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* A table of relocations: places that the loader fills with addresses. */
typedef struct kilni_relocations {
    const ElfW(Rela) * items;
    size_t count;
} kilni_relocations;

typedef struct kilni_symbols {
    const struct link_map *map; /* NULL if made by kilni_symbols_at */
    ElfW(Addr) base;
    const ElfW(Dyn) * dynamic; /* NULL: none */
    ElfW(Sym) * entries;
    size_t count; /* 0 if made by kilni_symbols_at */
    const char *names;
    size_t names_size;
    const char *soname; /* "" if it has none */
    kilni_relocations data, calls;
} kilni_symbols;

/* Finds an object's symbols. Returns 1, or 0 if it has no symbol table whose size can be found. */
int kilni_symbols_of(const struct link_map *map, kilni_symbols *ret_symbols);

/* Does the same for an object that dl_iterate_phdr reports, but does not count its symbols. A
 * member is NULL or 0 if the object lacks what the member describes. */
kilni_symbols kilni_symbols_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic);

/* Returns a string of the object's string table, or "" if @at is outside the table. */
const char *kilni_symbols_text(const kilni_symbols *of, size_t at);

/* @symbol  a function or variable that the object imports through a relocation
 * @slot    where the loader stores the address; it may wait until the function is first called */
typedef void (*kilni_symbols_import_fn)(void *user, const ElfW(Sym) * symbol, const char *name,
                                        uintptr_t *slot);

/* Visits every function and variable that the object imports through a relocation. These often
 * include symbols that the object itself defines. */
void kilni_symbols_each_import(const kilni_symbols *of, kilni_symbols_import_fn visit, void *user);

/* Returns the name of the function that this entry of the symbol table defines, or NULL if the
 * entry does not define a function. */
const char *kilni_symbols_function(const kilni_symbols *of, size_t index);

/* Returns the address of that function. */
void *kilni_symbols_address(const kilni_symbols *of, size_t index);

/* Returns how the loader has mapped an address: PROT_READ and so on. */
int kilni_symbols_protection(const struct link_map *map, uintptr_t address);

/* Finds a function by name; returns NULL if the object does not define it. */
void *kilni_symbols_find(const struct link_map *map, const char *name);

/* Whether the loader may bind a function of that name to the object: either the object defines the
 * function, possibly in variants for several processors, or the object is a program at a fixed
 * address that takes the function's address. In the second case, the loader gives every object the
 * address of the program's own stub. The symbol of the stub is undefined but has a value. */
int kilni_symbols_define(const struct link_map *map, const char *name);

/* Returns the replacement for a function, or NULL to keep the function. */
typedef void *(*kilni_symbols_pick_fn)(void *user, const char *name, void *address);

/* Replaces some functions that the object defines, for every look-up from now on. Returns 1, or 0
 * if the table cannot be made writable, in which case nothing has changed. */
int kilni_symbols_replace(const kilni_symbols *of, kilni_symbols_pick_fn pick, void *user);
