/* SPDX-License-Identifier: Apache-2.0
 *
 * The drivers that an ICD loader finds. Some loaders read OCL_ICD_FILENAMES, a list of libraries,
 * and some only folders of .icd files. Where one of these stands in for one of those, it gets a
 * folder that names the same drivers.
 */
#pragma once

#include <stddef.h>

/* A list of libraries, separated by colons. */
#define OPENCL_LIST_VARIABLE "OCL_ICD_FILENAMES"

/* A folder of .icd files. */
#define OPENCL_VENDORS_VARIABLE "OCL_ICD_VENDORS"

/* Their libraries, as they are named. */
typedef struct opencl_drivers {
    char **libraries;
    size_t count;
} opencl_drivers;

/* Those that are named, in order; loads none of them.
 *
 * @libraries  what OCL_ICD_FILENAMES says, or NULL: the loader doesn't read it
 * @vendors    what OCL_ICD_VENDORS says, or NULL: the system's folder
 * Returns what is to be given to opencl_drivers_done. */
opencl_drivers opencl_drivers_find(const char *libraries, const char *vendors);
void opencl_drivers_done(opencl_drivers *drivers);

/* Leaves out what leads to a library that is there already; may load libraries to tell. */
void opencl_drivers_keep_each_once(opencl_drivers *drivers);

/* Makes a folder that names them, to be the value of OCL_ICD_VENDORS.
 *
 * @parent  a folder of this user's alone; the same drivers get the same folder in it
 * Returns its path, to be freed. Where it can't be, NULL with why, to be freed. */
char *opencl_drivers_folder(const opencl_drivers *drivers, const char *parent, char **ret_why);
