/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the libraries of the layers, and makes the values of the variables through which loaders
 * find them. OPENCL_LAYERS names the OpenCL layer, and LD_AUDIT names the audit library of the
 * NVRTC layer. PYTHONPATH names the folder with the sitecustomize of the Python doors.
 */
#pragma once

/* Returns the reason why a file must not be loaded into the user's programs; the caller frees it.
 * NULL if there is no such reason.
 *
 * @list  the variable that would name the file */
char *library_reason_against(const char *path, const char *list);

/* Finds the OpenCL layer's library. Looks for the library where it is installed with this tool,
 * and, if the tool is in a build folder, there. The library must be a regular file that belongs to
 * this user or to root, and other users must not be able to write to it.
 *
 * @ret_path  [out] absolute; the caller frees it
 * Returns NULL. If there is no such library, returns the reason, which the caller frees. */
char *layer_find(char **ret_path);

/* Like layer_find, but finds the audit library of the NVRTC layer. If an installation lacks this
 * library, sets @ret_path to NULL. */
char *nvrtc_audit_find(char **ret_path);

/* Like nvrtc_audit_find, but finds the folder with the sitecustomize of the Python doors. The same
 * owners and modes are required of the package above it, and of all files and folders there. */
char *python_folder_find(char **ret_path);

/* Returns the value of a variable that lists layers, with @path added as the first item. Does not
 * add @path if the list already contains it. The caller frees the value. For OpenCL, the first
 * layer is the one next to the driver, so the user's own layers see the same calls of the
 * application as without Kiln.
 *
 * @others  the variable's current value, or NULL */
char *layer_list_with(const char *path, const char *others);
