/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compilation reads: NVRTC's own calls of the C library, in the table by which a libnvrtc
 * finds its functions, go through here. Nobody else's do.
 */
#pragma once

#include <link.h>

#include <kiln/status.h>

#include "device/nvrtc/functions.h"
#include "device/nvrtc/reads.h"

/* Puts the watching functions in place, for good, which keeps them loaded. More than one thread may
 * come with the same library, and it may be at work: what is under way then is not watched.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the library can't be watched, or somebody else does. */
kiln_status kilni_nvrtc_watch_library(const struct link_map *map);

/* The same for the library that these functions are of; KILN_E_UNSUPPORTED where they are not a
 * libnvrtc's own. */
kiln_status kilni_nvrtc_watch_functions(const kilni_nvrtc_functions *nvrtc);

/* One compilation that is watched. */
typedef struct kilni_nvrtc_watch {
    kilni_nvrtc_reads *reads; /* borrowed */
    struct kilni_nvrtc_watch *next;
} kilni_nvrtc_watch;

/* What this thread reads from now on is noted there; what a thread reads that compiles nothing is
 * noted in all that are under way. @watch lives until kilni_nvrtc_watch_end. */
void kilni_nvrtc_watch_begin(kilni_nvrtc_watch *watch, kilni_nvrtc_reads *reads);
void kilni_nvrtc_watch_end(kilni_nvrtc_watch *watch);
