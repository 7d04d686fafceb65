/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/driver.h"

#include "base/text.h"
#include "device/driver_files.h"
#include "device/opencl/math_functions.h"
#include "device/opencl/traits.h"
#include "key/builder.h"

/* Each object of a driver begins with a pointer to a table of the driver's functions. The OpenCL
 * loader is excluded, because it compiles nothing, and because the same driver can run under any
 * loader. */
kiln_status kilni_opencl_driver_libraries(cl_platform_id platform, kilni_loaded_libraries *ret_all,
                                          kiln_error *error)
{
    const cl_icd_dispatch *table = *(const cl_icd_dispatch *const *)(const void *)platform;
    const uintptr_t functions[] = {(uintptr_t)table->clBuildProgram,
                                   (uintptr_t)table->clGetPlatformInfo,
                                   (uintptr_t)table->clGetDeviceIDs};
    return kilni_loaded_libraries_find(functions, sizeof functions / sizeof *functions,
                                       "libOpenCL.so", ret_all, error);
}

static void add_files(const kilni_driver_files *files, kiln_key_builder *key)
{
    kilni_text line = {0};
    for (size_t n = 0; n < files->count; n++) {
        const kilni_driver_file *file = &files->items[n];
        line.length = 0;
        kilni_key_builder_fail(key, kilni_text_printf(&line, "%s %s", file->name, file->identity));
        kiln_key_builder_add_text(key, "driver.file", line.bytes);
    }
    kilni_text_done(&line);
}

static kiln_status make_parts(const kilni_loaded_libraries *all, const kilni_driver_files *files,
                              kiln_key **ret_parts, kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        add_files(files, builder);
        status = kilni_math_functions_add(all, builder, error);
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
    kilni_loaded_libraries all;
    kilni_driver_files files = {0};
    kilni_opencl_driver driver = {0};
    kiln_status status = kilni_opencl_driver_libraries(platform, &all, error);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_driver_files_find(&all, kilni_opencl_traits_of(platform_name)->compiler_files,
                                     &files, error);
    if (status == KILN_OK) {
        status = make_parts(&all, &files, &driver.parts, error);
    }
    if (status == KILN_OK) {
        driver.stamps = files.stamps;
        files.stamps = (kilni_file_stamps){0};
        *ret_driver = driver;
    }
    kilni_driver_files_done(&files);
    kilni_loaded_libraries_done(&all);
    return status;
}

void kilni_opencl_driver_done(kilni_opencl_driver *driver)
{
    kiln_key_release(&driver->parts);
    kilni_file_stamps_done(&driver->stamps);
}
