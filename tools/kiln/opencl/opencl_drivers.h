/* SPDX-License-Identifier: Apache-2.0
 *
 * The drivers that an ICD loader finds. Some loaders read OCL_ICD_FILENAMES, a list of libraries;
 * others read only folders of .icd files. If a loader of the second kind replaces a loader of the
 * first kind, it gets a folder that names the same drivers.
 */
#pragma once

#include <stddef.h>

/* A list of libraries, separated by colons. */
#define OPENCL_LIST_VARIABLE "OCL_ICD_FILENAMES"

/* A folder of .icd files. */
#define OPENCL_VENDORS_VARIABLE "OCL_ICD_VENDORS"

/* The drivers' libraries, as they are named. */
typedef struct opencl_drivers {
    char **libraries;
    size_t count;
} opencl_drivers;

/* Returns the drivers that the variables name, in order. Loads none of them.
 *
 * @libraries  the value of OCL_ICD_FILENAMES; NULL: the loader does not read it
 * @vendors    the value of OCL_ICD_VENDORS; NULL: the system's folder
 * The caller passes the result to opencl_drivers_done. */
opencl_drivers opencl_drivers_find(const char *libraries, const char *vendors);
void opencl_drivers_done(opencl_drivers *drivers);

/* Removes further names of libraries that are already in the list. May load libraries to compare
 * them. */
void opencl_drivers_keep_each_once(opencl_drivers *drivers);

/* Makes a folder that names the drivers, as a value for OCL_ICD_VENDORS.
 *
 * @parent  a folder that only this user can write to; the same drivers get the same folder in it
 * Returns its path, or NULL with the reason; the caller frees both. */
char *opencl_drivers_folder(const opencl_drivers *drivers, const char *parent, char **ret_why);
