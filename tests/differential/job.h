/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the workers of the differential harness share. A job arrives on standard input
 * as a list of steps, each "NAME SIZE\n" followed by SIZE bytes and "\n". Steps are executed in
 * order. Most of them change the world, some describe the next program, and "run" calls the
 * worker's function to compile it. Each program yields one line on standard output. Kiln's trace
 * may go there too; then a program's trace lines come before its result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct job_step {
    const char *name;
    const char *bytes; /* followed by a zero */
    size_t size;
} job_step;

/* Reads all of standard input. Ends the process if the input is not a job. */
void job_read(void);

/* Reads the next step. Returns false at the end. */
bool job_next(job_step *ret_step);

bool job_is(const job_step *step, const char *name);

/* Executes a step if it changes the world. Returns false if it is not such a step. */
bool job_change_world(const job_step *step);

/* Calls the function as the world requires: on the main thread or on a new one, in the
 * floating-point mode that was set. */
void job_call(void (*function)(void));

/* ---- the line of a program ---- */

void job_begin_line(void);
void job_add_number(const char *name, long number);

/* Removes from a driver's log what depends on the process: the number that Intel's runtime gives
 * each of its programs ("12:3:4: error"), and the name of PoCL's temporary file. The log must be
 * followed by a zero. Returns the remaining size. */
size_t job_normalize_log(char *log, size_t size);

/* Adds the size and the digest, and writes the bytes to a file if the job names a folder ("keep").
 */
void job_add_bytes(const char *name, const void *bytes, size_t size);
void job_end_line(void);

/* Ends the process with a message. */
_Noreturn void job_fail(const char *what, const char *detail);
