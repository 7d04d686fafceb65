/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of long work: a line on stderr that is overwritten, if stderr is a terminal. Messages
 * replace it.
 */
#pragma once

#include <stdint.h>

/* Sets the number of steps, so that a bar shows how many are left; 0: not known. The number is used
 * until progress_end. */
void progress_expect(uint64_t steps);

/* Counts one step. @what, such as "checked", follows the count in the line. */
void progress_step(const char *what);

/* Removes the line until the next step. */
void progress_hide(void);

/* Removes the line, and starts again from 0. */
void progress_end(void);
