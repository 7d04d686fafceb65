/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "doctor_opencl.h"

#define DEVICES_MAX 256

/* ---- what each key contains ---- */

static void add_member(void *user, const char *name, const char *value)
{
    json_add(user, name, json_text_or_null(value));
}

/* A driver can have several files with the same name, so a number is appended to the names of the
 * second file and later files. */
static void add_file(void *user, const char *name, const char *identity)
{
    char *unique = must(strdup(name));
    for (unsigned number = 2; json_object_get(user, unique) != NULL; number++) {
        free(unique);
        unique = text_of("%s (%u)", name, number);
    }
    json_add(user, unique, json_text_or_null(identity));
    free(unique);
}

/* Adds to a platform's object the parts that each key on this platform has. These are
 * "key_variables" and "driver_files". The members of "key_variables" are patterns or names of
 * variables; a variable that is not set is null. The members of "driver_files" are the files'
 * identities. */
static void add_key_of_platform(examination *doctor, json_t *platform, void *handle,
                                const char *name)
{
    json_t *variables = must(json_object());
    json_t *files = must(json_object());
    kiln_opencl_report_environment(name, doctor->config->key_variables, add_member, variables);
    if (kiln_opencl_report_driver_files(handle, name, add_file, files) != KILN_OK) {
        doctor_problem(doctor, "the library of the driver of %s can't be found: nothing is cached",
                       name == NULL ? "a platform" : name);
    }
    json_add(platform, "key_variables", variables);
    json_add(platform, "driver_files", files);
}

/* ---- platforms and devices ---- */

static json_t *platform_text(const opencl_functions *opencl, cl_platform_id platform,
                             cl_platform_info name)
{
    char text[OPENCL_TEXT_SIZE];
    return opencl_platform_text(opencl, platform, name, text) ? json_text_or_null(text)
                                                              : json_null();
}

static json_t *device_text(const opencl_functions *opencl, cl_device_id device, cl_device_info name)
{
    char text[1024] = "";
    bool is_known =
        opencl->clGetDeviceInfo(device, name, sizeof text - 1, text, NULL) == CL_SUCCESS;
    return is_known ? json_text_or_null(text) : json_null();
}

static json_t *devices_of(const opencl_functions *opencl, cl_platform_id platform)
{
    json_t *list = must(json_array());
    cl_device_id devices[DEVICES_MAX];
    cl_uint count = 0;
    if (opencl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count) !=
        CL_SUCCESS) {
        return list;
    }
    for (cl_uint i = 0; i < count && i < DEVICES_MAX; i++) {
        json_t *object = must(json_object());
        json_add(object, "name", device_text(opencl, devices[i], CL_DEVICE_NAME));
        json_add(object, "version", device_text(opencl, devices[i], CL_DEVICE_VERSION));
        json_add(object, "driver_version", device_text(opencl, devices[i], CL_DRIVER_VERSION));
        json_push(list, object);
    }
    return list;
}

size_t doctor_report_platforms(examination *doctor, const opencl_functions *opencl)
{
    json_t *list = must(json_array());
    cl_platform_id platforms[OPENCL_PLATFORMS_MAX];
    const cl_uint count = opencl_platforms(opencl, platforms);
    for (cl_uint i = 0; i < count; i++) {
        json_t *object = must(json_object());
        json_t *devices = devices_of(opencl, platforms[i]);
        json_add(object, "name", platform_text(opencl, platforms[i], CL_PLATFORM_NAME));
        json_add(object, "vendor", platform_text(opencl, platforms[i], CL_PLATFORM_VENDOR));
        json_add(object, "version", platform_text(opencl, platforms[i], CL_PLATFORM_VERSION));
        const char *name = json_string_value(json_object_get(object, "name"));
        add_key_of_platform(doctor, object, platforms[i], name);
        if (json_array_size(devices) == 0) {
            doctor_problem(doctor, "the platform %s has no device", name == NULL ? "?" : name);
        }
        json_add(object, "devices", devices);
        json_push(list, object);
    }
    json_add(doctor->report, "platforms", list);
    return count;
}
