/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Returns whether a program that execvp would start gets more rights than this process has, by its
 * owner, its group or its capabilities. */
bool program_gains_privileges(const char *program);
