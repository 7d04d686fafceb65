/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a process that is independent of the application.
 */
#pragma once

/* Starts a program in its own session, at the lowest priority and with default signals. Its working
 * directory is "/". Its standard input, output and error are /dev/null, and it inherits no other
 * descriptor. The application gets no child that it could wait for, and no SIGCHLD. Any thread can
 * call this function, even while the process ends. It allocates nothing from the heap.
 *
 * @path, @arguments, @environment  used only during the call
 * Returns 1 if the program was started; otherwise 0. Starts nothing if this process adopts orphans,
 * since the program would become the application's child, or if its real user or group is not the
 * effective one, since the program would get the rights of both. */
int spawn_detached(const char *path, char *const *arguments, char *const *environment);
