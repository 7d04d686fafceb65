/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/build_request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/opencl.h>

#include "device/opencl/binary.h"
#include "key/builder.h"
#include "os/clock.h"

#define REQUEST_VERSION 1u

/* ---- keys ---- */

kiln_status kilni_opencl_request_key(const kiln_key *const *keys, size_t count, kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status != KILN_OK) {
        return status;
    }
    kiln_key_builder_add_number(builder, KILN_REQUEST_PART, REQUEST_VERSION);
    for (size_t k = 0; k < count; k++) {
        kilni_key_parts_add(keys[k], builder);
    }
    status = kiln_key_builder_finish(builder, ret_key);
    kiln_key_builder_free(&builder);
    return status;
}

/* ---- writing ---- */

/* Finds the index of a root device among the devices of its platform. */
static kiln_status place_of_device(const cl_icd_dispatch *cl, cl_device_id device,
                                   uint64_t *ret_place)
{
    cl_platform_id platform = NULL;
    cl_uint count = 0;
    if (cl->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
            CL_SUCCESS ||
        cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    cl_device_id *all = calloc((size_t)count + 1, sizeof *all);
    if (!all) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_E_UNSUPPORTED;
    if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, all, NULL) == CL_SUCCESS) {
        for (cl_uint i = 0; i < count; i++) {
            if (all[i] == device) {
                *ret_place = i;
                status = KILN_OK;
            }
        }
    }
    free(all);
    return status;
}

static void add_devices(const kilni_opencl_described_build *build, kiln_key_builder *parts)
{
    for (cl_uint i = 0; i < build->device_count; i++) {
        uint64_t place = 0;
        kilni_key_builder_fail(parts, place_of_device(build->cl, build->devices[i], &place));
        kiln_key_builder_add_number(parts, "device", place);
    }
}

static void add_folder(kiln_key_builder *parts)
{
    char *folder = getcwd(NULL, 0);
    kilni_key_builder_fail(parts, folder ? KILN_OK : KILN_E_UNSUPPORTED);
    kiln_key_builder_add_text(parts, "folder", folder);
    free(folder);
}

static void add_source(const kiln_program_source *source, kiln_key_builder *parts)
{
    const char *name = source->form == KILN_SOURCE_IL ? "il" : "source";
    if (source->options) {
        kiln_key_builder_add_text(parts, "options", source->options);
    }
    kiln_key_builder_add(parts, name, source->code.data, source->code.size);
}

static kiln_status add_setting(void *user, const char *setting)
{
    return kiln_key_builder_add_text(user, "env", setting);
}

static void add_all(const kilni_opencl_described_build *build, kiln_key_builder *parts)
{
    kiln_key_builder_add_number(parts, "request", REQUEST_VERSION);
    kiln_key_builder_add_text(parts, "platform", build->platform_name);
    add_devices(build, parts);
    add_folder(parts);
    kilni_floating_point_add_to_key(parts);
    add_source(build->source, parts);
    kilni_opencl_constants_add_to_key(build->constants, parts);
    kilni_opencl_each_needed_variable(build->platform_name, build->key_environment, add_setting,
                                      parts);
}

static kiln_status make_entry(const kilni_opencl_described_build *build,
                              const kiln_key *request_key, const kiln_key *parts,
                              kiln_entry **ret_request)
{
    char *device = kilni_opencl_device_text(build->cl, build->devices[0]);
    kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = request_key,
        .kind = KILN_ENTRY_REQUEST,
        .provenance = {.struct_size = sizeof params.provenance,
                       .tool = build->tool,
                       .device = device,
                       .build_ns = build->build_ns},
    };
    params.payload.data = kiln_key_encoding(parts, &params.payload.size);
    const kiln_status status = kiln_entry_new(&params, ret_request);
    free(device);
    return status;
}

kiln_status kilni_opencl_request_new(const kilni_opencl_described_build *build,
                                     const kiln_key *request_key, kiln_entry **ret_request)
{
    kiln_key_builder *builder = NULL;
    kiln_key *parts = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        add_all(build, builder);
        status = kiln_key_builder_finish(builder, &parts);
    }
    if (status == KILN_OK) {
        status = make_entry(build, request_key, parts, ret_request);
    }
    kiln_key_release(&parts);
    kiln_key_builder_free(&builder);
    return status;
}

/* ---- reading ---- */

int kilni_opencl_request_is_open(const kiln_entry *request)
{
    return kiln_entry_payload(request).size > 0;
}

int kilni_opencl_request_has_expired(const kiln_entry *request)
{
    const int64_t now_s = kilni_clock_unix_s();
    const int64_t created_s = kiln_entry_provenance(request).created_s;
    return created_s < now_s - KILN_OPENCL_REQUEST_AGE_S ||
           created_s > now_s + KILN_OPENCL_REQUEST_AGE_S;
}

/* Finds the first part named @name at the index *at or later, and sets *at to the index after that
 * part. Skips parts of which the key holds only the digest. Returns 0 if there is no such part. */
static int next_part(const kiln_key *parts, const char *name, size_t *at, kiln_key_part *ret_part)
{
    for (; *at < kiln_key_part_count(parts); ++*at) {
        kiln_key_part part;
        kiln_key_part_at(parts, *at, &part);
        if (strcmp(part.name, name) == 0 && (part.bytes || part.size == 0)) {
            *ret_part = part;
            ++*at;
            return 1;
        }
    }
    return 0;
}

static int first_part(const kiln_key *parts, const char *name, kiln_key_part *ret_part)
{
    size_t at = 0;
    return next_part(parts, name, &at, ret_part);
}

static uint64_t number_of(const kiln_key_part *part)
{
    const unsigned char *bytes = part->bytes;
    uint64_t number = 0;
    for (uint64_t i = 0; i < 8 && i < part->size; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

/* Returns KILN_OK; KILN_MISS: there is no such part; KILN_E_CORRUPT; KILN_E_NO_MEMORY. */
static kiln_status read_text(const kiln_key *parts, const char *name, char **ret_text)
{
    kiln_key_part part;
    if (!first_part(parts, name, &part)) {
        return KILN_MISS;
    }
    if (part.size > 0 && memchr(part.bytes, '\0', (size_t)part.size)) {
        return KILN_E_CORRUPT;
    }
    char *text = calloc(1, (size_t)part.size + 1);
    if (!text) {
        return KILN_E_NO_MEMORY;
    }
    if (part.size > 0) {
        memcpy(text, part.bytes, (size_t)part.size);
    }
    *ret_text = text;
    return KILN_OK;
}

static kiln_status read_source(kilni_opencl_request_parts *read)
{
    kiln_key_part part;
    const int is_text = first_part(read->parts, "source", &part);
    if (!is_text && !first_part(read->parts, "il", &part)) {
        return KILN_E_CORRUPT;
    }
    read->source = (kiln_program_source){
        .struct_size = sizeof read->source,
        .form = is_text ? KILN_SOURCE_TEXT : KILN_SOURCE_IL,
        .code = {part.bytes, (size_t)part.size},
        .options = read->options,
    };
    return KILN_OK;
}

static size_t count_parts(const kiln_key *parts, const char *name)
{
    kiln_key_part part;
    size_t count = 0;
    for (size_t at = 0; next_part(parts, name, &at, &part);) {
        count++;
    }
    return count;
}

static kiln_status read_devices(kilni_opencl_request_parts *read)
{
    const size_t count = count_parts(read->parts, "device");
    if (count == 0) {
        return KILN_E_CORRUPT;
    }
    read->devices = calloc(count, sizeof *read->devices);
    if (!read->devices) {
        return KILN_E_NO_MEMORY;
    }
    kiln_key_part part;
    for (size_t at = 0; next_part(read->parts, "device", &at, &part);) {
        read->devices[read->device_count++] = number_of(&part);
    }
    return KILN_OK;
}

static kiln_status read_constants(kilni_opencl_request_parts *read)
{
    kiln_status status = KILN_OK;
    kiln_key_part number, value;
    size_t numbers = 0, values = 0;
    while (status == KILN_OK && next_part(read->parts, "constant", &numbers, &number)) {
        status = !next_part(read->parts, "constant.value", &values, &value) ||
                         number_of(&number) > UINT32_MAX
                     ? KILN_E_CORRUPT
                     : kilni_opencl_constants_set(&read->constants, (cl_uint)number_of(&number),
                                                  (size_t)value.size, value.bytes);
    }
    return status;
}

static kiln_status read_texts(kilni_opencl_request_parts *read)
{
    kiln_status status = read_text(read->parts, "platform", &read->platform_name);
    if (status == KILN_OK) {
        status = read_text(read->parts, "folder", &read->folder);
    }
    if (status != KILN_OK) {
        return status;
    }
    status = read_text(read->parts, "options", &read->options);
    return status == KILN_MISS ? KILN_OK : status;
}

static kiln_status read_mode(kilni_opencl_request_parts *read)
{
    kiln_key_part part;
    read->mode = kilni_floating_point_default();
    return first_part(read->parts, KILNI_FLOATING_POINT_PART, &part)
               ? kilni_floating_point_read(part.bytes, part.size, &read->mode)
               : KILN_OK;
}

static kiln_status read_all(kilni_opencl_request_parts *read)
{
    kiln_key_part part;
    if (!first_part(read->parts, "request", &part) || number_of(&part) != REQUEST_VERSION) {
        return KILN_E_CORRUPT;
    }
    kiln_status status = read_devices(read);
    if (status == KILN_OK) {
        status = read_constants(read);
    }
    if (status == KILN_OK) {
        status = read_texts(read);
    }
    if (status == KILN_OK) {
        status = read_mode(read);
    }
    return status == KILN_OK ? read_source(read) : status;
}

kiln_status kilni_opencl_request_read(const kiln_entry *request,
                                      kilni_opencl_request_parts *ret_parts)
{
    kilni_opencl_request_parts read = {0};
    const kiln_bytes payload = kiln_entry_payload(request);
    kiln_status status = kiln_entry_kind_of(request) == KILN_ENTRY_REQUEST && payload.size > 0
                             ? kiln_key_decode(payload.data, payload.size, &read.parts)
                             : KILN_E_CORRUPT;
    if (status == KILN_OK) {
        status = read_all(&read);
    }
    if (status != KILN_OK) {
        kilni_opencl_request_parts_done(&read);
        return status == KILN_MISS ? KILN_E_CORRUPT : status;
    }
    *ret_parts = read;
    return KILN_OK;
}

void kilni_opencl_request_parts_done(kilni_opencl_request_parts *parts)
{
    kiln_key_release(&parts->parts);
    free(parts->platform_name);
    free(parts->folder);
    free(parts->options);
    free(parts->devices);
    kilni_opencl_constants_done(&parts->constants);
    *parts = (kilni_opencl_request_parts){0};
}

kiln_status kiln_opencl_report_request(const kiln_entry *request, kiln_opencl_report_fn report,
                                       void *user)
{
    if (!request || !report) {
        return KILN_E_INVALID;
    }
    kilni_opencl_request_parts read;
    kiln_status status = kilni_opencl_request_read(request, &read);
    if (status != KILN_OK) {
        return status;
    }
    kiln_key_part part;
    for (size_t at = 0; status == KILN_OK && next_part(read.parts, "env", &at, &part);) {
        char *setting = strndup(part.bytes ? part.bytes : "", (size_t)part.size);
        char *value = setting ? strchr(setting, '=') : NULL;
        if (!setting) {
            status = KILN_E_NO_MEMORY;
        } else if (value && kilni_opencl_may_pass_variable(setting)) {
            *value = '\0';
            report(user, setting, value + 1);
        }
        free(setting);
    }
    kilni_opencl_request_parts_done(&read);
    return status;
}
