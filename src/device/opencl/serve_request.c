/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves a capture request: finds the devices, checks that the same build is still possible, builds
 * the program, captures the results and stores them.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kiln/opencl.h>

#include "base/error.h"
#include "device/opencl/binary.h"
#include "device/opencl/build_key.h"
#include "device/opencl/build_request.h"
#include "device/opencl/loader.h"
#include "device/opencl/stored.h"
#include "device/opencl/watched_build.h"
#include "os/clock.h"

#define PLATFORMS_MAX 64u

typedef struct service {
    cl_icd_dispatch functions;
    const cl_icd_dispatch *cl; /* points to functions */
    kiln_store *store;
    const kiln_entry *request;
    kilni_opencl_environment more;
    kilni_opencl_request_parts wanted;
    cl_device_id *devices; /* wanted.device_count of them */
    kiln_key **keys;       /* one for each device */
    kilni_opencl_texts texts;
    kilni_text reads;      /* what the build has read; empty: nothing */
    kiln_entry **captured; /* one for each device */
    cl_context context;
    cl_program program;
    uint64_t build_ns;
} service;

/* ---- the key, made as the requesting process made it ---- */

static kiln_status make_key(service *s, cl_device_id device, kiln_key **ret_key, kiln_error *error)
{
    kilni_opencl_site site = {.platform_name = s->wanted.platform_name, .environment = &s->more};
    kiln_key *identity = NULL;
    kiln_status status = kilni_opencl_get_identity(s->cl, device, NULL, &identity, error);
    if (status == KILN_OK) {
        site.identity = identity;
        status = kilni_opencl_build_key(&site, &s->wanted.source, &s->wanted.constants, &s->texts,
                                        ret_key, error);
    }
    kiln_key_release(&identity);
    return status;
}

static void release_keys(service *s)
{
    for (size_t i = 0; i < s->wanted.device_count; i++) {
        kiln_key_release(&s->keys[i]);
    }
}

/* Returns KILN_OK if a build for these devices would have the key of the request. */
static kiln_status check_keys(service *s, kiln_error *error)
{
    kiln_status status = KILN_OK;
    release_keys(s);
    for (size_t i = 0; status == KILN_OK && i < s->wanted.device_count; i++) {
        status = make_key(s, s->devices[i], &s->keys[i], error);
    }
    kiln_key *key = NULL;
    if (status == KILN_OK) {
        status = kilni_opencl_request_key((const kiln_key *const *)s->keys, s->wanted.device_count,
                                          &key);
    }
    if (status == KILN_OK && !kiln_key_equals(key, kiln_entry_key(s->request))) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                 "something that decides the build has changed");
    }
    kiln_key_release(&key);
    return status;
}

/* ---- the device ---- */

static kiln_status use_devices_of(service *s, cl_platform_id platform)
{
    cl_uint count = 0;
    if (s->cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    cl_device_id *all = calloc((size_t)count + 1, sizeof *all);
    if (!all) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status =
        s->cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, all, NULL) == CL_SUCCESS
            ? KILN_OK
            : KILN_E_UNSUPPORTED;
    for (size_t i = 0; status == KILN_OK && i < s->wanted.device_count; i++) {
        const uint64_t place = s->wanted.devices[i];
        if (place < count) {
            s->devices[i] = all[place];
        } else {
            status = KILN_E_UNSUPPORTED;
        }
    }
    free(all);
    return status;
}

static int has_wanted_name(const service *s, cl_platform_id platform)
{
    char *name = kilni_opencl_platform_string(s->cl, platform, CL_PLATFORM_NAME);
    const int is_wanted = name && strcmp(name, s->wanted.platform_name) == 0;
    free(name);
    return is_wanted;
}

/* Several platforms can have the same name. The right platform is the one whose devices yield the
 * key of the request. */
static kiln_status find_devices(service *s, kiln_error *error)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint count = 0;
    kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "no platform %s", s->wanted.platform_name);
    if (s->cl->clGetPlatformIDs(PLATFORMS_MAX, platforms, &count) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = KILN_E_UNSUPPORTED;
    for (cl_uint i = 0; status == KILN_E_UNSUPPORTED && i < count && i < PLATFORMS_MAX; i++) {
        if (has_wanted_name(s, platforms[i])) {
            status = use_devices_of(s, platforms[i]);
            status = status == KILN_OK ? check_keys(s, error) : status;
        }
    }
    return status;
}

/* ---- the build ---- */

static cl_program create_program(const service *s, cl_int *ret_error)
{
    const kiln_program_source *source = &s->wanted.source;
    if (source->form == KILN_SOURCE_TEXT) {
        /* OpenCL takes a length of 0 to mean text that ends with a zero byte. */
        const char *text = source->code.size > 0 ? source->code.data : "";
        return s->cl->clCreateProgramWithSource(s->context, 1, &text, &source->code.size,
                                                ret_error);
    }
    if (!s->cl->clCreateProgramWithIL) {
        *ret_error = CL_INVALID_OPERATION;
        return NULL;
    }
    return s->cl->clCreateProgramWithIL(s->context, source->code.data, source->code.size,
                                        ret_error);
}

static cl_int set_constants(const service *s)
{
    const kilni_opencl_constants *constants = &s->wanted.constants;
    if (constants->count > 0 && !s->cl->clSetProgramSpecializationConstant) {
        return CL_INVALID_OPERATION;
    }
    cl_int error = CL_SUCCESS;
    for (size_t i = 0; error == CL_SUCCESS && i < constants->count; i++) {
        const kilni_opencl_constant *set = &constants->items[i];
        error =
            s->cl->clSetProgramSpecializationConstant(s->program, set->id, set->size, set->value);
    }
    return error;
}

static kiln_status build_unwatched(service *s, kiln_error *error)
{
    const cl_uint count = (cl_uint)s->wanted.device_count;
    cl_int answer = CL_SUCCESS;
    s->context = s->cl->clCreateContext(NULL, count, s->devices, NULL, NULL, &answer);
    if (answer == CL_SUCCESS) {
        s->program = create_program(s, &answer);
    }
    if (answer == CL_SUCCESS) {
        answer = set_constants(s);
    }
    const uint64_t start_ns = kilni_clock_ns();
    if (answer == CL_SUCCESS) {
        answer =
            s->cl->clBuildProgram(s->program, count, s->devices, s->wanted.options, NULL, NULL);
    }
    s->build_ns = kilni_clock_ns() - start_ns;
    return answer == CL_SUCCESS
               ? KILN_OK
               : kilni_error_set(error, KILN_E_BUILD, 0, "the driver answered %d", answer);
}

static cl_platform_id platform_of(const service *s)
{
    cl_platform_id platform = NULL;
    s->cl->clGetDeviceInfo(s->devices[0], CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    return platform;
}

static kiln_status build(service *s, kiln_error *error)
{
    if (!s->texts.may_read) {
        return build_unwatched(s, error);
    }
    kilni_opencl_watched_build watched;
    const char *why = NULL;
    kilni_opencl_watched_build_begin(&watched, platform_of(s),
                                     kilni_opencl_traits_of(s->wanted.platform_name),
                                     s->wanted.options);
    kiln_status status = build_unwatched(s, error);
    kilni_opencl_watched_build_end(&watched);
    if (status == KILN_OK) {
        status = kilni_opencl_watched_build_finish(&watched, &s->texts, &s->reads, &why);
        if (status != KILN_OK) {
            status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", why);
        }
    }
    kilni_opencl_watched_build_done(&watched);
    return status;
}

/* ---- the capture ---- */

/* If the build read files, the store might have results of the same build that were made when these
 * files had other contents. This function adds those results to the new entry. */
static kiln_status add_reads(const service *s, size_t index, kiln_capture *taken)
{
    kiln_entry *earlier = NULL;
    if (kiln_store_get(s->store, s->keys[index], &earlier) != KILN_OK) {
        earlier = NULL;
    }
    const kiln_status status = kilni_opencl_stored_add_reads(
        taken, (kiln_bytes){s->reads.bytes, s->reads.length}, earlier);
    kiln_entry_release(&earlier);
    return status;
}

/* Returns how long the build took in the requesting process. If the repeated build took longer,
 * returns its time instead. The repeated build might take little time, because its result might
 * come from the driver's own cache. */
static uint64_t build_cost(const service *s)
{
    const uint64_t first_ns = kiln_entry_provenance(s->request).build_ns;
    return first_ns > s->build_ns ? first_ns : s->build_ns;
}

static kiln_status capture(service *s, size_t index, kiln_error *error)
{
    kiln_capture taken = {0};
    kiln_status status = kilni_opencl_capture(s->cl, s->program, s->devices[index], &taken);
    if (status != KILN_OK) {
        status = status == KILN_E_UNSUPPORTED ? KILN_E_BUILD : status;
        return kilni_error_set(error, status, 0, "the driver returns no binary");
    }
    if (s->texts.may_read) {
        status = add_reads(s, index, &taken);
        if (status != KILN_OK) {
            kiln_capture_done(&taken);
            return status;
        }
    }
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = s->keys[index],
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .tool = kiln_entry_provenance(s->request).tool,
                       .device = taken.device,
                       .name = taken.name,
                       .build_ns = build_cost(s)},
        .answers = {taken.answers, taken.answers_size},
        .log = {taken.log, strlen(taken.log)},
        .payload = {taken.payload, taken.payload_size},
    };
    status = kiln_entry_new(&params, &s->captured[index]);
    kiln_capture_done(&taken);
    return status;
}

static kiln_status capture_all(service *s, kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < s->wanted.device_count; i++) {
        status = capture(s, i, error);
    }
    return status;
}

static kiln_status store_all(const service *s, kiln_error *error)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && i < s->wanted.device_count; i++) {
        status = kiln_store_put(s->store, s->captured[i]);
        status = status == KILN_EXISTS ? KILN_OK : status;
    }
    return status == KILN_OK ? status
                             : kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
}

/* ---- the whole service ---- */

static kiln_status prepare(service *s, kiln_error *error)
{
    const size_t count = s->wanted.device_count;
    s->devices = calloc(count, sizeof(cl_device_id));
    s->keys = calloc(count, sizeof(kiln_key *));
    s->captured = calloc(count, sizeof(kiln_entry *));
    if (!s->devices || !s->keys || !s->captured) {
        return KILN_E_NO_MEMORY;
    }
    if (chdir(s->wanted.folder) != 0) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s no longer exists",
                               s->wanted.folder);
    }
    s->cl = &s->functions;
    return kilni_opencl_open_loader(&s->functions, error);
}

static void finish(service *s)
{
    if (s->program) {
        s->cl->clReleaseProgram(s->program);
    }
    if (s->context) {
        s->cl->clReleaseContext(s->context);
    }
    for (size_t i = 0; i < s->wanted.device_count; i++) {
        kiln_key_release(s->keys ? &s->keys[i] : NULL);
        kiln_entry_release(s->captured ? &s->captured[i] : NULL);
    }
    free(s->devices);
    free(s->keys);
    free(s->captured);
    kilni_text_done(&s->reads);
    kilni_opencl_request_parts_done(&s->wanted);
}

kiln_status kiln_opencl_serve_request(kiln_store *store, const kiln_entry *request,
                                      const char *const *more, kiln_error *error)
{
    if (!store || !request) {
        return KILN_E_INVALID;
    }
    service s = {.store = store, .request = request, .more = {.variables = more}};
    kiln_status status = kilni_opencl_request_read(request, &s.wanted);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "not a request");
    }
    /* The mode is a part of the key. It stays set during the capture, because the driver might
     * finish the build only when it is asked for a binary. */
    const kilni_floating_point own_mode = kilni_floating_point_get();
    kilni_floating_point_set(s.wanted.mode);
    status = prepare(&s, error);
    if (status == KILN_OK) {
        status = find_devices(&s, error);
    }
    if (status == KILN_OK) {
        status = build(&s, error);
    }
    if (status == KILN_OK) {
        status = capture_all(&s, error);
    }
    kilni_floating_point_set(own_mode);
    if (status == KILN_OK) {
        status = store_all(&s, error);
    }
    finish(&s);
    return status;
}
