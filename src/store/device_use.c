/* SPDX-License-Identifier: Apache-2.0 */
#include "store/device_use.h"

#define DEVICE_PART "device in use"

bool kilni_device_use_is_known(const kiln_entry *entry)
{
    return kiln_entry_kind_of(entry) == KILN_ENTRY_PROGRAM &&
           kiln_entry_provenance(entry).device[0] != '\0';
}

kiln_status kilni_device_use_key_of(const char *device, kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        kiln_key_builder_add_text(builder, DEVICE_PART, device);
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kilni_device_use_entry_of(const char *device, kiln_entry **ret_use)
{
    kiln_key *key = NULL;
    kiln_status status = kilni_device_use_key_of(device, &key);
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = KILN_ENTRY_BLOB,
            .provenance = {.struct_size = sizeof params.provenance, .device = device},
        };
        status = kiln_entry_new(&params, ret_use);
    }
    kiln_key_release(&key);
    return status;
}
