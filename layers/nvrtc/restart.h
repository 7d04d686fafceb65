/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that can't run with an audit library, whatever it does. The loader lays out thread-local
 * memory before it knows the program's libraries, if it has an audit library to show them to:
 *
 * - libraries that need more of it at a fixed place than was set aside are not loaded, and the
 *   program does not start;
 * - others get theirs when they first use it, from malloc, where LeakSanitizer of gcc 12 and clang
 *   14 takes malloc's own data for the bounds of that memory, and crashes.
 *
 * The system can start such a program once more, without this library, before any of it has run.
 */
#pragma once

#include "device/symbols.h"

/* Notes what the program was started with, which is the loader's and stays. */
void restart_prepare(char **arguments, char **environment);

/* Looks at an object that the program starts with, in the order in which they are loaded. If the
 * program can't run with this library, starts it without it, and does not return. */
void restart_unless_suitable(const kilni_symbols *of);
