/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking before something is removed.
 */
#pragma once

#include <stdbool.h>

/* Asks on stderr, with " [y/N] " behind the question, and reads the answer from stdin. */
bool confirmed(const char *format, ...) __attribute__((format(printf, 1, 2)));
