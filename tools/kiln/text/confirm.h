/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the user before something is removed.
 */
#pragma once

#include <stdbool.h>

/* Prints the question and " [y/N] " on stderr, and reads the answer from stdin. Returns true if the
 * answer is yes. */
bool confirmed(const char *format, ...) __attribute__((format(printf, 1, 2)));
