/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of what Kiln knows about OpenCL drivers. Each driver has one row. A driver without a row
 * gets the cautious values of the last row.
 */
#pragma once

#include <stdint.h>

typedef struct kilni_opencl_traits {
    const char *platform_name; /* CL_PLATFORM_NAME, exactly; NULL: any other driver */
    uint32_t capture_cost;     /* kiln_capture_cost */

    /* If captures are expensive, the name of the variable that turns off the driver's own cache.
     * That cache lets a different process repeat a build quickly. NULL: the driver keeps no cache,
     * so Kiln does not ask a different process to repeat its builds. */
    const char *own_cache_switch;

    int counts_kernels;   /* CL_PROGRAM_REFERENCE_COUNT includes the program's kernels */
    int counts_programs;  /* CL_CONTEXT_REFERENCE_COUNT includes the context's programs */
    int builds_for_roots; /* programs belong to root devices; a program for a sub-device belongs to
                           * its root */
    int rebuild_is_no_op; /* building again with the same options changes nothing */

    /* 1: a program that is made from the binary of a linked program gives the same answers as the
     * linked program to all queries that are not recorded */
    int links_reload;

    /* File name patterns (fnmatch), NULL-terminated, for the files that the compiler loads in
     * addition to the libraries that the driver's library is linked to. Patterns that begin with
     * '/' are absolute; the others are relative to the folder of the driver's library. Only the
     * last component has wildcards. */
    const char *const *compiler_files;

    /* File name pattern of the library that opens files during builds; NULL: builds can't be
     * watched
     */
    const char *compiler;

    /* See device/watch/working_folder.h */
    int knows_working_folder;

    /* Patterns of the files that the driver keeps in its cache folder, NULL-terminated. The driver
     * also writes sources to that folder, so its compiler searches the folder for includes. NULL:
     * the driver has no such folder */
    const char *const *own_files;

    /* Variables that affect the compiler, NULL-terminated. A trailing '*' stands for any ending.
     * Names that begin with '!' are exceptions: these variables do not change the result of a
     * build. */
    const char *const *variables;

    /* The variables that name files whose contents affect a build. NULL-terminated. */
    const char *const *file_variables;

    /* Files that the driver reads in the working directory, if they exist. NULL-terminated. */
    const char *const *working_files;
} kilni_opencl_traits;

/* Returns a driver's row, never NULL. @platform_name may be NULL. */
const kilni_opencl_traits *kilni_opencl_traits_of(const char *platform_name);

/* Returns 1 if the driver's own cache is on in the present environment. */
int kilni_opencl_keeps_cache(const kilni_opencl_traits *traits);

/* The variables, for all drivers, whose values the drivers add to the options of each build.
 * NULL-terminated. */
extern const char *const kilni_opencl_option_variables[];
