/* SPDX-License-Identifier: Apache-2.0 */
#include "compiled_keys.h"

#include <stdlib.h>

kiln_key *compiled_keys_find(const compiled_keys *compiled, cl_device_id device)
{
    for (cl_uint i = 0; i < compiled->count; i++) {
        if (compiled->devices[i] == device) {
            return kiln_key_retain(compiled->keys[i]);
        }
    }
    return NULL;
}

void compiled_keys_done(compiled_keys *compiled)
{
    for (cl_uint i = 0; i < compiled->count; i++) {
        kiln_key_release(&compiled->keys[i]);
    }
    free(compiled->keys);
    free(compiled->devices);
    *compiled = (compiled_keys){0};
}
