/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension functions come from the driver and would bypass the layer. If an application asks for a
 * function that takes a program, the layer returns its own function instead. This function calls
 * the driver's function with the program that was loaded from the cache. If an application obtains
 * an unknown function that could inspect programs, the layer stops caching on that platform, or on
 * all platforms if the application named no platform.
 */
#include "calls.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../shared/trace.h"
#include "build.h"
#include "device/opencl/defeating_constant.h"
#include "platforms.h"
#include "records.h"
#include "target.h"

typedef cl_program(CL_API_CALL *create_with_il_fn)(cl_context, const void *, size_t, cl_int *);
typedef cl_int(CL_API_CALL *set_constant_fn)(cl_program, cl_uint, size_t, const void *);
typedef cl_int(CL_API_CALL *get_variable_fn)(cl_device_id, cl_program, const char *, size_t *,
                                             void **);
typedef cl_int(CL_API_CALL *get_function_fn)(cl_device_id, cl_program, const char *, cl_ulong *);
typedef cl_int(CL_API_CALL *read_variable_fn)(cl_command_queue, cl_program, const char *, cl_bool,
                                              size_t, size_t, void *, cl_uint, const cl_event *,
                                              cl_event *);
typedef cl_int(CL_API_CALL *write_variable_fn)(cl_command_queue, cl_program, const char *, cl_bool,
                                               size_t, size_t, const void *, cl_uint,
                                               const cl_event *, cl_event *);

/* ---- the driver's function for a program or context ---- */

/* Returns the driver's function that the application obtained for this platform. If there is none,
 * returns the function that it obtained without naming a platform. */
static void *driver_function(const platform *known, extension_function which)
{
    void *function =
        known ? atomic_load_explicit(&known->extensions[which], memory_order_relaxed) : NULL;
    const platform *unnamed = function ? NULL : platform_of_id(NULL);
    if (unnamed) {
        function = atomic_load_explicit(&unnamed->extensions[which], memory_order_relaxed);
    }
    return function;
}

/* What a call on a program needs: the program's platform, a hold on its loaded program or NULL, and
 * the program that the call must use. This is the loaded program, if there is one. */
typedef struct redirection {
    const platform *platform;
    loaded_program *loaded;
    cl_program program;
} redirection;

/* The binary of a loaded program might have a defeating constant of a different name. So if @name
 * is one, the driver builds the program. */
static redirection redirect(cl_program program, const char *name)
{
    redirection to = {.program = program};
    program_record *record = records_hold(program);
    if (record) {
        if (name && kilni_opencl_names_defeating_constant(name)) {
            build_natively(record, "a query for a defeating constant");
        }
        to.platform = record->platform;
        to.loaded = records_hold_loaded(record);
        to.program = to.loaded ? to.loaded->program : program;
        records_release(record);
    }
    return to;
}

/* ---- the layer's functions ---- */

static cl_program CL_API_CALL create_with_il(cl_context context, const void *il, size_t length,
                                             cl_int *ret_error)
{
    create_with_il_fn function =
        (create_with_il_fn)driver_function(platform_of_context(context), CREATE_PROGRAM_WITH_IL);
    if (!function) {
        return layer_create_program_with_il(context, il, length, ret_error);
    }
    cl_program program = function(context, il, length, ret_error);
    if (program) {
        records_add_program(program, context, ORIGIN_IL);
    }
    return program;
}

static cl_int CL_API_CALL set_specialization_constant(cl_program program, cl_uint id, size_t size,
                                                      const void *value)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    program_record *record = records_hold(program);
    const platform *known = record ? record->platform : NULL;
    records_release(record);
    set_constant_fn function = (set_constant_fn)driver_function(known, SET_SPECIALIZATION_CONSTANT);
    if (!function) {
        return layer_set_specialization_constant(program, id, size, value);
    }
    const cl_int error = function(program, id, size, value);
    if (error == CL_SUCCESS) {
        records_set_constant(program, id, size, value);
    }
    return error;
}

static cl_int CL_API_CALL get_variable_pointer(cl_device_id device, cl_program program,
                                               const char *name, size_t *ret_size,
                                               void **ret_pointer)
{
    const redirection to = redirect(program, name);
    get_variable_fn function =
        (get_variable_fn)driver_function(to.platform, GET_GLOBAL_VARIABLE_POINTER);
    const cl_int error =
        function ? function(device, to.program, name, ret_size, ret_pointer) : CL_INVALID_OPERATION;
    loaded_program_release(to.loaded);
    return error;
}

static cl_int CL_API_CALL get_function_pointer(cl_device_id device, cl_program program,
                                               const char *name, cl_ulong *ret_pointer)
{
    const redirection to = redirect(program, name);
    get_function_fn function = (get_function_fn)driver_function(to.platform, GET_FUNCTION_POINTER);
    const cl_int error =
        function ? function(device, to.program, name, ret_pointer) : CL_INVALID_OPERATION;
    loaded_program_release(to.loaded);
    return error;
}

static cl_int CL_API_CALL read_variable(cl_command_queue queue, cl_program program,
                                        const char *name, cl_bool blocking, size_t size,
                                        size_t offset, void *target, cl_uint event_count,
                                        const cl_event *events, cl_event *ret_event)
{
    const redirection to = redirect(program, name);
    read_variable_fn function =
        (read_variable_fn)driver_function(to.platform, ENQUEUE_READ_GLOBAL_VARIABLE);
    const cl_int error = function ? function(queue, to.program, name, blocking, size, offset,
                                             target, event_count, events, ret_event)
                                  : CL_INVALID_OPERATION;
    loaded_program_release(to.loaded);
    return error;
}

static cl_int CL_API_CALL write_variable(cl_command_queue queue, cl_program program,
                                         const char *name, cl_bool blocking, size_t size,
                                         size_t offset, const void *from, cl_uint event_count,
                                         const cl_event *events, cl_event *ret_event)
{
    const redirection to = redirect(program, name);
    write_variable_fn function =
        (write_variable_fn)driver_function(to.platform, ENQUEUE_WRITE_GLOBAL_VARIABLE);
    const cl_int error = function ? function(queue, to.program, name, blocking, size, offset, from,
                                             event_count, events, ret_event)
                                  : CL_INVALID_OPERATION;
    loaded_program_release(to.loaded);
    return error;
}

/* ---- what an application receives for a name ---- */

/* The layer replaces these functions. Each replacement calls the driver's function, so the layer
 * remembers the driver's functions. */
static const struct {
    const char *name;
    void *own;
    extension_function kept_at;
} kept[] = {
    {"clCreateProgramWithILKHR", (void *)create_with_il, CREATE_PROGRAM_WITH_IL},
    {"clSetProgramSpecializationConstant", (void *)set_specialization_constant,
     SET_SPECIALIZATION_CONSTANT},
    {"clGetDeviceGlobalVariablePointerINTEL", (void *)get_variable_pointer,
     GET_GLOBAL_VARIABLE_POINTER},
    {"clGetDeviceFunctionPointerINTEL", (void *)get_function_pointer, GET_FUNCTION_POINTER},
    {"clEnqueueReadGlobalVariableINTEL", (void *)read_variable, ENQUEUE_READ_GLOBAL_VARIABLE},
    {"clEnqueueWriteGlobalVariableINTEL", (void *)write_variable, ENQUEUE_WRITE_GLOBAL_VARIABLE},
};

/* The functions that the layer also puts into the loader's table. A name that is in the array above
 * too is found there first. */
static const struct {
    const char *name;
    void *own;
} intercepted[] = {
#define ROW(name, own) {#name, (void *)(own)},
    INTERCEPTED_CALLS(ROW)
#undef ROW
};

/* Functions with "kernel" or "program" in their names that are harmless: they take only the
 * driver's own kernels, or no object that the layer replaces. */
static const char *const harmless[] = {
    "clCommandNDRangeKernelKHR",
    "clEnqueueNDCountKernelINTEL",
    "clGetKernelMaxConcurrentWorkGroupCountINTEL",
    "clGetKernelSubGroupInfo",
    "clGetKernelSubGroupInfoKHR",
    "clGetKernelSuggestedLocalWorkSizeINTEL",
    "clGetKernelSuggestedLocalWorkSizeKHR",
    "clGetKernelWorkGroupInfo",
    "clEnqueueNDRangeKernel",
    "clEnqueueNativeKernel",
    "clSetKernelArg",
    "clSetKernelArgDevicePointerEXT",
    "clSetKernelArgMemPointerINTEL",
    "clSetKernelArgSVMPointer",
    "clSetKernelArgSVMPointerARM",
    "clSetKernelExecInfo",
    "clSetKernelExecInfoARM",
    "clSetProgramReleaseCallback",
};

static int is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        if (strcmp(name, harmless[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns true if a function of this name might inspect programs. clCreateTracingHandleINTEL lets
 * the application see every call to the driver, including the layer's. */
static int could_see_programs(const char *name)
{
    return strcasestr(name, "program") || strcasestr(name, "kernel") ||
           strcmp(name, "clCreateTracingHandleINTEL") == 0;
}

/* Makes the driver build all programs that were loaded from the cache, because an unknown function
 * might inspect the driver's programs. */
static void build_all_natively(const platform *seen)
{
    static const char why[] = "an unknown function that may inspect programs";
    size_t count = 0;
    program_record **records = records_hold_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (!seen->id || records[i]->platform == seen) {
            build_natively(records[i], why);
        }
        records_release(records[i]);
    }
    free(records);
}

/* Returns the layer's replacement for a function of that name; NULL if there is none. */
static void *find_own(platform *known, const char *name, void *function)
{
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (strcmp(name, kept[i].name) == 0) {
            if (known) {
                atomic_store_explicit(&known->extensions[kept[i].kept_at], function,
                                      memory_order_relaxed);
            }
            return kept[i].own;
        }
    }
    for (size_t i = 0; i < sizeof intercepted / sizeof intercepted[0]; i++) {
        if (strcmp(name, intercepted[i].name) == 0) {
            return intercepted[i].own;
        }
    }
    return NULL;
}

static void *replace(platform *known, const char *name, void *function)
{
    if (!function || !name) {
        return function;
    }
    void *own = find_own(known, name, function);
    if (own) {
        return own;
    }
    if (could_see_programs(name) && !is_harmless(name) && known) {
        atomic_store_explicit(&known->is_exposed, 1, memory_order_relaxed);
        trace_passed(name, "an unknown function that may inspect programs: builds pass through");
        build_all_natively(known);
    }
    return function;
}

void *CL_API_CALL layer_get_extension_function_for_platform(cl_platform_id id, const char *name)
{
    void *function = layer_target()->clGetExtensionFunctionAddressForPlatform(id, name);
    return replace(platform_of_id(id), name, function);
}

void *CL_API_CALL layer_get_extension_function(const char *name)
{
    return replace(platform_of_id(NULL), name, layer_target()->clGetExtensionFunctionAddress(name));
}
