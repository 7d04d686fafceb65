/* SPDX-License-Identifier: Apache-2.0
 *
 * The specialization constants that an application has set on a program: they decide what a build
 * of it yields, so they are a part of its key. Not locked: records.c does that.
 */
#pragma once

#include <CL/cl.h>

#include <kiln/key.h>

typedef struct constant_list {
    struct constant *items; /* in the order of their numbers */
    size_t count;
} constant_list;

/* Sets one, or sets it anew. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status constant_list_set(constant_list *list, cl_uint id, size_t size, const void *value);

/* Appends "constant" (its number) and "constant.value" for each. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status constant_list_add_to_key(const constant_list *list, kiln_key_builder *key);

/* Frees what the list holds; it is empty again. */
void constant_list_done(constant_list *list);
