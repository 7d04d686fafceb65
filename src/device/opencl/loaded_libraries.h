/* SPDX-License-Identifier: Apache-2.0
 *
 * The libraries of this process, and which of them a driver is made of.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <CL/cl_icd.h>

#include <kiln/status.h>

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
} kilni_loaded_libraries;

/* Finds all libraries, and marks those that a platform's driver needs.
 *
 * @ret_all     [out] given back with kilni_loaded_libraries_done
 * @ret_driver  [out] the one of them that has the driver's functions
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the driver's library is not found; KILN_E_NO_MEMORY. */
kiln_status kilni_loaded_libraries_find(cl_platform_id platform, kilni_loaded_libraries *ret_all,
                                        const kilni_loaded_library **ret_driver, kiln_error *error);
void kilni_loaded_libraries_done(kilni_loaded_libraries *all);

/* The library that has an address; NULL: none. */
kilni_loaded_library *kilni_loaded_library_at(kilni_loaded_libraries *all, uintptr_t address);

/* What a library is called: its own name, else that of its file, else "(program)". */
const char *kilni_loaded_library_name(const kilni_loaded_library *library);

/* @name     of a function or variable that the library imports
 * @address  what stands for it: before the first call of a function it may be in the library */
typedef void (*kilni_import_fn)(void *user, const char *name, uintptr_t address);

/* Visits what a library imports, as the loader has bound it. Of 32-bit libraries nothing. */
void kilni_loaded_library_each_import(const kilni_loaded_library *library, kilni_import_fn visit,
                                      void *user);
