/* SPDX-License-Identifier: Apache-2.0
 *
 * Some programs cannot run with any audit library. If there is an audit library, the loader lays
 * out thread-local memory before it knows the program's libraries. This has two consequences:
 *
 * - A program whose libraries need more of it at a fixed place than the loader reserved does not
 *   start.
 * - Other libraries allocate their thread-local memory with malloc when they first use it.
 *   LeakSanitizer of gcc 12 and clang 14 then takes malloc's own data for the bounds of that
 *   memory, and crashes.
 *
 * This library removes itself from LD_AUDIT and executes such a program again, before any of the
 * program's code has run.
 */
#pragma once

#include "device/symbols.h"

/* Borrows the program's arguments and environment, which stay in memory until the process ends. */
void restart_prepare(char **arguments, char **environment);

/* Examines one of the objects that the program starts with, in load order. If the program cannot
 * run with this library, executes the program without it, and does not return. */
void restart_unless_suitable(const kilni_symbols *symbols);
