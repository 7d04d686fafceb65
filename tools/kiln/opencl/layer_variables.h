/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers' libraries, and the variables that name them to loaders: OPENCL_LAYERS for OpenCL's,
 * and LD_AUDIT for the audit library of NVRTC's.
 */
#pragma once

/* Returns why a file may not be loaded into the user's programs, which the caller frees; NULL if it
 * may.
 *
 * @list  the variable that would name the file */
char *library_reason_against(const char *path, const char *list);

/* Finds the OpenCL layer's library: in the build folder if the tool is there, or else where it was
 * installed. It must be a regular file that belongs to this user or to root, and other users must
 * not be able to write to it.
 *
 * @ret_path  [out] absolute; the caller frees it
 * Returns NULL. If there is no such library, returns the reason, which the caller frees. */
char *layer_find(char **ret_path);

/* Does the same as layer_find for the audit library of NVRTC's layer. An installation may lack it;
 * @ret_path is NULL then. */
char *nvrtc_audit_find(char **ret_path);

/* Returns the value of such a variable with @path added as the first item, unless the list contains
 * it already; the caller frees it. For OpenCL, the first layer is next to the driver, so the user's
 * own layers see the application's calls as they do without Kiln.
 *
 * @others  the variable's current value, or NULL */
char *layer_list_with(const char *path, const char *others);
