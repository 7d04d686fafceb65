/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer knows about the application's programs and kernels.
 *
 * The application holds the driver's own program P. On a hit, P gets a loaded program: a second
 * program, made from the stored binary, which serves every call that needs the built code. Kernels
 * of the loaded program hold a reference on P, as kernels of P would. Only a link that was loaded
 * from the cache has no P.
 *
 * One lock guards all fields that change. The driver is never called while it is held.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/status.h>

#include "device/floating_point.h"
#include "device/opencl/answers.h"
#include "device/opencl/constants.h"
#include "device_keys.h"
#include "platforms.h"

typedef enum program_origin {
    ORIGIN_SOURCE = 1,
    ORIGIN_IL = 2,
    ORIGIN_BINARY = 3,
    ORIGIN_BUILT_IN = 4,
    ORIGIN_LINKED = 5
} program_origin;

/* A program made from a stored binary. If it is a link, the application itself holds it.
 *
 * Immutable except for its holds, so that one call may use it while another drops it. */
typedef struct loaded_program {
    cl_program program;
    char *options; /* NULL if the build had none */
    cl_uint device_count;
    cl_device_id *devices;
    kilni_opencl_answers **answers; /* one for each device */
    kilni_floating_point mode;  /* the mode of the requesting thread, in which late builds run */
    int is_held_by_application; /* 1: it is a linked program that the application holds; there is
                                   no P */
    _Atomic unsigned holds;     /* the last release (acq_rel) frees it; the lock guards new holds */
} loaded_program;

/* The phase of the build or compile that is running. */
typedef enum build_phase {
    BUILD_NONE = 0,
    BUILD_LOOKED_UP = 1, /* the driver does not know about it */
    BUILD_AT_DRIVER = 2
} build_phase;

typedef struct program_record {
    cl_program program; /* P */
    cl_context context;
    platform *platform; /* may be NULL */
    program_origin origin;

    unsigned holds;       /* references to this record, held by calls in flight, kernels and the
                             map */
    cl_uint references;   /* references to P: the application's, and those of the loaded program's
                             kernels */
    cl_uint kernel_holds; /* the references to P that the loaded program's kernels hold */
    cl_uint build_holds;  /* additional references to P, which builds in flight hold at the
                             driver */
    build_phase phase;
    unsigned generation;    /* how often the driver was asked to build or compile P itself */
    device_keys compiled;   /* the keys of what this generation compiled into P, if known */
    device_keys uncaptured; /* the keys of what this generation built, until its binaries are
                               captured */
    uint64_t uncaptured_ns; /* how long that build took */
    kilni_floating_point uncaptured_mode; /* the mode of that build */
    kilni_opencl_constants constants;
    int has_lost_constants; /* memory ran out for some: the program's key can no longer be made */
    loaded_program *loaded; /* NULL: the driver's P itself answers */
} program_record;

typedef struct kernel_record {
    cl_kernel kernel;
    program_record *record; /* held */
    loaded_program *loaded; /* held */
    cl_uint references;
} kernel_record;

void records_lock(void);
void records_unlock(void);

/* ---- programs ---- */

/* Starts to track a program that the application receives. If memory runs out, the program is not
 * tracked, and the driver alone serves it. */
void records_add_program(cl_program program, cl_context context, program_origin origin);

/* Does the same as records_add_program for a program that was loaded from the binary of a linked
 * program. Takes over @made, which answers for the program. */
void records_add_linked(cl_program program, cl_context context, loaded_program *made);

/* Returns a hold on a program's record, or NULL if the program is not tracked. */
program_record *records_hold(cl_program program);
void records_release(program_record *record);

/* Returns a hold on the record of each tracked program, in an array. The caller releases the
 * records and frees the array. Returns NULL, with a count of 0, if memory runs out. */
program_record **records_hold_all(size_t *ret_count);

/* Returns a hold on the program's loaded program, or NULL. */
loaded_program *records_hold_loaded(program_record *record);
loaded_program *records_hold_loaded_of(cl_program program);

/* Record that the application adds or drops a reference. The record of a program is dropped before
 * the driver releases the last reference, since the handle may be reused. */
void records_retain_program(cl_program program);
void records_release_program(cl_program program);

/* Returns 1 if the application may no longer use the handle: it has dropped its last reference,
 * only kernels of the loaded program keep P alive, and the driver does not count kernels as
 * references, so that without the layer P would be gone. */
int records_is_released(cl_program program);

/* Returns 1 if records_is_released is 1 for any of several programs; @all may be NULL. */
int records_any_released(cl_uint count, const cl_program *all);

/* Remembers a specialization constant that the driver accepted. */
void records_set_constant(cl_program program, cl_uint id, size_t size, const void *value);

/* Copies a program's constants. Returns KILN_OK; KILN_E_UNSUPPORTED if some were lost;
 * KILN_E_NO_MEMORY. */
kiln_status records_copy_constants(program_record *record, kilni_opencl_constants *ret_copy);

/* Called before the driver builds or compiles P itself. Drops the keys of P's former content; from
 * now on, P can get no new loaded program. Returns the new generation. */
unsigned records_begin_native(program_record *record);

/* Returns 1 if the driver was ever asked to build or compile P itself. */
int records_is_native(program_record *record);

/* Returns 1 while @generation is the latest. */
int records_is_generation(program_record *record, unsigned generation);

/* Decides between two builds or compiles of one program at the same time. If the driver knows about
 * the first, the driver refuses the second, or accepts it if it comes from the callback of the
 * first. If the driver does not know about the first, the caller must refuse the second as the
 * driver would.
 *
 * Returns the phase of the first. BUILD_NONE: there is no other build, and the caller's build is
 * now BUILD_LOOKED_UP. */
build_phase records_start_building(program_record *record);
void records_set_phase(program_record *record, build_phase phase);

/* Called around a build or compile. The application's callback may release the program, so the
 * layer holds it until the call is done. */
void records_hold_at_driver(program_record *record);
void records_release_at_driver(program_record *record);

/* Remembers the keys of what the driver compiled into P in that generation, unless a later
 * generation has begun. Takes over @compiled. */
void records_set_compiled(program_record *record, unsigned generation, device_keys compiled);

/* Remembers in the same way the keys of what the driver built in this thread, if a capture is too
 * expensive to be made now. */
void records_set_uncaptured(program_record *record, unsigned generation, device_keys built,
                            uint64_t build_ns);

/* Removes the keys of a build that was not captured, and passes them to the caller in any case.
 * Returns 0 if there are none, or if this thread is in a different floating-point mode from the
 * thread that built: a driver may finish a build only when binaries are requested, in the mode of
 * the thread that requests them. */
int records_take_uncaptured(program_record *record, unsigned *ret_generation,
                            device_keys *ret_built, uint64_t *ret_build_ns);

/* Returns the key of a program's compile for a device, retained; NULL if the key is unknown or the
 * program belongs to a different context. */
kiln_key *records_find_compiled(cl_program program, cl_context context, cl_device_id device);

/* Returns the reference count that the application would see without the layer. @driver_count is
 * the count that the driver reports. */
cl_uint records_visible_references(cl_program program, cl_uint driver_count);

/* Returns how many references in the driver's count of a context are held by the layer. */
cl_uint records_hidden_context_references(cl_context context);

/* ---- loaded programs ---- */

/* On success takes over @program, and @answers with its array. Copies @options and @devices.
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status loaded_program_new(cl_program program, const char *options, cl_uint device_count,
                               const cl_device_id *devices, kilni_opencl_answers **answers,
                               loaded_program **ret_loaded);
void loaded_program_release(loaded_program *held);

/* Returns the index of a device in a loaded program, or device_count if it is not one of its
 * devices. */
cl_uint loaded_program_find_device(const loaded_program *loaded, cl_device_id device);

/* Sets a program's loaded program, and takes over @made. If the application has released P
 * meanwhile, or if the driver was asked to build P, releases @made instead. */
void records_set_loaded(program_record *record, loaded_program *made);

/* Removes and releases a program's loaded program. */
void records_drop_loaded(program_record *record);

/* ---- kernels ---- */

/* Returns 1 if the loaded program has kernels: then P cannot be built again. */
int records_has_kernels(program_record *record);

/* Tracks a kernel of a loaded program. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status records_add_kernel(cl_kernel kernel, program_record *record, loaded_program *loaded);

/* Returns a kernel's program P, and a hold on its loaded program. Returns 0 if the kernel is the
 * driver's own. */
int records_find_kernel(cl_kernel kernel, cl_program *ret_program, loaded_program **ret_loaded);

/* Tracks a clone if its original is tracked. Returns KILN_OK; KILN_MISS: the original is not
 * tracked; KILN_E_NO_MEMORY. */
kiln_status records_add_clone(cl_kernel clone, cl_kernel original);

void records_retain_kernel(cl_kernel kernel);

/* Called before a kernel is released. Returns a hold on the record if the last reference to the
 * kernel is being released and the kernel holds P; otherwise NULL. The caller passes the hold to
 * records_release_kernel_hold after the driver has released the kernel. */
program_record *records_release_kernel(cl_kernel kernel);

/* Drops the reference on P that a kernel of the loaded program held, and @record. */
void records_release_kernel_hold(program_record *record);
