/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces the ICD loader that programs would find by a different one, and lets the new loader find
 * the same drivers.
 */
#pragma once

/* Makes a folder with a link to @replacement, and adds it as the first item to LD_LIBRARY_PATH.
 * Sets OCL_ICD_VENDORS if loader_drivers returns a value. The folder is in the user's folder for
 * caches, and stays there.
 *
 * @replacement  the loader that programs must get
 * @found    the loader that programs would get otherwise
 * Returns NULL. If the loader cannot be replaced, changes no variable and returns the reason, which
 * the caller frees. */
char *loader_environment_set(const char *replacement, const char *found);

/* Returns why loader_environment_set would fail; the caller frees the text. NULL if it would
 * succeed. Does not create anything. */
char *loader_environment_obstacle(void);

/* Returns the value that OCL_ICD_VENDORS must have if @replacement replaces @found; the caller
 * frees it. Returns NULL if the variable can stay as it is. If the folder cannot be made, also
 * returns NULL, but stores the reason.
 *
 * @folder  a folder that only this user can write to, in which the drivers' folder is made */
char *loader_drivers(const char *replacement, const char *found, const char *folder,
                     char **ret_why);
