/* SPDX-License-Identifier: Apache-2.0 */
#include "byte_source.h"

bool byte_source_number(const byte_source *source, uint64_t offset, uint64_t *ret_number)
{
    uint64_t number;
    if (offset > source->size || source->size - offset < sizeof number ||
        !source->read(source->user, offset, &number, sizeof number)) {
        return false;
    }
    *ret_number = number;
    return true;
}
