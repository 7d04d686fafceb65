/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives programs a different ICD loader from the one that they would find, and lets that loader
 * find the same drivers.
 */
#pragma once

/* Puts a folder with a link to a loader first in LD_LIBRARY_PATH, and sets OCL_ICD_VENDORS if
 * loader_drivers returns a value. The folder is in the user's folder for caches, and stays there.
 *
 * @replacement  the loader that programs must get
 * @found    the loader that programs would get otherwise
 * Returns NULL. If this is not possible, sets nothing and returns the reason, which the caller
 * frees. */
char *loader_environment_set(const char *replacement, const char *found);

/* Returns why loader_environment_set would fail, without creating anything; the caller frees the
 * text. NULL if it would succeed. */
char *loader_environment_obstacle(void);

/* Returns the value that OCL_ICD_VENDORS must have if @replacement replaces @found; the caller
 * frees it. NULL if the variable can stay as it is; also NULL, with the reason, if the folder
 * cannot be made.
 *
 * @folder  a folder that only this user can write to, in which the drivers' folder is made */
char *loader_drivers(const char *replacement, const char *found, const char *folder,
                     char **ret_why);
