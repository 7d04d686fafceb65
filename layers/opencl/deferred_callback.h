/* SPDX-License-Identifier: Apache-2.0
 *
 * The callback of clLinkProgram, delayed until the layer knows the program: the driver calls back
 * before the layer has the handle, and an application may release the program from its callback.
 */
#pragma once

#include <CL/cl.h>

typedef void(CL_CALLBACK *link_callback)(cl_program program, void *user_data);

typedef struct deferred_callback deferred_callback;

/* Returns NULL if there is no memory. */
deferred_callback *deferred_callback_new(link_callback notify, void *user_data);

/* The callback that the driver is given instead; @deferred is a deferred_callback. */
void CL_CALLBACK deferred_callback_from_driver(cl_program program, void *deferred);

/* The layer knows the program: the application is called now, or when the driver calls. The object
 * then frees itself. A driver that never calls leaves it behind. */
void deferred_callback_finish(deferred_callback *deferred);
