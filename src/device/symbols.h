/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic symbols of a loaded object, read where the loader has mapped them.
 */
#pragma once

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* Places that the loader fills with addresses. */
typedef struct kilni_relocations {
    const ElfW(Rela) * items;
    size_t count;
} kilni_relocations;

typedef struct kilni_symbols {
    const struct link_map *map; /* NULL if it was not asked for by its map */
    ElfW(Addr) base;
    const ElfW(Dyn) * dynamic; /* NULL: none */
    ElfW(Sym) * entries;
    size_t count; /* 0 if it was not asked for by its map */
    const char *names;
    size_t names_size;
    const char *soname; /* "" if it has none */
    kilni_relocations data, calls;
} kilni_symbols;

/* Returns 1, or 0 if the object has no table that can be counted. */
int kilni_symbols_of(const struct link_map *map, kilni_symbols *ret_symbols);

/* The same, but for the count, by what dl_iterate_phdr shows. What an object lacks is NULL or 0. */
kilni_symbols kilni_symbols_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic);

/* A text of the object's; "" if it is outside the table. */
const char *kilni_symbols_text(const kilni_symbols *of, size_t at);

/* @symbol  of a function or variable that the object finds by a place in its tables
 * @slot    the place, which the loader may be about to fill at the first call */
typedef void (*kilni_symbols_import_fn)(void *user, const ElfW(Sym) * symbol, const char *name,
                                        uintptr_t *slot);

/* Visits what the object finds so, often what it defines itself. */
void kilni_symbols_each_import(const kilni_symbols *of, kilni_symbols_import_fn visit, void *user);

/* The name of a function that the object defines; NULL where the entry is something else. */
const char *kilni_symbols_function(const kilni_symbols *of, size_t index);

/* Where that function is. */
void *kilni_symbols_address(const kilni_symbols *of, size_t index);

/* How the loader has mapped what is there: PROT_READ and the like. */
int kilni_symbols_protection(const struct link_map *map, uintptr_t address);

/* A function by its name; NULL where the object defines none. */
void *kilni_symbols_find(const struct link_map *map, const char *name);

/* Whether the loader may bind a function of that name to the object: because the object defines it,
 * possibly in variants for several processors, or because it is a program at a fixed address that
 * takes the function's address. The loader then gives everybody the program's own stub, which has
 * an undefined symbol with a value. */
int kilni_symbols_define(const struct link_map *map, const char *name);

/* Picks what to put in a function's place; NULL: it stays. */
typedef void *(*kilni_symbols_pick_fn)(void *user, const char *name, void *address);

/* Puts other functions in the place of some that the object defines, for all who look them up from
 * now on. Returns 1, or 0 where the table can't be written: then nothing has changed. */
int kilni_symbols_replace(const kilni_symbols *of, kilni_symbols_pick_fn pick, void *user);
