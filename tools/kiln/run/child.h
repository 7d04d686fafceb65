/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs programs in place of the tool, or as its child.
 */
#pragma once

/* Replaces this process with the program. Returns only if the program could not be started. In that
 * case, reports the error and returns the exit code. */
int program_replace(char **arguments);

/* Runs a program and waits until it ends. The program shares this process's terminal and process
 * group, so signals from the terminal reach both processes. Signals that were sent only to this
 * process are forwarded to the program. When the program stops, this process stops too.
 *
 * @ret_wait_status  [out] the status that waitpid stored
 * Returns 0. If the program could not be started, reports the error and returns the exit code. */
int program_run(char **arguments, int *ret_wait_status);

/* Ends this process with the signal that ended the program, or returns the program's exit status.
 */
int program_repeat_end(int wait_status);
