/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a run stored or found nothing: what its processes wrote to a trace.
 */
#pragma once

#include <stdbool.h>

/* Prints, on stderr, a line for each reason why builds passed through, and for each note.
 *
 * @trace  its path; NULL: there is none
 * Returns whether the trace has a line. */
bool run_reasons_print(const char *trace);
