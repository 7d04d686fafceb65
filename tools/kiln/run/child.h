/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that the tool runs in its place, or waits for as if it were them.
 */
#pragma once

/* Replaces this process. Returns only where the program could not be started, which it names, with
 * what to exit with. */
int program_replace(char **arguments);

/* Runs a program and waits for its end. It shares this process's terminal and process group, so
 * that what the terminal sends reaches both by itself; signals that were sent to this process alone
 * are passed on. Where the program stops, this process stops with it.
 *
 * @ret_wait_status  [out] as waitpid gives it
 * Returns 0; else what to exit with: it could not be started, which was named. */
int program_run(char **arguments, int *ret_wait_status);

/* Ends this process as the program ended, or returns the program's exit status. */
int program_end_alike(int wait_status);
