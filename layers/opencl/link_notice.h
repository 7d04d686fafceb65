/* SPDX-License-Identifier: Apache-2.0
 *
 * The callback of clLinkProgram, held back until the layer is done with the program: an application
 * may release it from there, and the driver calls before the layer has its handle.
 */
#pragma once

#include <CL/cl.h>

typedef void(CL_CALLBACK *link_callback)(cl_program program, void *user_data);

typedef struct link_notice link_notice;

/* NULL: no memory. */
link_notice *link_notice_new(link_callback notify, void *user_data);

/* What the driver is given instead; @notice is a link_notice. */
void CL_CALLBACK link_notice_from_driver(cl_program program, void *notice);

/* The layer is done: the application hears of the link now, or when the driver calls. The notice
 * belongs to itself from here on. A driver that never calls leaves it behind. */
void link_notice_let_go(link_notice *notice);
