/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as the payload of a request. Everything read must lie within the request, and its
 * variables must not include any that would load foreign code.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/build_request.h"

#include <kiln/opencl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static kiln_entry *request_with(const uint8_t *data, size_t size)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK) {
        kiln_key_builder_finish(builder, &key);
    }
    kiln_key_builder_free(&builder);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_REQUEST,
        .provenance.struct_size = sizeof params.provenance,
        .payload = {data, size},
    };
    if (key) {
        kiln_entry_new(&params, &entry);
    }
    kiln_key_release(&key);
    return entry;
}

static void require_harmless(void *user, const char *name, const char *value)
{
    size_t *length = user;
    require(strcmp(name, "LD_PRELOAD") != 0 && strcmp(name, "OPENCL_LAYERS") != 0);
    *length += strlen(name) + strlen(value);
}

static void look_at(const kilni_opencl_request_parts *read)
{
    size_t size = 0;
    const char *bytes = kiln_key_encoding(read->parts, &size);
    const char *code = read->source.code.data;
    require(read->source.code.size == 0 ||
            (code >= bytes && read->source.code.size <= size - (size_t)(code - bytes)));
    require(read->device_count > 0 && read->platform_name && read->folder);
    for (size_t i = 1; i < read->constants.count; i++) {
        require(read->constants.items[i - 1].id < read->constants.items[i].id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_entry *request = request_with(data, size);
    if (!request) {
        return 0;
    }
    kilni_opencl_request_parts read;
    size_t length = 0;
    if (kilni_opencl_request_read(request, &read) == KILN_OK) {
        look_at(&read);
        kilni_opencl_request_parts_done(&read);
        require(kiln_opencl_report_request(request, require_harmless, &length) == KILN_OK);
        require(length <= size);
    }
    kiln_entry_release(&request);
    return 0;
}
