/* SPDX-License-Identifier: Apache-2.0
 *
 * The option with which a program names the architecture that NVRTC compiles for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Finds the number in an option such as "-arch=sm_80", or in the value of such an option, "sm_80".
 * Returns its offset and sets its length, with a letter as in "90a"; 0: the option names no
 * architecture.
 *
 * @option    not NULL
 * @is_value  the option is the value of the option before it, which architecture_expects_value
 *            accepted */
size_t architecture_find(const char *option, bool is_value, size_t *ret_length);

/* Returns whether the architecture is the value of the next option. */
bool architecture_expects_value(const char *option);

/* Returns whether the text is the number of an architecture, such as "90" or "100a". */
bool architecture_is_number(const char *text);
