/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes programs get another ICD loader than the one that they would find, and makes it find
 * the drivers that the other one would.
 */
#pragma once

/* Sets LD_LIBRARY_PATH, with a folder first that has nothing of that kind but a link to a loader;
 * and OCL_ICD_VENDORS, where loader_drivers says one. The folder is in the user's own cache folder
 * and stays.
 *
 * @instead  the loader that programs are to get
 * @found    the one that they would get
 * Returns NULL; or why it can't be, to be freed, and then has set nothing. */
char *loader_environment_set(const char *instead, const char *found);

/* Why that could not be, as far as can be told while nothing is made; to be freed. NULL: it could.
 */
char *loader_environment_obstacle(void);

/* What OCL_ICD_VENDORS has to be where one loader stands in for another, to be freed; NULL where it
 * can stay as it is, and with why where it can't be made.
 *
 * @folder  to make it in: a folder of this user's alone */
char *loader_drivers(const char *instead, const char *found, const char *folder, char **ret_why);
