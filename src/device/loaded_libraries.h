/* SPDX-License-Identifier: Apache-2.0
 *
 * The libraries of this process, and which of them a driver is made of.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/symbols.h"

/* The names are copies: a library may be unloaded meanwhile, unless the driver needs it. */
typedef struct kilni_loaded_library {
    struct dl_phdr_info info;
    char *path;
    char *soname; /* "" if it has none */
    bool needed;  /* the driver's library, or one that it is linked to */
} kilni_loaded_library;

typedef struct kilni_loaded_libraries {
    kilni_loaded_library *items;
    size_t count;
    size_t capacity;
    const kilni_loaded_library *driver; /* the one that has the driver's functions */
} kilni_loaded_libraries;

/* Finds all libraries, and marks those that a driver needs.
 *
 * @functions  of the driver; the first that is not NULL and in a library tells which one it is
 * @except     what the name of the file of a library begins with that is no part of any driver
 * @ret_all    [out] given back with kilni_loaded_libraries_done
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the driver's library is not found; KILN_E_NO_MEMORY. */
kiln_status kilni_loaded_libraries_find(const uintptr_t *functions, size_t function_count,
                                        const char *except, kilni_loaded_libraries *ret_all,
                                        kiln_error *error);
void kilni_loaded_libraries_done(kilni_loaded_libraries *all);

/* The library that has an address; NULL: none. */
const kilni_loaded_library *kilni_loaded_library_at(const kilni_loaded_libraries *all,
                                                    uintptr_t address);

/* What a library is called: its own name, else that of its file, else "(program)". */
const char *kilni_loaded_library_name(const kilni_loaded_library *library);

/* Its dynamic symbols. */
kilni_symbols kilni_loaded_library_symbols(const kilni_loaded_library *library);

/* Uses the library that has an address, or without one the library whose file has a name. The
 * loader keeps it meanwhile, and can't be asked for anything. Returns false: there is none. */
typedef void (*kilni_loaded_library_use_fn)(void *user, const struct dl_phdr_info *library);
bool kilni_loaded_library_use(const void *address, const char *name,
                              kilni_loaded_library_use_fn use, void *user);
