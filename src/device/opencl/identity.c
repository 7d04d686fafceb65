/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl_ext.h>

#include <kiln/opencl.h>

#include "base/error.h"
#include "base/text.h"
#include "device/cpu.h"
#include "device/driver_files.h"
#include "key/builder.h"
#include "traits.h"

/* Everything that the steps below share. */
typedef struct identification {
    const cl_icd_dispatch *cl;
    cl_device_id device;
    cl_platform_id platform;
    char *platform_name;
    char *extensions;
    const kilni_opencl_driver *driver; /* NULL: not known yet */
    kiln_key_builder *key;
    kiln_error *error;
} identification;

static kiln_status fail(const identification *i, const char *what)
{
    return kilni_error_set(i->error, KILN_E_UNSUPPORTED, 0, "the driver does not tell its %s",
                           what);
}

/* ---- asking the driver ---- */

typedef cl_int (*query_fn)(const identification *i, cl_uint name, size_t size, void *value,
                           size_t *ret_size);

static cl_int query_device(const identification *i, cl_uint name, size_t size, void *value,
                           size_t *ret_size)
{
    return i->cl->clGetDeviceInfo(i->device, name, size, value, ret_size);
}

static cl_int query_platform(const identification *i, cl_uint name, size_t size, void *value,
                             size_t *ret_size)
{
    return i->cl->clGetPlatformInfo(i->platform, name, size, value, ret_size);
}

/* Bytes of an answer of any size, with a zero byte behind them. */
static kiln_status ask(const identification *i, query_fn query, cl_uint name, const char *what,
                       char **ret_bytes, size_t *ret_size)
{
    size_t size = 0;
    if (query(i, name, 0, NULL, &size) != CL_SUCCESS) {
        return fail(i, what);
    }
    char *bytes = calloc(1, size + 1);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    if (size > 0 && query(i, name, size, bytes, NULL) != CL_SUCCESS) {
        free(bytes);
        return fail(i, what);
    }
    *ret_bytes = bytes;
    *ret_size = size;
    return KILN_OK;
}

static kiln_status add_string(const identification *i, query_fn query, cl_uint name,
                              const char *part)
{
    char *text;
    size_t size;
    kiln_status status = ask(i, query, name, part, &text, &size);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(i->key, part, text);
        free(text);
    }
    return status;
}

static kiln_status add_number(const identification *i, cl_device_info name, const char *part)
{
    cl_uint number;
    if (query_device(i, name, sizeof number, &number, NULL) != CL_SUCCESS) {
        return fail(i, part);
    }
    return kiln_key_builder_add_number(i->key, part, number);
}

/* ---- the parts ---- */

static kiln_status add_platform(identification *i)
{
    size_t size;
    if (query_device(i, CL_DEVICE_PLATFORM, sizeof(i->platform), &i->platform, NULL) !=
            CL_SUCCESS ||
        !i->platform) {
        return fail(i, "platform");
    }
    kiln_status status =
        ask(i, query_platform, CL_PLATFORM_NAME, "platform.name", &i->platform_name, &size);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(i->key, "platform.name", i->platform_name);
    }
    return status == KILN_OK
               ? add_string(i, query_platform, CL_PLATFORM_VERSION, "platform.version")
               : status;
}

static kiln_status add_device(identification *i)
{
    static const struct {
        cl_device_info name;
        const char *part;
    } strings[] = {
        {CL_DEVICE_NAME, "device.name"},
        {CL_DEVICE_VERSION, "device.version"},
        {CL_DRIVER_VERSION, "device.driver_version"},
        {CL_DEVICE_OPENCL_C_VERSION, "device.opencl_c_version"},
    };
    kiln_status status = KILN_OK;
    for (size_t n = 0; n < sizeof strings / sizeof *strings && status == KILN_OK; n++) {
        status = add_string(i, query_device, strings[n].name, strings[n].part);
    }
    if (status == KILN_OK) {
        status = add_number(i, CL_DEVICE_VENDOR_ID, "device.vendor_id");
    }
    if (status == KILN_OK) {
        status = add_number(i, CL_DEVICE_ADDRESS_BITS, "device.address_bits");
    }
    return status;
}

static kiln_status add_extensions(identification *i)
{
    size_t size;
    kiln_status status =
        ask(i, query_device, CL_DEVICE_EXTENSIONS, "device.extensions", &i->extensions, &size);
    return status == KILN_OK ? kiln_key_builder_add_text(i->key, "device.extensions", i->extensions)
                             : status;
}

static bool has_extension(const identification *i, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = i->extensions; (at = strstr(at, name)) != NULL; at += length) {
        bool begins = at == i->extensions || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Facts that only some drivers tell. The device's own UUID is not among them: it names one card. */
static kiln_status add_optional_facts(const identification *i)
{
    static const struct {
        const char *extension;
        cl_device_info name;
        size_t size;
        const char *part;
    } facts[] = {
        {"cl_khr_device_uuid", CL_DRIVER_UUID_KHR, CL_UUID_SIZE_KHR, "device.driver_uuid"},
        {"cl_nv_device_attribute_query", CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, sizeof(cl_uint),
         "device.compute_capability.major"},
        {"cl_nv_device_attribute_query", CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, sizeof(cl_uint),
         "device.compute_capability.minor"},
        {"cl_intel_device_attribute_query", CL_DEVICE_IP_VERSION_INTEL, sizeof(cl_uint),
         "device.ip_version"},
    };
    kiln_status status = KILN_OK;
    for (size_t n = 0; n < sizeof facts / sizeof *facts && status == KILN_OK; n++) {
        unsigned char value[CL_UUID_SIZE_KHR];
        if (has_extension(i, facts[n].extension) &&
            query_device(i, facts[n].name, facts[n].size, value, NULL) == CL_SUCCESS) {
            status = kiln_key_builder_add(i->key, facts[n].part, value, facts[n].size);
        }
    }
    return status;
}

/* How one sub-device was cut from its parent: the properties, and how large it came out. */
static kiln_status add_partition(const identification *i)
{
    char *properties;
    size_t size;
    cl_uint units;
    kiln_status status =
        ask(i, query_device, CL_DEVICE_PARTITION_TYPE, "device.partition", &properties, &size);
    if (status != KILN_OK) {
        return status;
    }
    status = kiln_key_builder_add(i->key, "device.partition", properties, size);
    free(properties);
    if (status != KILN_OK) {
        return status;
    }
    if (query_device(i, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL) != CL_SUCCESS) {
        return fail(i, "compute units");
    }
    return kiln_key_builder_add_number(i->key, "device.partition.units", units);
}

/* From the sub-device up; a root device adds nothing. */
static kiln_status add_partitions(const identification *i)
{
    identification level = *i;
    for (;;) {
        cl_device_id parent = NULL;
        /* Before OpenCL 1.2 there are no sub-devices, and no such question. */
        if (query_device(&level, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL) !=
                CL_SUCCESS ||
            !parent) {
            return KILN_OK;
        }
        kiln_status status = add_partition(&level);
        if (status != KILN_OK) {
            return status;
        }
        level.device = parent;
    }
}

static kiln_status add_cpu(const identification *i)
{
    cl_device_type type = 0;
    if (query_device(i, CL_DEVICE_TYPE, sizeof type, &type, NULL) != CL_SUCCESS) {
        return fail(i, "type");
    }
    if (!(type & CL_DEVICE_TYPE_CPU)) {
        return KILN_OK;
    }
    kilni_text text = {0};
    kiln_status status = kilni_cpu_describe(&text);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(i->key, "cpu", text.bytes);
    } else {
        kilni_error_set(i->error, status, 0, "the processor can't be identified");
    }
    kilni_text_done(&text);
    return status;
}

static kiln_status add_driver(const identification *i)
{
    if (i->driver) {
        return kilni_key_parts_add(i->driver->parts, i->key);
    }
    kilni_opencl_driver driver;
    kiln_status status =
        kilni_opencl_driver_identify(i->platform, i->platform_name, &driver, i->error);
    if (status == KILN_OK) {
        status = kilni_key_parts_add(driver.parts, i->key);
        kilni_opencl_driver_done(&driver);
    }
    return status;
}

static kiln_status add_all(identification *i)
{
    kiln_status status = add_platform(i);
    if (status == KILN_OK) {
        status = add_device(i);
    }
    if (status == KILN_OK) {
        status = add_extensions(i);
    }
    if (status == KILN_OK) {
        status = add_optional_facts(i);
    }
    if (status == KILN_OK) {
        status = add_partitions(i);
    }
    if (status == KILN_OK) {
        status = add_cpu(i);
    }
    return status == KILN_OK ? add_driver(i) : status;
}

kiln_status kilni_opencl_add_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key_builder *key,
                                      kiln_error *error)
{
    identification i = {.cl = cl, .device = device, .driver = driver, .key = key, .error = error};
    kiln_status status = add_all(&i);
    free(i.platform_name);
    free(i.extensions);
    return status;
}

static kiln_status report_files(void *platform, const char *platform_name, bool only_own,
                                kiln_opencl_report_fn report, void *user)
{
    if (!platform || !report) {
        return KILN_E_INVALID;
    }
    kilni_loaded_libraries all;
    kilni_driver_files files;
    kiln_status status = kilni_opencl_driver_libraries(platform, &all, NULL);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_driver_files_find(&all, kilni_opencl_traits_of(platform_name)->compiler_files,
                                     &files, NULL);
    kilni_loaded_libraries_done(&all);
    if (status != KILN_OK) {
        return status;
    }
    for (size_t i = 0; i < files.count; i++) {
        if (files.items[i].is_own || !only_own) {
            report(user, files.items[i].name, files.items[i].identity);
        }
    }
    kilni_driver_files_done(&files);
    return KILN_OK;
}

kiln_status kiln_opencl_report_driver_files(void *platform, const char *platform_name,
                                            kiln_opencl_report_fn report, void *user)
{
    return report_files(platform, platform_name, false, report, user);
}

kiln_status kiln_opencl_report_own_driver_files(void *platform, const char *platform_name,
                                                kiln_opencl_report_fn report, void *user)
{
    return report_files(platform, platform_name, true, report, user);
}
