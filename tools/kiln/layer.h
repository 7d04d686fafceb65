/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL layer: where its library is, and how the ICD loader is told of it.
 */
#pragma once

/* Finds the layer's library: beside a tool that was not installed yet, else where it was installed.
 * It has to be a regular file of this user's or root's that nobody else may write.
 *
 * @ret_path  [out] absolute, to be freed
 * @ret_why   [out] where nothing was found: why, to be freed
 * Returns 1 and @ret_path, or 0 and @ret_why. */
int layer_find(char **ret_path, char **ret_why);

/* The value of OPENCL_LAYERS with our layer in it, to be freed. Ours goes first, which is next to
 * the driver: the layers that the user has see the application's own calls, as they do without us.
 *
 * @others  what OPENCL_LAYERS says now, or NULL */
char *layer_list_with(const char *path, const char *others);
