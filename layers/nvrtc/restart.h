/* SPDX-License-Identifier: Apache-2.0
 *
 * Some programs cannot run with any audit library. If there is an audit library, the loader lays
 * out thread-local memory before it knows the program's libraries. This has two consequences:
 *
 * - A program does not start if its libraries need more thread-local memory at a fixed place than
 *   the loader has reserved.
 * - Other libraries allocate their thread-local memory with malloc when they first use it. The
 *   LeakSanitizer of gcc 12 and clang 14 then reads malloc's own data as if they were the bounds of
 *   that memory, and crashes.
 *
 * In both cases, this library removes itself from LD_AUDIT and executes the program again. At that
 * time, none of the program's code has run yet.
 */
#pragma once

#include "device/symbols.h"

/* Borrows the program's arguments and environment, which stay in memory until the process ends. */
void restart_prepare(char **arguments, char **environment);

/* Examines one of the objects that the program starts with. Must be called for these objects in
 * load order. If the program cannot run with this library, executes the program again without this
 * library, and does not return. */
void restart_unless_suitable(const kilni_symbols *symbols);
