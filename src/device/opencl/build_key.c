/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/build_key.h"

#include "device/opencl/defeating_constant.h"
#include "device/opencl/traits.h"
#include "device/watch/working_folder.h"
#include "key/builder.h"

/* @added is the status of adding the key's parts. Finishes the key if @added is KILN_OK. Frees the
 * builder in any case. */
static kiln_status finish_key(kiln_key_builder *builder, kiln_status added, kiln_key **ret_key)
{
    const kiln_status status = added == KILN_OK ? kiln_key_builder_finish(builder, ret_key) : added;
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status kilni_opencl_get_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key **ret_identity,
                                      kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    const kiln_status status = kiln_key_builder_new(&builder);
    if (status != KILN_OK) {
        return status;
    }
    return finish_key(builder, kilni_opencl_add_identity(cl, device, driver, builder, error),
                      ret_identity);
}

/* Creates a builder that has the first parts of every key: the identity of the device and its
 * driver, and the present environment. */
static kiln_status begin_key(const kilni_opencl_site *site, kiln_key_builder **ret_builder,
                             kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status != KILN_OK) {
        return status;
    }
    kilni_key_parts_add(site->identity, builder);
    status = kilni_opencl_add_environment(site->platform_name, site->environment, builder, error);
    if (status != KILN_OK) {
        kiln_key_builder_free(&builder);
        return status;
    }
    *ret_builder = builder;
    return KILN_OK;
}

/* Adds PWD if it is a path to the working directory, but differs from the path that getcwd
 * returns. */
static kiln_status add_spelled_folder(kiln_key_builder *key)
{
    kilni_working_folder folder = {0};
    kiln_status status = kilni_working_folder_find(&folder);
    if (status == KILN_OK && folder.spelled) {
        status = kiln_key_builder_add_text(key, "env.PWD", folder.spelled);
    }
    kilni_working_folder_done(&folder);
    return status;
}

static kiln_status add_inputs(const kilni_opencl_site *site, const kiln_program_source *source,
                              const kilni_opencl_headers *headers, kiln_key_builder *key,
                              kilni_opencl_texts *ret_texts, kiln_error *error)
{
    const kilni_opencl_traits *traits = kilni_opencl_traits_of(site->platform_name);
    const kiln_status status =
        kilni_opencl_add_inputs(source, headers, traits->compiler != NULL, key, ret_texts, error);
    return status == KILN_OK && ret_texts->may_read && traits->knows_working_folder
               ? add_spelled_folder(key)
               : status;
}

static kiln_status build_key(const kilni_opencl_site *site, const kiln_program_source *source,
                             const kilni_opencl_constants *constants, bool has_source_end,
                             kilni_opencl_texts *ret_texts, kiln_key **ret_key, kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = begin_key(site, &builder, error);
    if (status != KILN_OK) {
        return status;
    }
    status = add_inputs(site, source, &(kilni_opencl_headers){0}, builder, ret_texts, error);
    if (has_source_end) {
        kiln_key_builder_add_text(builder, "source.end", KILNI_DEFEATING_DECLARATION);
    }
    kilni_opencl_constants_add_to_key(constants, builder);
    ret_texts->has_source_end = has_source_end;
    return finish_key(builder, status, ret_key);
}

kiln_status kilni_opencl_build_key(const kilni_opencl_site *site, const kiln_program_source *source,
                                   const kilni_opencl_constants *constants,
                                   kilni_opencl_texts *ret_texts, kiln_key **ret_key,
                                   kiln_error *error)
{
    kiln_program_source own = *source;
    const bool has_constant = kilni_opencl_ends_with_defeating_constant(source, &own.code.size);
    kiln_status status = build_key(site, &own, constants, has_constant, ret_texts, ret_key, error);
    if (status == KILN_OK && has_constant &&
        kilni_opencl_words_may_name_constant(&ret_texts->words)) {
        kiln_key_release(ret_key);
        status = build_key(site, source, constants, false, ret_texts, ret_key, error);
    }
    return status;
}

kiln_status kilni_opencl_compile_key(const kilni_opencl_site *site,
                                     const kiln_program_source *source,
                                     const kilni_opencl_headers *headers,
                                     const kilni_opencl_constants *constants,
                                     kilni_opencl_texts *ret_texts, kiln_key **ret_key,
                                     kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = begin_key(site, &builder, error);
    if (status != KILN_OK) {
        return status;
    }
    kiln_key_builder_add_text(builder, "step", "compile");
    status = add_inputs(site, source, headers, builder, ret_texts, error);
    kilni_opencl_constants_add_to_key(constants, builder);
    return finish_key(builder, status, ret_key);
}

kiln_status kilni_opencl_link_key(const kilni_opencl_site *site, const char *options, size_t count,
                                  const kiln_key *const *inputs, kiln_key **ret_key,
                                  kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = begin_key(site, &builder, error);
    if (status != KILN_OK) {
        return status;
    }
    kiln_key_builder_add_text(builder, "step", "link");
    status = kilni_opencl_add_link_inputs(options, count, inputs, builder, error);
    return finish_key(builder, status, ret_key);
}

kiln_status kilni_opencl_compiled_key(const kiln_key *key, kiln_bytes reads, kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    const kiln_status status = kiln_key_builder_new(&builder);
    if (status != KILN_OK) {
        return status;
    }
    kilni_key_parts_add(key, builder);
    return finish_key(builder, kiln_key_builder_add(builder, "read", reads.data, reads.size),
                      ret_key);
}
