/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the libraries that are loaded in this process, and tells which of them make up a driver.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/symbols.h"

/* The path and the soname are copies, because a library that the driver does not need can be
 * unloaded while this list exists. */
typedef struct kilni_loaded_library {
    struct dl_phdr_info info;
    char *path;
    char *soname; /* "" if it has none */
    bool needed;  /* it is the driver's library, or the driver is linked to it, even indirectly */
} kilni_loaded_library;

typedef struct kilni_loaded_libraries {
    kilni_loaded_library *items;
    size_t count;
    size_t capacity;
    const kilni_loaded_library *driver; /* the library that contains the driver's functions */
} kilni_loaded_libraries;

/* Finds all libraries, and marks those that a driver needs.
 *
 * @functions  addresses of the driver's functions, some of which can be 0; the first address that
 *             is inside a library determines the driver's library
 * @except     a library whose file name begins with this text is never part of a driver;
 *             NULL: none
 * @ret_all    [out] freed by the caller, with kilni_loaded_libraries_done
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the driver's library is not found; KILN_E_NO_MEMORY. */
kiln_status kilni_loaded_libraries_find(const uintptr_t *functions, size_t function_count,
                                        const char *except, kilni_loaded_libraries *ret_all,
                                        kiln_error *error);
void kilni_loaded_libraries_done(kilni_loaded_libraries *all);

/* Returns the library that contains an address, or NULL if none does. */
const kilni_loaded_library *kilni_loaded_library_at(const kilni_loaded_libraries *all,
                                                    uintptr_t address);

/* Returns a library's soname, else its file name, else "(program)". */
const char *kilni_loaded_library_name(const kilni_loaded_library *library);

/* Returns a library's dynamic symbols. */
kilni_symbols kilni_loaded_library_symbols(const kilni_loaded_library *library);

/* Calls @use for the library that contains @address. If @address is NULL, calls @use for the
 * library whose file name is @name. The loader keeps the library loaded during the call. @use must
 * not call the loader. Returns false if there is no such library. */
typedef void (*kilni_loaded_library_use_fn)(void *user, const struct dl_phdr_info *library);
bool kilni_loaded_library_use(const void *address, const char *name,
                              kilni_loaded_library_use_fn use, void *user);
