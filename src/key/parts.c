/* SPDX-License-Identifier: Apache-2.0 */
#include "key/parts.h"

kiln_status kilni_key_parts_add(const kiln_key *of, kiln_key_builder *builder)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < kiln_key_part_count(of); i++) {
        kiln_key_part part;
        kiln_key_part_at(of, i, &part);
        status = kiln_key_builder_add(builder, part.name, part.bytes, (size_t)part.size);
    }
    return status;
}
