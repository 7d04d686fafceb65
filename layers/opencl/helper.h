/* SPDX-License-Identifier: Apache-2.0
 *
 * Some captures are too expensive to be made in the application. For such a build, the layer leaves
 * a capture request in the store. Once the application stops building, the layer starts a helper
 * (`kiln capture`), which makes these captures.
 */
#pragma once

#include "device/opencl/build_request.h"
#include "device/opencl/traits.h"

/* Leaves a successful build as a request, if two conditions are met: the driver's own cache lets a
 * different process repeat the build, and no process has left this request before.
 * session_can_store must be 1. */
void helper_request(const kilni_opencl_described_build *build, const kilni_opencl_traits *traits);

/* Searches, once per process, for requests of processes that did not start a helper, because they
 * were killed or could not start one. */
void helper_look_for_requests(void);

/* Called before and after each build. The helper starts when no build has run for a while. */
void helper_build_starts(void);
void helper_build_ends(void);

/* Called when the process ends. Starts the helper if requests wait. */
void helper_process_ends(void);

/* Called in a forked child, which forgets all pending requests. They belong to the parent. */
void helper_forget(void);
