/* SPDX-License-Identifier: Apache-2.0
 *
 * Some captures are too expensive to be made in the application. For such a build, the layer leaves
 * a capture request in the store, and the helper makes the capture.
 */
#pragma once

#include "device/opencl/build_request.h"
#include "device/opencl/traits.h"

/* Leaves a successful build as a request, if two conditions are met: the driver's own cache lets a
 * different process repeat the build, and no process has left this request before.
 * session_can_store must be 1. */
void capture_request_leave(const kilni_opencl_described_build *build,
                           const kilni_opencl_traits *traits);
