/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of each OpenCL driver: one table. A driver that is not in it gets the careful
 * values of the last row.
 */
#pragma once

#include <stdint.h>

typedef struct kilni_opencl_traits {
    const char *platform_name; /* CL_PLATFORM_NAME, exactly; NULL: any other driver */
    uint32_t capture_cost;     /* kiln_capture_cost */

    /* Where captures are dear: the variable that turns the driver's own cache off, out of which
     * another process repeats a build in no time. NULL: it keeps none, so its builds stay its own
     * affair. */
    const char *own_cache_switch;

    int counts_kernels;   /* CL_PROGRAM_REFERENCE_COUNT includes the kernels made of it */
    int counts_programs;  /* CL_CONTEXT_REFERENCE_COUNT includes the programs made in it */
    int builds_for_roots; /* programs belong to root devices; a sub-device stands for its root */
    int rebuild_is_no_op; /* building again with the same options changes nothing */

    /* A linked program and one made of its binary answer alike, but for what is recorded */
    int links_reload;

    /* File name patterns (fnmatch), NULL-ended: what the compiler loads, beside what the driver's
     * library is linked to. Those that begin with '/' are absolute; the rest stand for files
     * relative to the folder of the driver's library. Only the last component has wildcards. */
    const char *const *compiler_files;

    /* Variables that steer the compiler, NULL-ended. A trailing '*' stands for any ending; those
     * that begin with '!' are exceptions from the rest: they decide where and how the driver
     * works, not what it yields. */
    const char *const *variables;

    /* Of those variables: names of files whose contents count. NULL-ended. */
    const char *const *file_variables;

    /* Files that the driver reads in the working directory, where they are. NULL-ended. */
    const char *const *working_files;
} kilni_opencl_traits;

/* Never NULL. @platform_name may be NULL. */
const kilni_opencl_traits *kilni_opencl_traits_of(const char *platform_name);

/* Whether the driver keeps a cache of its own, as the environment is now. */
int kilni_opencl_keeps_cache(const kilni_opencl_traits *traits);

/* Variables of all drivers whose values are options, added to those of each build. NULL-ended. */
extern const char *const kilni_opencl_option_variables[];
