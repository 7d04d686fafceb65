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
    const kilni_opencl_driver *driver; /* NULL: not identified yet */
    kiln_key_builder *key;
    kiln_error *error;
} identification;

/* Records a failure. If there are several, the error describes only the first failure. */
static void fail(const identification *i, const char *what)
{
    if (kilni_key_builder_fail(i->key, KILN_OK) == KILN_OK) {
        kilni_error_set(i->error, KILN_E_UNSUPPORTED, 0, "the driver does not report its %s", what);
    }
    kilni_key_builder_fail(i->key, KILN_E_UNSUPPORTED);
}

/* ---- querying the driver ---- */

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

/* Returns an answer of any size, followed by a zero byte. Returns NULL if the query failed, or if
 * memory ran out. */
static char *get_answer(const identification *i, query_fn query, cl_uint name, const char *what,
                        size_t *ret_size)
{
    size_t size = 0;
    if (query(i, name, 0, NULL, &size) != CL_SUCCESS) {
        fail(i, what);
        return NULL;
    }
    char *bytes = calloc(1, size + 1);
    if (!bytes) {
        kilni_key_builder_fail(i->key, KILN_E_NO_MEMORY);
    } else if (size > 0 && query(i, name, size, bytes, NULL) != CL_SUCCESS) {
        fail(i, what);
        free(bytes);
        bytes = NULL;
    }
    *ret_size = size;
    return bytes;
}

/* Adds a part with the text that the query returns. Returns the text, which the caller frees.
 * Returns NULL if the query failed, or if memory ran out. */
static char *add_text(const identification *i, query_fn query, cl_uint name, const char *part)
{
    size_t size;
    char *text = get_answer(i, query, name, part, &size);
    kiln_key_builder_add_text(i->key, part, text);
    return text;
}

static void add_number(const identification *i, cl_device_info name, const char *part)
{
    cl_uint number = 0;
    if (query_device(i, name, sizeof number, &number, NULL) != CL_SUCCESS) {
        fail(i, part);
    }
    kiln_key_builder_add_number(i->key, part, number);
}

/* ---- the parts ---- */

static void add_platform(identification *i)
{
    if (query_device(i, CL_DEVICE_PLATFORM, sizeof(i->platform), &i->platform, NULL) !=
            CL_SUCCESS ||
        !i->platform) {
        fail(i, "platform");
        return;
    }
    i->platform_name = add_text(i, query_platform, CL_PLATFORM_NAME, "platform.name");
    free(add_text(i, query_platform, CL_PLATFORM_VERSION, "platform.version"));
}

static void add_device(const identification *i)
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
    for (size_t n = 0; n < sizeof strings / sizeof *strings; n++) {
        free(add_text(i, query_device, strings[n].name, strings[n].part));
    }
    add_number(i, CL_DEVICE_VENDOR_ID, "device.vendor_id");
    add_number(i, CL_DEVICE_ADDRESS_BITS, "device.address_bits");
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

/* Appends facts that only some drivers report. The device's own UUID is not among them, because it
 * identifies one particular card. */
static void add_optional_facts(const identification *i)
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
    for (size_t n = 0; n < sizeof facts / sizeof *facts; n++) {
        unsigned char value[CL_UUID_SIZE_KHR];
        if (has_extension(i, facts[n].extension) &&
            query_device(i, facts[n].name, facts[n].size, value, NULL) == CL_SUCCESS) {
            kiln_key_builder_add(i->key, facts[n].part, value, facts[n].size);
        }
    }
}

/* Appends how a sub-device was made from its parent, namely the properties of the partition. Also
 * appends the size of the sub-device. */
static void add_partition(const identification *i)
{
    size_t size = 0;
    char *properties =
        get_answer(i, query_device, CL_DEVICE_PARTITION_TYPE, "device.partition", &size);
    kiln_key_builder_add(i->key, "device.partition", properties, size);
    free(properties);
    add_number(i, CL_DEVICE_MAX_COMPUTE_UNITS, "device.partition.units");
}

/* Appends the partition of a sub-device and of each of its ancestors. Appends nothing for a root
 * device. */
static void add_partitions(const identification *i)
{
    identification level = *i;
    cl_device_id parent = NULL;
    /* OpenCL before 1.2 has no sub-devices and does not know this query. */
    while (query_device(&level, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL) ==
               CL_SUCCESS &&
           parent) {
        add_partition(&level);
        level.device = parent;
    }
}

static void add_cpu(const identification *i)
{
    cl_device_type type = 0;
    if (query_device(i, CL_DEVICE_TYPE, sizeof type, &type, NULL) != CL_SUCCESS) {
        fail(i, "type");
    }
    if (!(type & CL_DEVICE_TYPE_CPU)) {
        return;
    }
    kilni_text text = {0};
    const kiln_status status = kilni_cpu_describe(&text);
    if (status != KILN_OK) {
        kilni_error_set(i->error, status, 0, "the processor can't be identified");
    }
    kilni_key_builder_fail(i->key, status);
    kiln_key_builder_add_text(i->key, "cpu", text.bytes);
    kilni_text_done(&text);
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
    add_platform(i);
    if (i->platform) {
        add_device(i);
        i->extensions = add_text(i, query_device, CL_DEVICE_EXTENSIONS, "device.extensions");
    }
    if (i->extensions) {
        add_optional_facts(i);
        add_partitions(i);
        add_cpu(i);
    }
    const kiln_status status = kilni_key_builder_fail(i->key, KILN_OK);
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
