/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compilation reads: NVRTC's own calls of the C library, in the table by which a libnvrtc
 * finds its functions, go through here. Nobody else's do.
 */
#pragma once

#include <link.h>

#include <kiln/status.h>

#include "device/nvrtc/reads.h"

/* Puts the observing functions in place. While nothing of that library runs yet.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the library can't be observed. */
kiln_status observe_library(const struct link_map *map);

/* One compilation that is observed. */
typedef struct observation {
    kilni_nvrtc_reads *reads; /* borrowed */
    struct observation *next;
} observation;

/* What this thread reads from now on is noted there; what a thread reads that compiles nothing is
 * noted in all that are under way. @observation lives until observe_end. */
void observe_begin(observation *under_way, kilni_nvrtc_reads *reads);
void observe_end(observation *under_way);

/* Around a fork. */
void observe_lock(void);
void observe_unlock(void);
