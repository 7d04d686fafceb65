/* SPDX-License-Identifier: Apache-2.0
 *
 * The files below a folder that other programs write to. No function follows a symbolic link.
 */
#pragma once

#include <stdbool.h>

#include "cache_table.h"
#include "file_list.h"

/* Returns a sorted list of a folder's regular files, without digests: those that @cache keeps.
 * Returns false if the folder has too many files, or cannot be read. */
bool file_tree_scan(int folder, const folder_cache *cache, file_list *ret_list);

/* Reads a whole file, which the caller frees. Returns NULL if it was not as listed, or was opened
 * for writing or changed meanwhile. */
void *file_tree_read(int folder, const listed_file *file);

/* Writes a new file, and the folders above it. Returns false if it could not be written, or exists,
 * or if a part of its path is not a folder. */
bool file_tree_write(int folder, const listed_file *file, const void *bytes);

/* Removes a folder with everything in it. */
void file_tree_remove(int parent, const char *name);
