/* SPDX-License-Identifier: Apache-2.0
 *
 * The drivers that an ICD loader finds. Some loaders read OCL_ICD_FILENAMES, a list of libraries,
 * and some only folders of .icd files. Where one of these stands in for one of those, it gets a
 * folder that names the same drivers.
 */
#pragma once

/* A list of libraries, separated by colons. */
#define OPENCL_LIST_VARIABLE "OCL_ICD_FILENAMES"

/* Makes the folder, which is to be the value of OCL_ICD_VENDORS.
 *
 * @libraries  what OCL_ICD_FILENAMES says
 * @vendors    what OCL_ICD_VENDORS says, or NULL: the system's folder
 * @parent     a folder of this user's alone; the same drivers get the same folder in it
 * Returns its path, to be freed. Where it can't be, NULL with why, to be freed. */
char *opencl_drivers_folder(const char *libraries, const char *vendors, const char *parent,
                            char **ret_why);

/* Removes such a folder. */
void opencl_drivers_folder_remove(const char *folder);
