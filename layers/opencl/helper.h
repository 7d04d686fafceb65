/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures that are too expensive for the application. The layer leaves such builds in the store as
 * capture requests, and starts a helper (`kiln capture`) once the application stops building.
 */
#pragma once

#include "device/opencl/build_request.h"
#include "device/opencl/traits.h"

/* Leaves a successful build as a request, if the driver's own cache lets another process repeat the
 * build and no process has left this request before. session_can_store must be 1. */
void helper_request(const kilni_opencl_described_build *build, const kilni_opencl_traits *traits);

/* Searches, once per process, for requests that other processes left without starting a helper,
 * because they were killed or could not start one. */
void helper_look_for_requests(void);

/* Called around each build, because the helper starts when no build has run for a while. */
void helper_build_starts(void);
void helper_build_ends(void);

/* Called when the process ends. Starts the helper if requests wait. */
void helper_process_ends(void);

/* Called in a forked child: the requests are the parent's. */
void helper_forget(void);
