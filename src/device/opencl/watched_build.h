/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching what a driver's compiler reads during one build.
 */
#pragma once

#include <stdbool.h>

#include <CL/cl_icd.h>

#include <kiln/status.h>

#include "base/text.h"
#include "device/opencl/traits.h"
#include "device/watch/watch.h"
#include "device/watch/words.h"

/* Zeroed, nothing is watched. It stays where it is from begin to end. */
typedef struct kilni_opencl_watched_build {
    kilni_watch watch;
    bool is_under_way;
    kilni_reads *reads; /* NULL: the build was not watched */
    char *source_name;  /* see kilni_opencl_source_name */
    char *driver;       /* the path of its library */
    const kilni_opencl_traits *traits;
} kilni_opencl_watched_build;

/* Begins to watch a build with these options, which may be NULL. What is compiled until the end, by
 * this thread or by one of the driver's, is noted. If it can't be watched, nothing begins, and
 * finish says so.
 *
 * Threads: any. Blocks: on the loader, and the first time in a process for tens of milliseconds. */
void kilni_opencl_watched_build_begin(kilni_opencl_watched_build *build, cl_platform_id platform,
                                      const kilni_opencl_traits *traits, const char *options);

/* By the thread that began; takes one that did not begin. */
void kilni_opencl_watched_build_end(kilni_opencl_watched_build *build);

/* After the end: looks at everything that was read once more.
 *
 * @words      of the texts that were given
 * @ret_reads  [out] for kilni_reads_hold; kilni_text_done by the caller
 * @ret_why    [out] static text
 * Returns KILN_OK; KILN_MISS: files changed meanwhile; KILN_E_UNSUPPORTED: the result can't be
 * kept; both with the reason; KILN_E_NO_MEMORY. Blocks: on reading. */
kiln_status kilni_opencl_watched_build_finish(kilni_opencl_watched_build *build,
                                              const kilni_words *words, kilni_text *ret_reads,
                                              const char **ret_why);
void kilni_opencl_watched_build_done(kilni_opencl_watched_build *build);

/* The name of a source, as the driver gives it to its compiler: of a driver that writes sources
 * into its cache folder, where includes are looked for too, a path in there. The caller frees.
 *
 * @ret_name  [out] NULL: the driver has no such folder
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_source_name(const kilni_opencl_traits *traits, char **ret_name);
