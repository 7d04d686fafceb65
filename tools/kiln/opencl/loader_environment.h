/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives programs a different ICD loader from the one that they would find, which finds the same
 * drivers.
 */
#pragma once

/* Puts a folder first in LD_LIBRARY_PATH that contains only a link to a loader, and sets
 * OCL_ICD_VENDORS if loader_drivers returns a value. The folder is in the user's folder for caches,
 * and stays there.
 *
 * @replacement  the loader that programs must get
 * @found    the one that they would get
 * Returns NULL. If it cannot be done, sets nothing and returns why, which the caller frees. */
char *loader_environment_set(const char *replacement, const char *found);

/* Returns why that could not be done, without creating anything; the caller frees it. NULL if it
 * could. */
char *loader_environment_obstacle(void);

/* Returns the value that OCL_ICD_VENDORS must have if @replacement replaces @found; the caller
 * frees it. NULL if it can stay as it is, or, with the reason, if it cannot be made.
 *
 * @folder  a folder of this user's alone, in which it is made */
char *loader_drivers(const char *replacement, const char *found, const char *folder,
                     char **ret_why);
