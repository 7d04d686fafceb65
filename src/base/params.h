/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter structures, which begin with their own size and grow from release to release.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

/* Copies a structure that begins with size_t struct_size. Fields that a shorter structure lacks
 * become zero, which is their default. A longer structure is accepted only if every byte beyond
 * @size is zero.
 *
 * @given       NULL: all defaults
 * @ret_params  [out] @size bytes; its struct_size becomes @size
 * Returns KILN_OK; KILN_E_INVALID: struct_size is smaller than itself; KILN_E_UNSUPPORTED: the
 * structure sets a field that this version does not know.
 */
kiln_status kilni_params_copy(const void *given, void *ret_params, size_t size);

/* Whether a structure's struct_size is valid, so that results can be returned in it. A function
 * checks this before it does anything whose result it must report. */
bool kilni_params_have_size(const void *params);

/* Copies as much of one of our structures as its caller knows. @to has its struct_size set; bytes
 * that it has beyond our structure become zero. Returns false if its struct_size is invalid. */
bool kilni_params_copy_out(void *to, const void *from, size_t size);
