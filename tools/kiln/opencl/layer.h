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
 * installed. It must be a regular file that belongs to this user or to root, and that no other user
 * may write.
 *
 * @ret_path  [out] absolute; the caller frees it
 * @ret_why   [out] why there is none; the caller frees it
 * Returns 1 with @ret_path, or 0 with @ret_why. */
int layer_find(char **ret_path, char **ret_why);

/* The same for the audit library of NVRTC's layer. An installation may lack it: then @ret_path is
 * NULL. */
int nvrtc_audit_find(char **ret_path, char **ret_why);

/* Returns the value of such a variable with Kiln's library in it; the caller frees it. Kiln's is
 * first. With OpenCL that is next to the driver, so the user's own layers see the application's
 * calls as they do without Kiln.
 *
 * @others  the variable's present value, or NULL */
char *layer_list_with(const char *path, const char *others);
