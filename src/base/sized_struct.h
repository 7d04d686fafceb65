/* SPDX-License-Identifier: Apache-2.0
 *
 * Structures that begin with their own size, so that later releases can append fields. The caller
 * passes such a structure in, or a call fills it.
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
 * Returns KILN_OK; KILN_E_INVALID: struct_size is smaller than a size_t; KILN_E_UNSUPPORTED: the
 * structure sets a field that this version does not know. */
kiln_status kilni_sized_struct_copy(const void *given, void *ret_params, size_t size);

/* Returns true if a structure's struct_size is valid, so that results can be returned in the
 * structure. A function must check this before any action whose result it must report. */
bool kilni_sized_struct_is_valid(const void *params);

/* Copies a structure of this version to the caller's structure @to. The caller has set the
 * struct_size of @to. If @to is shorter, the last fields are left out; if it is longer, its
 * remaining bytes become zero. Returns false if the struct_size of @to is invalid. */
bool kilni_sized_struct_copy_out(void *to, const void *from, size_t size);
