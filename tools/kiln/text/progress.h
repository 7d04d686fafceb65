/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows the progress of long work in a line on stderr, which is overwritten again and again. Shows
 * nothing if stderr is not a terminal. A message replaces the line.
 */
#pragma once

#include <stdint.h>

/* Sets the number of steps, so that a bar shows how many steps are left; 0 if the number is not
 * known. The number is used until progress_end. */
void progress_expect(uint64_t steps);

/* Counts one step. @what, such as "checked", follows the count in the line. */
void progress_step(const char *what);

/* Removes the line, which appears again at the next step. */
void progress_hide(void);

/* Removes the line. The next progress starts at 0. */
void progress_end(void);
