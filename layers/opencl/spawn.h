/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a process that is independent of the application.
 */
#pragma once

/* Starts a program in its own session at the lowest priority, in "/", with default signals, with
 * /dev/null as its standard input, output and error, and with no other descriptor. The application
 * gets no child that it could wait for, and no SIGCHLD. May be called from any thread, even while
 * the process ends; allocates nothing from the heap.
 *
 * @path, @arguments, @environment  used only during the call
 * Returns 1 if the program was started; otherwise 0. Starts nothing if this process adopts orphans,
 * since the program would become the application's child. */
int spawn_detached(const char *path, char *const *arguments, char *const *environment);
