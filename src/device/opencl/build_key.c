/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/build_key.h"

#include "device/opencl/inputs.h"
#include "key/builder.h"

kiln_status kilni_opencl_get_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key **ret_identity,
                                      kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kilni_opencl_add_identity(cl, device, driver, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_identity);
    }
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kilni_opencl_begin_key(const kilni_opencl_site *site, kiln_key_builder **ret_builder,
                                   kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kilni_key_parts_add(site->identity, builder);
    }
    if (status == KILN_OK) {
        status =
            kilni_opencl_add_environment(site->platform_name, site->environment, builder, error);
    }
    if (status != KILN_OK) {
        kiln_key_builder_free(&builder);
        return status;
    }
    *ret_builder = builder;
    return KILN_OK;
}

kiln_status kilni_opencl_build_key(const kilni_opencl_site *site, const kiln_program_source *source,
                                   const kilni_opencl_constants *constants, kiln_key **ret_key,
                                   kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kilni_opencl_begin_key(site, &builder, error);
    if (status == KILN_OK) {
        status = kilni_opencl_add_inputs(source, builder, error);
    }
    if (status == KILN_OK) {
        status = kilni_opencl_constants_add_to_key(constants, builder);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}
