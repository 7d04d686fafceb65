/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized_struct.h"

#include <string.h>

kiln_status kilni_sized_struct_copy(const void *given, void *ret_params, size_t size)
{
    size_t given_size = size;
    if (given) {
        memcpy(&given_size, given, sizeof given_size);
        if (given_size < sizeof given_size) {
            return KILN_E_INVALID;
        }
        for (size_t i = size; i < given_size; i++) {
            if (((const unsigned char *)given)[i] != 0) {
                return KILN_E_UNSUPPORTED;
            }
        }
    }
    memset(ret_params, 0, size);
    if (given) {
        memcpy(ret_params, given, given_size < size ? given_size : size);
    }
    memcpy(ret_params, &size, sizeof size);
    return KILN_OK;
}

bool kilni_sized_struct_is_valid(const void *params)
{
    size_t size;
    memcpy(&size, params, sizeof size);
    return size >= sizeof size;
}

bool kilni_sized_struct_copy_out(void *to, const void *from, size_t size)
{
    if (!kilni_sized_struct_is_valid(to)) {
        return false;
    }
    size_t to_size;
    memcpy(&to_size, to, sizeof to_size);
    memset(to, 0, to_size);
    memcpy(to, from, to_size < size ? to_size : size);
    memcpy(to, &to_size, sizeof to_size);
    return true;
}
