/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers: where their libraries are, and how loaders are told of them: OpenCL's by
 * OPENCL_LAYERS, and the one for NVRTC, by its audit library, by the system's LD_AUDIT.
 */
#pragma once

/* Why a file may not be loaded into the user's programs, to be freed; NULL where it may.
 *
 * @list  the variable that is to name it */
char *library_reason_against(const char *path, const char *list);

/* Finds the OpenCL layer's library: beside a tool that was not installed yet, else where it was
 * installed. It has to be a regular file of this user's or root's that nobody else may write.
 *
 * @ret_path  [out] absolute, to be freed
 * @ret_why   [out] where nothing was found: why, to be freed
 * Returns 1 and @ret_path, or 0 and @ret_why. */
int layer_find(char **ret_path, char **ret_why);

/* The same for the audit library of NVRTC's layer, which an installation may go without: then
 * @ret_path is NULL. */
int nvrtc_audit_find(char **ret_path, char **ret_why);

/* The value of such a variable with our library in it, to be freed. Ours goes first: with OpenCL
 * that is next to the driver, so that the layers that the user has see the application's own calls,
 * as they do without us.
 *
 * @others  what the variable says now, or NULL */
char *layer_list_with(const char *path, const char *others);
