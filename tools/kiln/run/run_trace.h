/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processes of a run wrote to its trace: which doors had requests, and why a run stored or
 * found nothing. A door is what programs build with, such as OpenCL or Triton.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

typedef struct run_trace run_trace;

/* Reads a trace. One that cannot be read is empty. The caller frees the result. */
run_trace *run_trace_read(const char *path);

/* Accepts NULL. */
void run_trace_free(run_trace *trace);

/* Returns true if the trace has a line. */
bool run_trace_has_line(const run_trace *trace);

/* Prints, on stderr, a line for each reason why builds passed through, and for each note. If
 * several doors had requests, also prints a line with the hits and builds of each. */
void run_trace_print(const run_trace *trace);

/* Adds the hits and builds of each door to a summary. */
void run_trace_add_json(const run_trace *trace, json_t *summary);
