/* SPDX-License-Identifier: Apache-2.0
 *
 * How far long work is: a line on stderr that is written over, where that is a terminal. What is
 * complained of takes its place.
 */
#pragma once

#include <stdint.h>

/* One more is done. @what, as in "checked", is shown behind the count. */
void progress_step(const char *what);

/* Takes the line off the terminal until the next step. */
void progress_hide(void);

/* Takes the line off the terminal, and counts from 0 again. */
void progress_end(void);
