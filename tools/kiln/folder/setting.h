/* SPDX-License-Identifier: Apache-2.0
 *
 * Which folders `kiln run` looks after: those of the table, those that KILN_FOLDERS names, and why
 * not.
 */
#pragma once

#include <stdbool.h>

#include "cache_table.h"

/* The number of folders that KILN_FOLDERS can name. */
#define FOLDERS_OWN_MAX 16

typedef struct folder_setting {
    bool is_off;          /* KILN_FOLDERS is 0 */
    char *place;          /* the absolute path of the place that has the folders */
    folder_cache *caches; /* those of the table, then those of KILN_FOLDERS */
    size_t count;
    char *own_names[FOLDERS_OWN_MAX];
} folder_setting;

/* Reads KILN_FOLDERS: items separated by commas. 0 turns the folders off, an absolute path is the
 * place, and any other item is the name of a variable whose folder is kept as a whole. Reports
 * wrong items. */
folder_setting folder_setting_read(void);
void folder_setting_free(folder_setting *setting);

/* Returns why a folder is not looked after; the caller frees it. NULL if it is. */
char *folder_reason_against(const folder_cache *cache);

/* Returns the path of a folder; the caller frees it. */
char *folder_path(const folder_setting *setting, const folder_cache *cache);
