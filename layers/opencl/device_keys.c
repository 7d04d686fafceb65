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

kiln_status device_keys_copy(const device_keys *from, device_keys *ret_copy)
{
    device_keys copy = {
        .count = from->count,
        .devices = calloc(from->count, sizeof *copy.devices),
        .keys = calloc(from->count, sizeof *copy.keys),
    };
    if (!copy.devices || !copy.keys ||
        kilni_text_append_bytes(&copy.reads, from->reads.bytes, from->reads.length) != KILN_OK) {
        device_keys_done(&copy);
        return KILN_E_NO_MEMORY;
    }
    for (cl_uint i = 0; i < from->count; i++) {
        copy.devices[i] = from->devices[i];
        copy.keys[i] = kiln_key_retain(from->keys[i]);
    }
    *ret_copy = copy;
    return KILN_OK;
}

void device_keys_done(device_keys *keys)
{
    for (cl_uint i = 0; keys->keys && i < keys->count; i++) {
        kiln_key_release(&keys->keys[i]);
    }
    free(keys->keys);
    free(keys->devices);
    kilni_text_done(&keys->reads);
    *keys = (device_keys){0};
}
