/* SPDX-License-Identifier: Apache-2.0
 *
 * The callback of clLinkProgram, delayed until the layer knows the program: the driver calls back
 * before the layer has the handle, and an application may release the program from its callback.
 */
#pragma once

#include <CL/cl.h>

typedef void(CL_CALLBACK *link_callback)(cl_program program, void *user_data);

typedef struct deferred_callback deferred_callback;

/* Makes a deferred callback. Returns NULL if memory runs out. */
deferred_callback *deferred_callback_new(link_callback notify, void *user_data);

/* The callback that the layer passes to the driver instead; @deferred is a deferred_callback. */
void CL_CALLBACK deferred_callback_from_driver(cl_program program, void *deferred);

/* Call once the layer knows the program. If the driver has called back, frees the object and calls
 * the application now; otherwise both happen when the driver calls back. If the driver never calls
 * back, the object is leaked. */
void deferred_callback_finish(deferred_callback *deferred);
