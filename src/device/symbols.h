/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic symbols of a loaded object. They are read from the memory to which the loader has
 * mapped the object.
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

/* Does the same as kilni_symbols_of for an object that dl_iterate_phdr reports, and does not
 * count the object's symbols. If the object lacks something, the member for it is NULL or 0. */
kilni_symbols kilni_symbols_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic);

/* Returns a string of the object's string table, or "" if @at is outside the table. */
const char *kilni_symbols_text(const kilni_symbols *of, size_t at);

/* @symbol  a function or variable that the object imports through a relocation
 * @slot    where the loader stores the address, possibly not before the function is first called */
typedef void (*kilni_symbols_import_fn)(void *user, const ElfW(Sym) * symbol, const char *name,
                                        uintptr_t *slot);

/* Visits every function and variable that the object imports through a relocation. These often
 * include symbols that the object itself defines. */
void kilni_symbols_each_import(const kilni_symbols *of, kilni_symbols_import_fn visit, void *user);

/* Returns the name of the function that the entry with this index in the symbol table defines, or
 * NULL if the entry does not define a function. */
const char *kilni_symbols_function(const kilni_symbols *of, size_t index);

/* Returns the address of the function that kilni_symbols_function names. */
void *kilni_symbols_address(const kilni_symbols *of, size_t index);

/* Returns how the loader has mapped an address: PROT_READ and so on. */
int kilni_symbols_protection(const struct link_map *map, uintptr_t address);

/* Finds a function by name; returns NULL if the object does not define it. */
void *kilni_symbols_find(const struct link_map *map, const char *name);

/* Returns 1 if the loader might bind a function with this name to the object. There are two cases.
 * Either the object defines the function, possibly in variants for several processors. Or the
 * object is a program at a fixed address that takes the function's address. In the second case, the
 * loader gives every object the address of the program's own stub. The symbol of the stub is
 * undefined but has a value. */
int kilni_symbols_define(const struct link_map *map, const char *name);

/* Returns the replacement for a function, or NULL if the function is to stay. */
typedef void *(*kilni_symbols_pick_fn)(void *user, const char *name, void *address);

/* Replaces some functions that the object defines. From now on, every look-up finds the
 * replacements. Returns 1. If the table cannot be made writable, returns 0 and changes nothing. */
int kilni_symbols_replace(const kilni_symbols *of, kilni_symbols_pick_fn pick, void *user);
