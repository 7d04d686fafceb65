/* SPDX-License-Identifier: Apache-2.0 */
#include "device_keys.h"

#include <stdlib.h>

kiln_key *device_keys_find(const device_keys *keys, cl_device_id device)
{
    for (cl_uint i = 0; i < keys->count; i++) {
        if (keys->devices[i] == device) {
            return kiln_key_retain(keys->keys[i]);
        }
    }
    return NULL;
}

void device_keys_done(device_keys *keys)
{
    for (cl_uint i = 0; i < keys->count; i++) {
        kiln_key_release(&keys->keys[i]);
    }
    free(keys->keys);
    free(keys->devices);
    *keys = (device_keys){0};
}
