/* SPDX-License-Identifier: Apache-2.0
 *
 * What the workers of the differential harness share. A job arrives on standard input as a list of
 * steps, each "NAME SIZE\n" followed by SIZE bytes and "\n". Steps are executed in order: most of
 * them change the world, some describe the next program, and "run" has the worker's own function
 * compile it. Each program yields one line on standard output; Kiln's trace may go to the same
 * place, so that each program's lines are followed by its result.
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

/* Reads all of standard input. Ends the process if it is no job. */
void job_read(void);

/* The next step. False at the end. */
bool job_next(job_step *ret_step);

bool job_is(const job_step *step, const char *name);

/* Executes a step that changes the world. False if the step is none of those. */
bool job_change_world(const job_step *step);

/* Calls the function as the world has it: on the main thread or on one of its own, in the
 * floating-point mode that was set. */
void job_call(void (*function)(void));

/* ---- the line of a program ---- */

void job_begin_line(void);
void job_add_number(const char *name, long number);

/* Takes out of a driver's log what is the process's: the number that Intel's runtime gives each of
 * its programs ("12:3:4: error"), and the name of PoCL's temporary. The log is followed by a zero.
 * Returns the size that is left. */
size_t job_normalize_log(char *log, size_t size);

/* Adds size and digest, and writes the bytes to a file if the job names a folder ("keep"). */
void job_add_bytes(const char *name, const void *bytes, size_t size);
void job_end_line(void);

/* Ends the process with a message. */
_Noreturn void job_fail(const char *what, const char *detail);
