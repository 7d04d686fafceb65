/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/device_ops.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "device/opencl/binary.h"
#include "device/opencl/identity.h"
#include "device/opencl/inputs.h"
#include "device/opencl/stored.h"
#include "device/opencl/watched_build.h"

/* ---- the device ---- */

/* Enough for the reads of a few thousand programs. If the reads of a program are forgotten, the
 * program gets a new revision. */
#define KNOWN_READS_BYTES_MAX ((size_t)64 << 20)

kiln_status kilni_opencl_device_begin(kilni_opencl_device *made, kiln_error *error)
{
    if (made->cl->clGetDeviceInfo(made->device, CL_DEVICE_PLATFORM, sizeof made->platform,
                                  &made->platform, NULL) != CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the device names no platform");
    }
    made->platform_name = kilni_opencl_platform_string(made->cl, made->platform, CL_PLATFORM_NAME);
    made->traits = kilni_opencl_traits_of(made->platform_name);
    kiln_status status = made->platform_name ? KILN_OK : KILN_E_NO_MEMORY;
    char *source_name = NULL;
    if (status == KILN_OK) {
        status = kilni_opencl_source_name(made->traits, &source_name);
    }
    if (status == KILN_OK && made->traits->compiler) {
        status = kilni_known_reads_new(KNOWN_READS_BYTES_MAX, source_name, &made->known);
    }
    free(source_name);
    return status == KILN_OK && made->known ? kilni_opencl_reads_of_programs_new(&made->reads)
                                            : status;
}

void kilni_opencl_device_end(kilni_opencl_device *device)
{
    kilni_opencl_reads_of_programs_free(&device->reads);
    kilni_known_reads_free(&device->known);
    free(device->platform_name);
}

/* ---- keys ---- */

static kiln_status identity(void *device, kiln_key_builder *key)
{
    const kilni_opencl_device *d = device;
    return kilni_opencl_add_identity(d->cl, d->device, NULL, key, NULL);
}

/* Adds the parts of a source's key that come after the identity. Does not add the files that the
 * source reads. */
static kiln_status add_source(const kilni_opencl_device *d, const kiln_program_source *source,
                              kiln_key_builder *key, kilni_opencl_texts *ret_texts,
                              kiln_error *error)
{
    const kiln_status status =
        kilni_opencl_add_environment(d->platform_name, d->environment, key, error);
    return status == KILN_OK ? kilni_opencl_add_inputs(source, &(kilni_opencl_headers){0},
                                                       d->known != NULL, key, ret_texts, error)
                             : status;
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    kilni_opencl_texts unused;
    return add_source(device, source, key, &unused, error);
}

/* A source that might read files, and the digest by which kilni_known_reads identifies this
 * source. */
typedef struct reading_source {
    kilni_opencl_texts texts;
    kiln_digest digest;
} reading_source;

/* Returns KILN_OK: the source might read files; KILN_MISS: it reads no files; KILN_E_UNSUPPORTED,
 * with the reason in @error: no key can be made; KILN_E_NO_MEMORY. */
static kiln_status find_reading_source(const kilni_opencl_device *d,
                                       const kiln_program_source *source,
                                       reading_source *ret_source, kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_source(d, source, builder, &ret_source->texts, error);
    }
    if (status == KILN_OK) {
        status = ret_source->texts.may_read ? kiln_key_builder_finish(builder, &key) : KILN_MISS;
    }
    if (status == KILN_OK) {
        ret_source->digest = kiln_key_digest(key);
    }
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status revision(void *device, const kiln_program_source *source, uint64_t *ret_revision,
                            kiln_error *error)
{
    const kilni_opencl_device *d = device;
    reading_source of;
    const char *why = "";
    kiln_status status = find_reading_source(d, source, &of, error);
    if (status == KILN_MISS) {
        *ret_revision = 0;
        return KILN_OK;
    }
    if (status == KILN_OK) {
        status = kilni_known_reads_get_revision(d->known, &of.digest, ret_revision, &why);
        status =
            status == KILN_E_UNSUPPORTED ? kilni_error_set(error, status, 0, "%s", why) : status;
    }
    return status;
}

static cl_program create(const kilni_opencl_device *d, const kiln_program_source *source,
                         cl_int *ret_error)
{
    *ret_error = CL_INVALID_OPERATION;
    if (source->form == KILN_SOURCE_TEXT) {
        /* OpenCL takes a length of 0 to mean text that ends with a zero byte. */
        const char *text = source->code.size > 0 ? source->code.data : "";
        return d->cl->clCreateProgramWithSource(d->context, 1, &text, &source->code.size,
                                                ret_error);
    }
    return d->cl->clCreateProgramWithIL
               ? d->cl->clCreateProgramWithIL(d->context, source->code.data, source->code.size,
                                              ret_error)
               : NULL;
}

static cl_int set_constants(const kilni_opencl_device *d, const kiln_program_source *source,
                            cl_program program)
{
    if (source->constant_count > 0 && !d->cl->clSetProgramSpecializationConstant) {
        return CL_INVALID_OPERATION;
    }
    cl_int error = CL_SUCCESS;
    for (size_t i = 0; i < source->constant_count && error == CL_SUCCESS; i++) {
        const kiln_spec_constant *constant = &source->constants[i];
        error = d->cl->clSetProgramSpecializationConstant(
            program, constant->id, constant->value.size, constant->value.data);
    }
    return error;
}

/* Creates a program and sets its constants. */
static cl_program prepare(const kilni_opencl_device *d, const kiln_program_source *source,
                          cl_int *ret_error)
{
    cl_program program = create(d, source, ret_error);
    if (*ret_error == CL_SUCCESS) {
        *ret_error = set_constants(d, source, program);
        if (*ret_error != CL_SUCCESS) {
            d->cl->clReleaseProgram(program);
        }
    }
    return program;
}

/* If this returns KILN_E_BUILD, all callers that wait for the build get that status. So it is
 * returned only if the source, its options or its constants cause the failure. */
static kiln_status status_of_build(cl_int error)
{
    switch (error) {
    case CL_SUCCESS:
        return KILN_OK;
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return KILN_E_RESOURCES;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_LINK_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_COMPILER_OPTIONS:
    case CL_INVALID_LINKER_OPTIONS:
    case CL_INVALID_VALUE:
    case CL_INVALID_SPEC_ID:
        return KILN_E_BUILD;
    case CL_COMPILER_NOT_AVAILABLE:
    case CL_LINKER_NOT_AVAILABLE:
        return KILN_E_UNSUPPORTED;
    default:
        return KILN_E_IO;
    }
}

/* Before a build, CL_INVALID_OPERATION means that the driver lacks support for intermediate
 * languages, or for constants in them. */
static kiln_status status_of_preparation(cl_int error)
{
    return error == CL_INVALID_OPERATION ? KILN_E_UNSUPPORTED : status_of_build(error);
}

static char *build_log(const kilni_opencl_device *d, cl_program program)
{
    size_t size = 0;
    d->cl->clGetProgramBuildInfo(program, d->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (log) {
        d->cl->clGetProgramBuildInfo(program, d->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    }
    return log;
}

/* Returns the program that a build, compile or link made. If that step failed, releases the
 * program, and returns the log and the status. */
static kiln_status end_step(const kilni_opencl_device *d, cl_program program, cl_int error,
                            void **ret_program, char **ret_log)
{
    if (error == CL_SUCCESS) {
        *ret_program = program;
        return KILN_OK;
    }
    *ret_log = build_log(d, program);
    d->cl->clReleaseProgram(program);
    return status_of_build(error);
}

/* ---- builds that read files ---- */

typedef kiln_status (*step_fn)(const kilni_opencl_device *d, const kiln_program_source *source,
                               void **ret_program, char **ret_log);

/* Records the files that the build read, for the next request. Does this even if the source does
 * not build, because that failure is valid only while these files are unchanged. */
static kiln_status record_reads(const kilni_opencl_device *d, const reading_source *of,
                                kilni_opencl_watched_build *watched, cl_program program)
{
    kilni_text reads = {0};
    const char *why = NULL;
    kiln_status status = kilni_opencl_watched_build_finish(watched, &of->texts, &reads, &why);
    if (status == KILN_E_NO_MEMORY) {
        return status;
    }
    const char *lasting = status == KILN_E_UNSUPPORTED ? why : NULL;
    why = status == KILN_OK ? NULL : why;
    status = kilni_known_reads_set(d->known, &of->digest, (kiln_bytes){reads.bytes, reads.length},
                                   lasting);
    if (status == KILN_OK && program) {
        return kilni_opencl_reads_of_programs_set(d->reads, program, &reads, why);
    }
    kilni_text_done(&reads);
    return status;
}

static kiln_status run_watched(const kilni_opencl_device *d, const reading_source *of, step_fn step,
                               const kiln_program_source *source, void **ret_program,
                               char **ret_log)
{
    kilni_opencl_watched_build watched;
    kilni_opencl_watched_build_begin(&watched, d->platform, d->traits, source->options);
    kiln_status status;
    pthread_cleanup_push(kilni_opencl_watched_build_end, &watched);
    status = step(d, source, ret_program, ret_log);
    pthread_cleanup_pop(1);
    if (status == KILN_OK || status == KILN_E_BUILD) {
        cl_program made = status == KILN_OK ? *ret_program : NULL;
        const kiln_status settled = record_reads(d, of, &watched, made);
        if (settled != KILN_OK && made) {
            d->cl->clReleaseProgram(made);
        }
        status = settled == KILN_OK ? status : settled;
    }
    kilni_opencl_watched_build_done(&watched);
    return status;
}

static kiln_status run(const kilni_opencl_device *d, step_fn step,
                       const kiln_program_source *source, void **ret_program, char **ret_log)
{
    reading_source of;
    const kiln_status status = find_reading_source(d, source, &of, NULL);
    return status == KILN_OK ? run_watched(d, &of, step, source, ret_program, ret_log)
                             : step(d, source, ret_program, ret_log);
}

/* ---- programs ---- */

static kiln_status build_now(const kilni_opencl_device *d, const kiln_program_source *source,
                             void **ret_program, char **ret_log)
{
    cl_int error = CL_SUCCESS;
    cl_program program = prepare(d, source, &error);
    if (error != CL_SUCCESS) {
        return status_of_preparation(error);
    }
    error = d->cl->clBuildProgram(program, 1, &d->device, source->options, NULL, NULL);
    return end_step(d, program, error, ret_program, ret_log);
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    return run(device, build_now, source, ret_program, ret_log);
}

static kiln_status compile_now(const kilni_opencl_device *d, const kiln_program_source *source,
                               void **ret_object, char **ret_log)
{
    cl_int error = CL_SUCCESS;
    cl_program program = prepare(d, source, &error);
    if (error != CL_SUCCESS) {
        return status_of_preparation(error);
    }
    error =
        d->cl->clCompileProgram(program, 1, &d->device, source->options, 0, NULL, NULL, NULL, NULL);
    return end_step(d, program, error, ret_object, ret_log);
}

static kiln_status compile(void *device, const kiln_program_source *source, void **ret_object,
                           char **ret_log)
{
    return run(device, compile_now, source, ret_object, ret_log);
}

/* Forbids the capture of a linked program if files were read when any of its objects was compiled,
 * because the entry would not list those files. */
static kiln_status refuse_capture(const kilni_opencl_device *d, void *const *objects, size_t count,
                                  void *program)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < count && d->reads && status == KILN_OK; i++) {
        kilni_text reads = {0}, none = {0};
        status = kilni_opencl_reads_of_programs_get(d->reads, objects[i], &reads);
        kilni_text_done(&reads);
        status = status == KILN_MISS
                     ? KILN_OK
                     : kilni_opencl_reads_of_programs_set(d->reads, program, &none,
                                                          "a link of sources that include files");
    }
    return status;
}

static kiln_status link_objects(void *device, void *const *objects, size_t count,
                                const char *options, void **ret_program, char **ret_log)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    /* Both types are arrays of handles. */
    cl_program program = d->cl->clLinkProgram(d->context, 1, &d->device, options, (cl_uint)count,
                                              (const cl_program *)objects, NULL, NULL, &error);
    /* A failed link can return a program, which has the log. */
    kiln_status status =
        program ? end_step(d, program, error, ret_program, ret_log) : status_of_build(error);
    if (status == KILN_OK) {
        status = refuse_capture(d, objects, count, program);
        if (status != KILN_OK) {
            d->cl->clReleaseProgram(program);
        }
    }
    return status;
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    const kilni_opencl_device *d = device;
    const kiln_entry *replaces = ret_capture->replaces;
    kilni_text reads = {0};
    kiln_status status =
        d->reads ? kilni_opencl_reads_of_programs_get(d->reads, program, &reads) : KILN_MISS;
    if (status == KILN_OK || status == KILN_MISS) {
        status = kilni_opencl_capture(d->cl, program, d->device, ret_capture);
    }
    if (status == KILN_OK && reads.length > 0) {
        status = kilni_opencl_stored_add_reads(ret_capture, (kiln_bytes){reads.bytes, reads.length},
                                               replaces);
        if (status != KILN_OK) {
            kiln_capture_done(ret_capture);
        }
    }
    kilni_text_done(&reads);
    return status;
}

static kiln_status load_binary(const kilni_opencl_device *d, const kiln_program_source *source,
                               const kilni_opencl_stored *stored, void **ret_program)
{
    cl_program program = NULL;
    const kiln_status status = kilni_opencl_load(d->cl, d->context, 1, &d->device, &stored->binary,
                                                 source->options, &program);
    if (status == KILN_OK) {
        *ret_program = program;
    }
    return status;
}

/* Looks for the result that fits the present files. Records the reads of this result for the next
 * request. */
static kiln_status find_and_record(const kilni_opencl_device *d, const reading_source *of,
                                   uint64_t revision, const kiln_entry *entry,
                                   kilni_opencl_stored *ret_stored)
{
    uint64_t mark;
    kiln_status status = kilni_known_reads_begin_check(d->known, &of->digest, &mark);
    if (status == KILN_OK) {
        status = kilni_opencl_stored_find(entry, true, d->traits, ret_stored, NULL);
    }
    if (status == KILN_OK) {
        status =
            kilni_known_reads_confirm(d->known, &of->digest, mark, revision, ret_stored->reads);
    }
    return status == KILN_BUSY ? kilni_opencl_stored_find(entry, true, d->traits, ret_stored, NULL)
                               : status;
}

static kiln_status load_and_record(const kilni_opencl_device *d, const reading_source *of,
                                   const kiln_program_source *source, const kiln_entry *entry,
                                   void **ret_program)
{
    kilni_opencl_stored found;
    kilni_text reads = {0};
    kiln_status status = find_and_record(d, of, source->revision, entry, &found);
    if (status == KILN_OK) {
        status = kilni_text_append_bytes(&reads, found.reads.data, found.reads.size);
    }
    if (status == KILN_OK) {
        status = load_binary(d, source, &found, ret_program);
    }
    if (status == KILN_OK) {
        status = kilni_opencl_reads_of_programs_set(d->reads, *ret_program, &reads, NULL);
        if (status != KILN_OK) {
            d->cl->clReleaseProgram(*ret_program);
        }
    }
    kilni_text_done(&reads);
    return status == KILN_E_CORRUPT ? KILN_E_REFUSED : status;
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    const kilni_opencl_device *d = device;
    reading_source of;
    kilni_opencl_stored stored;
    const kiln_status status = find_reading_source(d, source, &of, NULL);
    if (status == KILN_OK) {
        return load_and_record(d, &of, source, entry, ret_program);
    }
    kilni_opencl_stored_find(entry, false, d->traits, &stored, NULL);
    return status == KILN_E_NO_MEMORY ? status : load_binary(d, source, &stored, ret_program);
}

static kiln_status kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    cl_kernel made = d->cl->clCreateKernel(program, name, &error);
    if (error == CL_SUCCESS) {
        *ret_kernel = made;
        return KILN_OK;
    }
    return error == CL_INVALID_KERNEL_NAME ? KILN_MISS : status_of_build(error);
}

static void release_program(void *device, void *program)
{
    const kilni_opencl_device *d = device;
    if (d->reads) {
        kilni_opencl_reads_of_programs_forget(d->reads, program);
    }
    d->cl->clReleaseProgram(program);
}

static void release_kernel(void *device, void *held_kernel)
{
    const kilni_opencl_device *d = device;
    d->cl->clReleaseKernel(held_kernel);
}

/* Not used for a driver whose captures are expensive. Asking such a driver for the size of a binary
 * is as expensive as getting the binary. */
static uint64_t program_bytes(void *device, void *program)
{
    const kilni_opencl_device *d = device;
    cl_uint count = 0;
    size_t size = 0;
    const int has_one_device = d->cl->clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES,
                                                       sizeof count, &count, NULL) == CL_SUCCESS &&
                               count == 1;
    const int is_known =
        has_one_device && d->cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size,
                                                  &size, NULL) == CL_SUCCESS;
    return is_known ? size : 0;
}

/* Devices of different contexts never share loaded programs. Equal devices share stored entries,
 * because their keys are equal. */
static int interchangeable(void *device, void *other)
{
    const kilni_opencl_device *a = device, *b = other;
    return a->context == b->context && a->device == b->device;
}

#define OPS(cost, bytes)                                                                           \
    {                                                                                              \
        .struct_size = sizeof(kiln_device_ops), .name = "opencl", .capture_cost = (cost),          \
        .identity = identity, .describe = describe, .build = build, .capture = capture,            \
        .load = load, .kernel = kernel, .release_program = release_program,                        \
        .release_kernel = release_kernel, .interchangeable = interchangeable, .compile = compile,  \
        .link = link_objects, .program_bytes = (bytes), .revision = revision,                      \
    }

const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost)
{
    static const kiln_device_ops cheap = OPS(KILN_CAPTURE_CHEAP, program_bytes),
                                 expensive = OPS(KILN_CAPTURE_EXPENSIVE, NULL),
                                 never = OPS(KILN_CAPTURE_NEVER, NULL);
    return capture_cost == KILN_CAPTURE_CHEAP       ? &cheap
           : capture_cost == KILN_CAPTURE_EXPENSIVE ? &expensive
                                                    : &never;
}
