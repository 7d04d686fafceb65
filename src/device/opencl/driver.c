/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/driver.h"

#include "base/text.h"
#include "device/opencl/driver_files.h"
#include "device/opencl/math_functions.h"
#include "device/opencl/traits.h"

static kiln_status add_files(const kilni_driver_files *files, kiln_key_builder *key)
{
    kilni_text line = {0};
    kiln_status status = KILN_OK;
    for (size_t n = 0; n < files->count && status == KILN_OK; n++) {
        line.length = 0;
        status = kilni_text_printf(&line, "%s %s", files->items[n].name, files->items[n].identity);
        if (status == KILN_OK) {
            status = kiln_key_builder_add_text(key, "driver.file", line.bytes);
        }
    }
    kilni_text_done(&line);
    return status;
}

static kiln_status make_parts(cl_platform_id platform, const kilni_driver_files *files,
                              kiln_key **ret_parts, kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_files(files, builder);
    }
    if (status == KILN_OK) {
        status = kilni_math_functions_add(platform, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_parts);
    }
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kilni_opencl_driver_identify(cl_platform_id platform, const char *platform_name,
                                         kilni_opencl_driver *ret_driver, kiln_error *error)
{
    kilni_driver_files files = {0};
    kilni_opencl_driver driver = {0};
    kiln_status status = kilni_driver_files_find(
        platform, kilni_opencl_traits_of(platform_name)->compiler_files, &files, error);
    if (status == KILN_OK) {
        status = make_parts(platform, &files, &driver.parts, error);
    }
    if (status == KILN_OK) {
        driver.stamps = files.stamps;
        files.stamps = (kilni_file_stamps){0};
        *ret_driver = driver;
    }
    kilni_driver_files_done(&files);
    return status;
}

void kilni_opencl_driver_done(kilni_opencl_driver *driver)
{
    kiln_key_release(&driver->parts);
    kilni_file_stamps_done(&driver->stamps);
}
