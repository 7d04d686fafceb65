/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known about each OpenCL driver: one table. A driver that is not in it gets the cautious
 * values of the last row.
 */
#pragma once

#include <stdint.h>

typedef struct kilni_opencl_traits {
    const char *platform_name; /* CL_PLATFORM_NAME, exactly; NULL: any other driver */
    uint32_t capture_cost;     /* kiln_capture_cost */

    /* If captures are expensive: the variable that turns off the driver's own cache, from which
     * another process repeats a build quickly. NULL: the driver keeps no cache, so its builds are
     * not requested from another process. */
    const char *own_cache_switch;

    int counts_kernels;   /* CL_PROGRAM_REFERENCE_COUNT includes the kernels made of it */
    int counts_programs;  /* CL_CONTEXT_REFERENCE_COUNT includes the programs made in it */
    int builds_for_roots; /* programs belong to root devices; a program for a sub-device belongs to
                           * its root */
    int rebuild_is_no_op; /* building again with the same options changes nothing */

    /* A linked program and a program made from its binary answer alike, except for what is
     * recorded */
    int links_reload;

    /* File name patterns (fnmatch), NULL-terminated: what the compiler loads, in addition to the
     * libraries that the driver's library is linked to. Patterns that begin with '/' are absolute;
     * the others are relative to the folder of the driver's library. Only the last component has
     * wildcards. */
    const char *const *compiler_files;

    /* File name pattern of the library by which builds look at files; NULL: they can't be watched
     */
    const char *compiler;

    /* Patterns of what the driver keeps in its cache folder, into which it also writes sources, so
     * that includes are looked for there; NULL-terminated. NULL: there is no such folder */
    const char *const *own_files;

    /* Variables that affect the compiler, NULL-terminated. A trailing '*' stands for any ending.
     * Those that begin with '!' are exceptions: they decide where and how the driver works, but not
     * what it yields. */
    const char *const *variables;

    /* Those of the variables that name files whose contents count. NULL-terminated. */
    const char *const *file_variables;

    /* Files that the driver reads in the working directory, if they exist. NULL-terminated. */
    const char *const *working_files;
} kilni_opencl_traits;

/* Returns a driver's row, never NULL. @platform_name may be NULL. */
const kilni_opencl_traits *kilni_opencl_traits_of(const char *platform_name);

/* Whether the driver keeps a cache of its own, in the present environment. */
int kilni_opencl_keeps_cache(const kilni_opencl_traits *traits);

/* Variables of all drivers whose values are options that are added to those of each build.
 * NULL-terminated. */
extern const char *const kilni_opencl_option_variables[];
