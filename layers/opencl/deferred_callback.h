/* SPDX-License-Identifier: Apache-2.0
 *
 * The callback of clLinkProgram, which is delayed until the layer knows the program. The delay is
 * needed because the driver calls back before the layer has the program's handle, and an
 * application is allowed to release the program in its callback.
 */
#pragma once

#include <CL/cl.h>

typedef void(CL_CALLBACK *link_callback)(cl_program program, void *user_data);

typedef struct deferred_callback deferred_callback;

/* Makes a deferred callback. Returns NULL if memory runs out. */
deferred_callback *deferred_callback_new(link_callback notify, void *user_data);

/* The callback that the layer passes to the driver instead; @deferred is a deferred_callback. */
void CL_CALLBACK deferred_callback_from_driver(cl_program program, void *deferred);

/* Call this once the layer knows the program. If the driver has already called back, frees the
 * object and calls the application now. Otherwise, deferred_callback_from_driver does this later.
 * If the driver never calls back, the object is leaked. */
void deferred_callback_finish(deferred_callback *deferred);
