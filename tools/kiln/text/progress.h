/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows the progress of long work in a line on stderr, which is overwritten again and again. Shows
 * nothing if stderr is not a terminal. A message replaces the line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns whether progress is shown. */
bool progress_is_shown(void);

/* Sets the number of steps, so that a bar shows how many steps are left; 0 if the number is not
 * known. The number is used until the next call. */
void progress_expect(uint64_t steps);

/* Counts one step. @what, such as "checked", follows the count in the line. After a second, the
 * line also shows how many steps are done in a second, and the time that is left. */
void progress_step(const char *what);

/* Removes the line, which appears again at the next step. */
void progress_hide(void);

/* Removes the line. The next progress starts at 0. */
void progress_end(void);
