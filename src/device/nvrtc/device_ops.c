/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over NVRTC and the CUDA driver.
 */
#include "base/error.h"
#include "device/nvrtc/build.h"
#include "device/nvrtc/context.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/request.h"
#include "device/nvrtc/stored.h"
#include "key/builder.h"

/* ---- keys ---- */

static kiln_status identity(void *device, kiln_key_builder *key)
{
    const kiln_nvrtc_device *d = device;
    return kilni_nvrtc_add_identity(&d->nvrtc, key, NULL);
}

/* Begins a request, and fails if the request has no key. Also fails if NVRTC cannot be watched,
 * because the files that a program includes are then unknown. */
static kiln_status begin(const kiln_nvrtc_device *d, const kiln_program_source *source,
                         kilni_nvrtc_request *r, kiln_error *error)
{
    const kiln_status status = kilni_nvrtc_request_begin(d, source, r, error);
    if (status == KILN_OK && !d->known) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "this NVRTC can't be watched");
    }
    /* A source that cannot be compiled has no key. Its build returns KILN_E_BUILD. */
    return status == KILN_E_BUILD || (status == KILN_OK && !r->key) ? KILN_E_UNSUPPORTED : status;
}

/* Does not add the files that NVRTC reads, because revision and load check them. Does not add the
 * constants that NVRTC folds, because load checks them. */
static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    const kiln_nvrtc_device *d = device;
    kilni_nvrtc_request r;
    kiln_status status = begin(d, source, &r, error);
    if (status == KILN_OK) {
        status = kilni_key_parts_add(r.key, key);
    }
    kilni_nvrtc_request_done(&r);
    return status;
}

static kiln_status find_revision(const kiln_nvrtc_device *d, const kilni_nvrtc_request *r,
                                 uint64_t *ret_revision, kiln_error *error)
{
    const kiln_digest program = kiln_key_digest(r->key);
    const char *why = "";
    const kiln_status status =
        kilni_known_reads_get_revision(d->known, &program, ret_revision, &why);
    return status == KILN_E_UNSUPPORTED ? kilni_error_set(error, status, 0, "%s", why) : status;
}

static kiln_status revision(void *device, const kiln_program_source *source, uint64_t *ret_revision,
                            kiln_error *error)
{
    const kiln_nvrtc_device *d = device;
    kilni_nvrtc_request r;
    kiln_status status = begin(d, source, &r, error);
    if (status == KILN_OK) {
        status = find_revision(d, &r, ret_revision, error);
    }
    kilni_nvrtc_request_done(&r);
    return status;
}

/* ---- programs ---- */

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    kilni_nvrtc_compiled_program *built;
    const kiln_status status = kilni_nvrtc_build(device, source, &built, ret_log);
    if (status == KILN_OK) {
        *ret_program = built;
    }
    return status;
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    (void)device;
    return kilni_nvrtc_capture(program, ret_capture);
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    kilni_nvrtc_compiled_program *built;
    const kiln_status status = kilni_nvrtc_load(device, source, entry, &built);
    if (status == KILN_OK) {
        *ret_program = built;
    }
    return status;
}

static void release_program(void *device, void *program)
{
    kilni_nvrtc_compiled_program_free(device, program);
}

static kiln_status kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    return kilni_nvrtc_context_get_kernel(device, program, name, ret_kernel);
}

/* Does nothing, because kernels are freed with their program. */
static void release_kernel(void *device, void *held_kernel)
{
    (void)device;
    (void)held_kernel;
}

/* A loaded program belongs to one context, so devices do not share it. Equal devices share stored
 * entries, because their keys are equal. */
static int interchangeable(void *device, void *other)
{
    return device == other;
}

const kiln_device_ops *kiln_nvrtc_ops(void)
{
    static const kiln_device_ops ops = {
        .struct_size = sizeof(kiln_device_ops),
        .name = "nvrtc",
        .capture_cost = KILN_CAPTURE_CHEAP,
        .identity = identity,
        .describe = describe,
        .build = build,
        .capture = capture,
        .load = load,
        .kernel = kernel,
        .release_program = release_program,
        .release_kernel = release_kernel,
        .interchangeable = interchangeable,
        .revision = revision,
    };
    return &ops;
}
