/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the drivers that an ICD loader would find. Some loaders read OCL_ICD_FILENAMES, a list of
 * libraries; others read only folders of .icd files. If a loader of the second kind replaces a
 * loader of the first kind, the tool gives the new loader a folder that names the same drivers.
 */
#pragma once

#include <stddef.h>

/* A list of libraries, separated by colons. */
#define OPENCL_LIST_VARIABLE "OCL_ICD_FILENAMES"

/* A folder of .icd files. */
#define OPENCL_VENDORS_VARIABLE "OCL_ICD_VENDORS"

/* The drivers' libraries, as the list or the files name them. */
typedef struct opencl_drivers {
    char **libraries;
    size_t count;
} opencl_drivers;

/* Returns the drivers that the variables name, in the same order. Does not load them.
 *
 * @libraries  the value of OCL_ICD_FILENAMES; NULL: the loader does not read it
 * @vendors    the value of OCL_ICD_VENDORS; NULL: the system's folder
 * The caller passes the result to opencl_drivers_done. */
opencl_drivers opencl_drivers_find(const char *libraries, const char *vendors);
void opencl_drivers_done(opencl_drivers *drivers);

/* If several names in the list lead to the same library, keeps only the first of them. Loads
 * libraries to compare them if necessary. */
void opencl_drivers_keep_each_once(opencl_drivers *drivers);

/* Makes a folder that names the drivers. Its path is a value for OCL_ICD_VENDORS.
 *
 * @parent  a folder that only this user can write to; for the same drivers, the same folder in it
 *          is used
 * Returns the folder's path. If this fails, returns NULL and stores the reason. The caller frees
 * the path or the reason. */
char *opencl_drivers_folder(const opencl_drivers *drivers, const char *parent, char **ret_why);
