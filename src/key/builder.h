/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <kiln/key.h>

/* Appends all parts of @of, so that several keys can begin with the same parts. Returns the
 * statuses of kiln_key_builder_add. */
kiln_status kilni_key_parts_add(const kiln_key *of, kiln_key_builder *builder);

/* Records that the caller could not make a part, as if adding that part had failed. If @failure is
 * KILN_OK, changes nothing. Returns the builder's first failure, or KILN_OK. */
kiln_status kilni_key_builder_fail(kiln_key_builder *builder, kiln_status failure);
