/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter structures that grow from release to release and say their own size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

/* Copies a structure that begins with its size_t struct_size. What a shorter one lacks is zero,
 * the default; a longer one is taken where all that is unknown here is zero.
 *
 * @given       NULL: all defaults
 * @ret_params  [out] of @size bytes; its struct_size becomes @size
 * Returns KILN_OK; KILN_E_INVALID: it has no size; KILN_E_UNSUPPORTED: it has more than is known.
 */
kiln_status kilni_params_copy(const void *given, void *ret_params, size_t size);

/* Whether a structure says its size, so that something can be handed out in it. To be asked before
 * anything is done whose report it is to be. */
bool kilni_params_have_size(const void *params);

/* Copies as much of a struct of ours as its caller knows. @to has its struct_size; what it has
 * beyond ours becomes zero. False where it has no size. */
bool kilni_params_hand_out(void *to, const void *from, size_t size);
