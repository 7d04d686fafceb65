/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches what a driver's compiler reads during one build.
 */
#pragma once

#include <stdbool.h>

#include <CL/cl_icd.h>

#include <kiln/status.h>

#include "base/text.h"
#include "device/opencl/inputs.h"
#include "device/opencl/traits.h"
#include "device/watch/watch.h"

/* A zeroed structure watches nothing. A structure must stay at its address from
 * kilni_opencl_watched_build_begin to kilni_opencl_watched_build_end. */
typedef struct kilni_opencl_watched_build {
    kilni_watch watch;
    bool is_under_way;
    kilni_reads *reads; /* NULL: the build was not watched */
    char *source_name;  /* see kilni_opencl_source_name */
    char *driver;       /* the path of the driver's library */
    const kilni_opencl_traits *traits;
} kilni_opencl_watched_build;

/* Begins to watch a build with these options, which may be NULL. Until
 * kilni_opencl_watched_build_end, records everything that the compiler's library reads on this
 * thread. Also records what it reads on threads that have no watched build of their own, such as
 * the threads of the driver. If the build can't be watched, kilni_opencl_watched_build_finish
 * reports this.
 *
 * Threads: any. Blocks: on the loader; the first call in a process takes tens of milliseconds. */
void kilni_opencl_watched_build_begin(kilni_opencl_watched_build *build, cl_platform_id platform,
                                      const kilni_opencl_traits *traits, const char *options);

/* Ends the watch. Must be called by the thread that began it. If a callback might exit the thread
 * or throw during the build, this function must also be that thread's cleanup handler
 * (pthread_cleanup_push). Does nothing if the build is not watched. */
void kilni_opencl_watched_build_end(void *watched);

/* Call this after kilni_opencl_watched_build_end. Checks once more everything that was read.
 *
 * @given      the texts that were passed
 * @ret_reads  [out] for kilni_reads_hold; freed by the caller, with kilni_text_done
 * @ret_why    [out] static text
 * Returns KILN_OK; KILN_MISS: files have changed since they were read; KILN_E_UNSUPPORTED: the
 * result can't be kept; KILN_E_NO_MEMORY. With KILN_MISS and KILN_E_UNSUPPORTED, @ret_why has the
 * reason. Blocks: on reading. */
kiln_status kilni_opencl_watched_build_finish(kilni_opencl_watched_build *build,
                                              const kilni_opencl_texts *given,
                                              kilni_text *ret_reads, const char **ret_why);
void kilni_opencl_watched_build_done(kilni_opencl_watched_build *build);

/* Returns the name that the driver passes to its compiler for a source. If the driver writes
 * sources to its cache folder, the name is a path in that folder, and the compiler searches the
 * folder for includes. The caller frees the name.
 *
 * @ret_name  [out] NULL: the driver has no such folder
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_source_name(const kilni_opencl_traits *traits, char **ret_name);
