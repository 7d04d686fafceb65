/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a process that has nothing to do with the application any more.
 */
#pragma once

/* Starts a program in a session of its own, which stands back behind others, with no descriptors
 * but /dev/null three times, in "/", with default signals. The application gets no child by that
 * that it could wait for, and no SIGCHLD. May be called while the process ends, from any thread;
 * allocates nothing from the heap.
 *
 * @path, @arguments, @environment  live for the call
 * Returns 1 where it was started; 0: not, or it would become the application's own child, since
 * orphans come to this process. */
int spawn_detached(const char *path, char *const *arguments, char *const *environment);
