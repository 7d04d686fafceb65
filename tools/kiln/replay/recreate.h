/* SPDX-License-Identifier: Apache-2.0
 *
 * Recreates files that a compiler included, at the paths at which it found them. Only for a process
 * in a sandbox, whose mounts no other process sees.
 *
 * The paths come from an entry, and are not trusted. A file is only added where nothing is, never
 * in a place from which the system or the compiler loads code or settings, and never if it is
 * itself code.
 */
#pragma once

#include <stddef.h>

/* Both return NULL, or the reason why this is not possible, which the caller frees. They do nothing
 * if something is at the path already.
 *
 * @path       absolute
 * @protected  the folders of the compiler's libraries, ended by NULL */
char *recreate_file(const char *path, const void *bytes, size_t size, char *const *protected);
char *recreate_folder(const char *path, char *const *protected);
