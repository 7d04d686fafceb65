/* SPDX-License-Identifier: Apache-2.0 */
#include "installed_drivers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>

#include "../text/memory.h"
#include "../text/output.h"
#include "opencl_library.h"

#define PART_DIGEST_SIZE 32
#define DEVICES_MAX 64

/* By default, a store records uses of an entry at most once in this interval. So the last use can
 * have been this much later than the recorded time. */
#define STAMP_INTERVAL_S 3600

/* A part as it is in keys: complete or stripped. */
typedef struct known_part {
    kiln_key *whole, *stripped; /* two keys, each of which contains only this part */
} known_part;

typedef struct known_driver {
    known_part platform;
    int64_t installed_s; /* when its library was installed; or OPENCL_INSTALLED_UNKNOWN */
    known_part *files;   /* empty: the driver's files are not known */
    size_t file_count, file_capacity;
    known_part *devices; /* their names */
    size_t device_count;
} known_driver;

typedef struct installed_drivers {
    known_driver drivers[OPENCL_PLATFORMS_MAX];
    size_t count;
} installed_drivers;

/* ---- parts ---- */

static known_part known_part_new(const char *name, const char *text)
{
    known_part part;
    kiln_key_builder *builder;
    must_succeed(kiln_key_builder_new(&builder));
    must_succeed(kiln_key_builder_add_text(builder, name, text));
    must_succeed(kiln_key_builder_finish(builder, &part.whole));
    must_succeed(kiln_key_strip(part.whole, 0, &part.stripped));
    kiln_key_builder_free(&builder);
    return part;
}

static void known_part_free(known_part *part)
{
    kiln_key_release(&part->whole);
    kiln_key_release(&part->stripped);
}

static bool is_part(const kiln_key_part *part, const known_part *known)
{
    kiln_key_part whole, stripped;
    must_succeed(kiln_key_part_at(known->whole, 0, &whole));
    must_succeed(kiln_key_part_at(known->stripped, 0, &stripped));
    if (part->size != whole.size || strcmp(part->name, whole.name) != 0) {
        return false;
    }
    return part->bytes != NULL ? memcmp(part->bytes, whole.bytes, (size_t)whole.size) == 0
                               : part->digest != NULL && stripped.digest != NULL &&
                                     memcmp(part->digest, stripped.digest, PART_DIGEST_SIZE) == 0;
}

static bool key_has(const kiln_key *key, const known_part *known)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (is_part(&part, known)) {
            return true;
        }
    }
    return false;
}

static bool key_names(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- drivers ---- */

static void add_file(void *user, const char *name, const char *identity)
{
    known_driver *driver = user;
    driver->files = array_grown(driver->files, driver->file_count, &driver->file_capacity,
                                sizeof *driver->files);
    owned char *line = text_of("%s %s", name, identity);
    driver->files[driver->file_count++] = known_part_new("driver.file", line);
}

static void add_devices(known_driver *driver, const opencl_functions *opencl,
                        cl_platform_id platform)
{
    cl_device_id devices[DEVICES_MAX];
    char name[OPENCL_TEXT_SIZE];
    cl_uint count = 0;
    if (opencl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count) !=
        CL_SUCCESS) {
        return;
    }
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    driver->devices = must(calloc(count, sizeof *driver->devices));
    for (cl_uint i = 0; i < count; i++) {
        if (opencl->clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof name - 1, name, NULL) ==
            CL_SUCCESS) {
            driver->devices[driver->device_count++] = known_part_new("device.name", name);
        }
    }
}

static void add_driver(installed_drivers *drivers, const opencl_functions *opencl,
                       cl_platform_id platform)
{
    char name[OPENCL_TEXT_SIZE];
    if (!opencl_platform_text(opencl, platform, CL_PLATFORM_NAME, name)) {
        return;
    }
    known_driver *driver = &drivers->drivers[drivers->count++];
    driver->platform = known_part_new("platform.name", name);
    driver->installed_s = opencl_installed_s(platform);
    add_devices(driver, opencl, platform);
    if (kiln_opencl_report_own_driver_files(platform, name, add_file, driver) != KILN_OK) {
        complain("the library of the driver of %s can't be found: its entries are kept", name);
    }
}

installed_drivers *installed_drivers_find(void)
{
    installed_drivers *drivers = must(calloc(1, sizeof *drivers));
    opencl_functions opencl;
    owned char *why = NULL;
    unsetenv("OPENCL_LAYERS"); /* layers are not drivers */
    if (!opencl_load(OPENCL_LIBRARY, &opencl, &why)) {
        complain("%s", why);
        return drivers;
    }
    cl_platform_id platforms[OPENCL_PLATFORMS_MAX];
    const cl_uint count = opencl_platforms(&opencl, platforms);
    for (cl_uint i = 0; i < count; i++) {
        add_driver(drivers, &opencl, platforms[i]);
    }
    return drivers;
}

void installed_drivers_free(installed_drivers *drivers)
{
    for (size_t i = 0; i < drivers->count; i++) {
        known_driver *driver = &drivers->drivers[i];
        for (size_t j = 0; j < driver->file_count; j++) {
            known_part_free(&driver->files[j]);
        }
        for (size_t j = 0; j < driver->device_count; j++) {
            known_part_free(&driver->devices[j]);
        }
        free(driver->files);
        free(driver->devices);
        known_part_free(&driver->platform);
    }
    free(drivers);
}

/* ---- entries ---- */

static bool key_has_all_files(const kiln_key *key, const known_driver *driver)
{
    for (size_t i = 0; i < driver->file_count; i++) {
        if (!key_has(key, &driver->files[i])) {
            return false;
        }
    }
    return true;
}

/* Also returns true if the key names no device. */
static bool has_device_of(const known_driver *driver, const kiln_key *key)
{
    for (size_t i = 0; i < driver->device_count; i++) {
        if (key_has(key, &driver->devices[i])) {
            return true;
        }
    }
    return !key_names(key, "device.name");
}

bool installed_drivers_fit(const installed_drivers *drivers, const kiln_key *key)
{
    for (size_t i = 0; i < drivers->count; i++) {
        const known_driver *driver = &drivers->drivers[i];
        if (key_has(key, &driver->platform) && key_has_all_files(key, driver) &&
            has_device_of(driver, key)) {
            return true;
        }
    }
    return !key_names(key, "platform.name");
}

/* Returns false only if the entry was certainly not used after the driver was installed. */
static bool may_be_used_since_installed(const known_driver *driver, int64_t last_used_s)
{
    return driver->installed_s == OPENCL_INSTALLED_UNKNOWN ||
           last_used_s >= driver->installed_s - STAMP_INTERVAL_S;
}

driver_verdict installed_drivers_compare(const installed_drivers *drivers, const kiln_key *key,
                                         int64_t last_used_s)
{
    driver_verdict verdict = DRIVER_UNKNOWN;
    for (size_t i = 0; i < drivers->count; i++) {
        const known_driver *driver = &drivers->drivers[i];
        if (!key_has(key, &driver->platform)) {
            continue;
        }
        if (driver->file_count == 0) {
            return DRIVER_UNKNOWN;
        }
        if (key_has_all_files(key, driver)) {
            return DRIVER_INSTALLED;
        }
        if (may_be_used_since_installed(driver, last_used_s)) {
            return DRIVER_UNKNOWN;
        }
        verdict = DRIVER_REPLACED;
    }
    return verdict;
}
