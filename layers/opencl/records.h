/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer knows about the application's programs and kernels.
 *
 * The application holds the driver's own program P. On a hit, the layer makes a second program from
 * the stored binary: P's loaded program. It serves every call that needs the built code. Each
 * kernel of the loaded program holds a reference on P, because a kernel of P would hold one. Only a
 * link that was loaded from the cache has no P.
 *
 * A single lock guards all fields that change. No thread calls the driver while it holds this lock.
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
 * Immutable except for the number of its holds, so one call can use the program while another call
 * drops it. */
typedef struct loaded_program {
    cl_program program;
    char *options; /* NULL if the build had none */
    cl_uint device_count;
    cl_device_id *devices;
    kilni_opencl_answers **answers; /* one for each device */
    kilni_floating_point mode;      /* the requesting thread's mode; late builds use this mode */
    int is_held_by_application; /* 1: this is a linked program, which the application itself holds;
                                   there is no P */
    _Atomic unsigned holds;     /* the last release (acq_rel) frees the program; holds are added
                                   under the lock */
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
    cl_uint references;   /* references to P that the application and the loaded program's kernels
                             hold */
    cl_uint kernel_holds; /* the references to P that the loaded program's kernels hold */
    cl_uint build_holds;  /* additional references to P, which builds in flight hold at the
                             driver */
    build_phase phase;
    unsigned generation;    /* how often the driver was asked to build or compile P itself */
    device_keys compiled;   /* the keys of what was compiled into P in this generation, if known */
    device_keys uncaptured; /* the keys of this generation's build, until its binaries are
                               captured */
    uint64_t uncaptured_ns; /* how long that build took */
    kilni_floating_point uncaptured_mode; /* the mode of that build */
    kilni_opencl_constants constants;
    int has_lost_constants; /* memory ran out when constants were added, so the program's key can no
                               longer be made */
    loaded_program *loaded; /* NULL: P itself answers calls */
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

/* Does the same as records_add_program, for a linked program that was loaded from its binary. Takes
 * over @made, which answers for the program. */
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

/* Call these when the application adds or drops a reference. The layer drops a program's record
 * before the driver releases the last reference, since the handle can be reused after that. */
void records_retain_program(cl_program program);
void records_release_program(cl_program program);

/* Returns 1 if the application is no longer allowed to use the handle, because P would not exist
 * without the layer. This is so if the application has dropped its last reference, only kernels of
 * the loaded program keep P alive, and the driver does not count kernels as references. */
int records_is_released(cl_program program);

/* Returns 1 if records_is_released returns 1 for any of the programs. @all can be NULL. */
int records_any_released(cl_uint count, const cl_program *all);

/* Remembers a specialization constant that the driver accepted. */
void records_set_constant(cl_program program, cl_uint id, size_t size, const void *value);

/* Copies a program's constants. Returns KILN_OK; KILN_E_UNSUPPORTED if some constants were lost
 * because memory ran out; KILN_E_NO_MEMORY. */
kiln_status records_copy_constants(program_record *record, kilni_opencl_constants *ret_copy);

/* Called before the driver builds or compiles P itself. Drops the keys of P's former content. After
 * this, P cannot get a new loaded program. Returns the new generation. */
unsigned records_begin_native(program_record *record);

/* Returns 1 if the driver was ever asked to build or compile P itself. */
int records_is_native(program_record *record);

/* Returns 1 while @generation is the latest. */
int records_is_generation(program_record *record, unsigned generation);

/* Handles two builds or compiles of one program at the same time. If the driver knows about the
 * first build, the driver itself decides about the second: it accepts a build from the callback of
 * the first build, and refuses any other. If the driver does not know about the first build, the
 * caller must refuse the second one, as the driver would have done.
 *
 * Returns the phase of the first build. If this is BUILD_NONE, there is no other build, and the
 * phase of the caller's build is now BUILD_LOOKED_UP. */
build_phase records_start_building(program_record *record);
void records_set_phase(program_record *record, build_phase phase);

/* Called before and after a build or compile. The application's callback might release the program,
 * so the layer holds the program until the call is done. */
void records_hold_at_driver(program_record *record);
void records_release_at_driver(program_record *record);

/* Remembers the keys of the code that the driver compiled into P, unless a generation after
 * @generation has begun. Takes over @compiled. */
void records_set_compiled(program_record *record, unsigned generation, device_keys compiled);

/* Does the same for the keys of a program that the driver built in this thread. Called if a capture
 * is too expensive to be made now. */
void records_set_uncaptured(program_record *record, unsigned generation, device_keys built,
                            uint64_t build_ns);

/* Removes the keys of a build that was not captured, and always passes them to the caller. Returns
 * 0 if there are no such keys. Also returns 0 if this thread's floating-point mode differs from the
 * mode of the thread that built: some drivers finish a build only when a thread requests the
 * binaries, and do so in that thread's mode. */
int records_take_uncaptured(program_record *record, unsigned *ret_generation,
                            device_keys *ret_built, uint64_t *ret_build_ns);

/* Returns the key of a program's compile for a device, retained; NULL if the key is unknown or the
 * program belongs to a different context. */
kiln_key *records_find_compiled(cl_program program, cl_context context, cl_device_id device);

/* Returns the reference count that the application would see without the layer. @driver_count is
 * the count that the driver reports. */
cl_uint records_visible_references(cl_program program, cl_uint driver_count);

/* Returns how many of the references that the driver counts for a context are held by the layer. */
cl_uint records_hidden_context_references(cl_context context);

/* ---- loaded programs ---- */

/* On success, takes over @program, the array @answers and the answers in it. Copies @options and
 * @devices. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status loaded_program_new(cl_program program, const char *options, cl_uint device_count,
                               const cl_device_id *devices, kilni_opencl_answers **answers,
                               loaded_program **ret_loaded);
void loaded_program_release(loaded_program *held);

/* Returns the index of a device in a loaded program, or device_count if the program was not built
 * for the device. */
cl_uint loaded_program_find_device(const loaded_program *loaded, cl_device_id device);

/* Sets a program's loaded program, and takes over @made. If the application has released P
 * meanwhile, or if the driver has been asked to build P, releases @made instead. */
void records_set_loaded(program_record *record, loaded_program *made);

/* Removes and releases a program's loaded program. */
void records_drop_loaded(program_record *record);

/* ---- kernels ---- */

/* Returns 1 if the loaded program has kernels. As long as it has, P cannot be built again. */
int records_has_kernels(program_record *record);

/* Tracks a kernel of a loaded program. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status records_add_kernel(cl_kernel kernel, program_record *record, loaded_program *loaded);

/* Returns a kernel's program P, and a hold on its loaded program. Returns 0 if the kernel is the
 * driver's own. */
int records_find_kernel(cl_kernel kernel, cl_program *ret_program, loaded_program **ret_loaded);

/* Tracks a clone of a kernel if the original is tracked. Returns KILN_OK; KILN_MISS if the original
 * is not tracked; KILN_E_NO_MEMORY. */
kiln_status records_add_clone(cl_kernel clone, cl_kernel original);

void records_retain_kernel(cl_kernel kernel);

/* Called before a kernel is released. If this releases the last reference to the kernel, and the
 * kernel holds P, returns a hold on P's record; otherwise returns NULL. After the driver has
 * released the kernel, the caller passes this hold to records_release_kernel_hold. */
program_record *records_release_kernel(cl_kernel kernel);

/* Drops the reference on P that a kernel of the loaded program held, and the hold @record. */
void records_release_kernel_hold(program_record *record);
