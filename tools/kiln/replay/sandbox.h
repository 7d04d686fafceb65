/* SPDX-License-Identifier: Apache-2.0
 *
 * A place in which a compiler can neither change anything nor reach a network: private namespaces
 * of mounts, networks and users.
 */
#pragma once

#include <stdbool.h>

/* The folder that a process can write to. It exists only inside the sandbox, and vanishes with it.
 */
#define SANDBOX_FOLDER "/kiln-replay"

/* Moves this process, which must have only one thread, into a new sandbox. All files stay where
 * they are, but can't be written to. The user's home folder is empty except for the visible paths.
 *
 * @visible  absolute paths of files and folders, ended by NULL; those that don't exist are ignored
 * @cache    a folder that is visible as SANDBOX_FOLDER "/to"; NULL: none
 * Returns NULL. If this is not possible, the process must end; returns the reason, which the caller
 * frees. */
char *sandbox_enter(char *const *visible, const char *cache);

/* Returns whether this process is allowed to make a sandbox. Asks a child process. */
bool sandbox_is_possible(void);
