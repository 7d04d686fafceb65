/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures that are too dear for the application: its builds are left in the store as requests, and
 * a helper (`kiln capture`) is started to serve them once the application builds no more.
 */
#pragma once

#include "device/opencl/build_request.h"
#include "device/opencl/traits.h"

/* Leaves a successful build as a request, where the driver's own cache lets another process repeat
 * it, and nobody left it before. session_can_store is 1. */
void helper_request(const kilni_opencl_described_build *build, const kilni_opencl_traits *traits);

/* Looks, once in a process, whether others left requests that nobody served: programs that were
 * killed, or could start no helper. */
void helper_look_for_waiting(void);

/* Around each build: the helper comes when there was none for a while. */
void helper_build_starts(void);
void helper_build_ends(void);

/* The process ends: starts the helper where requests are left. */
void helper_process_ends(void);

/* In the child of a fork: the requests are the parent's. */
void helper_forget(void);
