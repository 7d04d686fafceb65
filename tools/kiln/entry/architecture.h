/* SPDX-License-Identifier: Apache-2.0
 *
 * The option with which a program names the architecture that NVRTC, nvJitLink or HIPRTC compiles
 * for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Finds the number in an option such as "-arch=sm_80", or in the value of such an option, "sm_80".
 * The number includes a letter as in "90a". For "--offload-arch=gfx90a:xnack+", finds
 * "gfx90a:xnack+". Returns the offset and sets the length; 0: the option names no architecture.
 *
 * @option    not NULL
 * @is_value  the option is the value of the option before it, which architecture_expects_value
 *            accepted */
size_t architecture_find(const char *option, bool is_value, size_t *ret_length);

/* Returns whether the architecture is the value of the next option. */
bool architecture_expects_value(const char *option);

/* Returns the option with the architecture in place of its own. An option that names none, or one
 * of the other vendor, stays as it is. The caller frees the result.
 *
 * @option, @is_value  as for architecture_find
 * @architecture       as architecture_is accepts it; NULL: the option's own */
char *architecture_replaced(const char *option, bool is_value, const char *architecture);

/* Returns whether the text is the number of an architecture of NVIDIA's, such as "90" or "100a", or
 * the name of one of AMD's, such as "gfx90a". */
bool architecture_is(const char *text);
