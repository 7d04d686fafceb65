/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layer knows of the application's programs and kernels.
 *
 * The application always holds the driver's own program P. Where the cache had its binary, P has a
 * twin: a second program made of the binary, to which everything is redirected that needs the
 * built code. Kernels of a twin hold a reference on P, as kernels of P would.
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

/* A linked program has no other P than the one that is made of the binary: there the application
 * holds the twin itself, and the twin only answers for it.
 *
 * Immutable but for its count, so that a call may use it while another drops it. */
typedef struct twin {
    cl_program program;
    char *options; /* NULL where the build had none */
    cl_uint device_count;
    cl_device_id *devices;
    kilni_opencl_answers **answers; /* one for each device */
    kilni_floating_point
        mode;              /* of the thread that asked for the build, in which a late one is made */
    int is_program_itself; /* P and the twin are one: P's references are the application's */
    _Atomic unsigned holds; /* the last release (acq_rel) frees; a hold is taken under the lock */
} twin;

/* Where the build or compile of a program is that goes on now. */
typedef enum build_phase {
    BUILD_NONE = 0,
    BUILD_LOOKED_UP = 1, /* the driver doesn't know of it */
    BUILD_AT_DRIVER = 2
} build_phase;

typedef struct program_record {
    cl_program program; /* P */
    cl_context context;
    platform *platform; /* may be NULL */
    program_origin origin;

    unsigned holds;       /* on this struct, by calls in flight, kernels and the map */
    cl_uint references;   /* on P, the application's and those of its twin's kernels */
    cl_uint kernel_holds; /* of these, the ones for the twin's kernels */
    cl_uint build_holds;  /* beyond these: what builds in flight hold at the driver */
    build_phase phase;
    unsigned generation;    /* how often the driver was asked to build or compile P itself */
    device_keys compiled;   /* what this generation compiled into it, where that is known */
    device_keys uncaptured; /* what it built, while its binaries are yet to be had */
    uint64_t uncaptured_ns; /* what that build took */
    kilni_floating_point uncaptured_mode; /* the mode in which it was built */
    kilni_opencl_constants constants;
    int has_lost_constants; /* for want of memory: its key cannot be told any more */
    twin *twin;             /* NULL: the driver's P answers for itself */
} program_record;

typedef struct kernel_record {
    cl_kernel kernel;
    program_record *record; /* held */
    twin *twin;             /* held: its answers */
    cl_uint references;
} kernel_record;

void records_lock(void);
void records_unlock(void);

/* ---- programs ---- */

/* Starts to keep track of a program that the application gets. What can't be tracked, for want of
 * memory, is left to the driver. */
void records_add_program(cl_program program, cl_context context, program_origin origin);

/* The same for a program that was made of a linked one's binary; @made (taken over) answers for
 * it. */
void records_add_linked(cl_program program, cl_context context, twin *made);

/* A hold on the record of a program, or NULL where it isn't tracked. */
program_record *records_hold(cl_program program);
void records_release(program_record *record);

/* A hold on the record of each program there is. Returns an array to be freed, each of whose
 * records is to be released; NULL: there is none, or no memory. */
program_record **records_hold_all(size_t *ret_count);

/* A hold on the twin that a program has now, or NULL. */
twin *records_hold_twin(program_record *record);
twin *records_hold_twin_of(cl_program program);

/* An application's own reference comes or goes. Before the last one reaches the driver, the
 * program's record is dropped, since its address may be used again. */
void records_retain_program(cl_program program);
void records_release_program(cl_program program);

/* 1 where the application has released a program for the last time, and only kernels of its twin
 * keep it: on a driver whose programs don't count their kernels the handle is dead then. */
int records_is_let_go(cl_program program);

/* 1 where one of several is; @of may be NULL. */
int records_has_let_go(cl_uint count, const cl_program *of);

/* Remembers a specialization constant that the driver took. */
void records_set_constant(cl_program program, cl_uint id, size_t size, const void *value);

/* Copies a program's constants. KILN_OK; KILN_E_UNSUPPORTED: some were lost; KILN_E_NO_MEMORY. */
kiln_status records_copy_constants(program_record *record, kilni_opencl_constants *ret_copy);

/* The driver is asked to build or compile P itself: from now on P answers for itself, and what was
 * built or compiled before is past. Returns the new generation. */
unsigned records_begin_native(program_record *record);

/* 1 where the driver was asked to build or compile P itself. */
int records_is_native(program_record *record);

/* 1 while what was built last is what the generation says. */
int records_is_generation(program_record *record, unsigned generation);

/* Two builds or compiles of one program at a time: while the driver has the first, the second is
 * its to refuse (or, from the first one's callback, to do); while the driver doesn't know of the
 * first, it is to be refused as the driver would.
 *
 * Returns the phase of the first; BUILD_NONE: there is none, and this one is now
 * BUILD_LOOKED_UP. */
build_phase records_start_building(program_record *record);
void records_set_phase(program_record *record, build_phase phase);

/* Around a build or compile: the application's callback may release the program, so the layer holds
 * it until it is done. */
void records_hold_at_driver(program_record *record);
void records_release_at_driver(program_record *record);

/* Remembers what the driver compiled into P in that generation, unless another began since. Takes
 * @compiled over. */
void records_set_compiled(program_record *record, unsigned generation, device_keys compiled);

/* The same for what it built, by this thread, if a capture costs too much to be made now. */
void records_set_uncaptured(program_record *record, unsigned generation, device_keys built,
                            uint64_t build_ns);

/* Takes that away. Returns 0 if there is none, or this thread is in another floating-point mode
 * than the one that built: a driver may finish a build when it is asked for binaries, and then does
 * so in the mode of the thread that asks. */
int records_take_uncaptured(program_record *record, unsigned *ret_generation,
                            device_keys *ret_built, uint64_t *ret_build_ns);

/* The key of what was compiled into a program of a context for a device, retained; NULL: not
 * known. */
kiln_key *records_find_compiled(cl_program program, cl_context context, cl_device_id device);

/* The reference count that the application would see, where @driver_count is the driver's. */
cl_uint records_visible_references(cl_program program, cl_uint driver_count);

/* What the driver's count has to be lessened by, to be what the application would see. */
cl_uint records_hidden_context_references(cl_context context);

/* ---- twins ---- */

/* Makes a twin of a loaded program; takes over @program, and @answers with its array on success.
 * @options and @devices are copied. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status twin_new(cl_program program, const char *options, cl_uint device_count,
                     const cl_device_id *devices, kilni_opencl_answers **answers, twin **ret_twin);
void twin_release(twin *held);

/* The place of a device in a twin, or device_count where it isn't one of its devices. */
cl_uint twin_find_device(const twin *of, cl_device_id device);

/* Gives a program its twin (taken over), unless it went meanwhile, or the driver was asked. */
void records_set_twin(program_record *record, twin *made);

/* Takes it away. */
void records_drop_twin(program_record *record);

/* ---- kernels ---- */

/* 1 where a program's twin has kernels: then it can't be built again. */
int records_has_kernels(program_record *record);

/* Keeps track of a kernel made of a twin. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status records_add_kernel(cl_kernel kernel, program_record *record, twin *of);

/* A kernel's program P and a hold on its twin; 0 where the kernel is the driver's own affair. */
int records_find_kernel(cl_kernel kernel, cl_program *ret_program, twin **ret_twin);

/* Makes a clone of a tracked kernel tracked as well. KILN_OK; KILN_MISS: not tracked;
 * KILN_E_NO_MEMORY. */
kiln_status records_add_clone(cl_kernel clone, cl_kernel original);

void records_retain_kernel(cl_kernel kernel);

/* Before the last reference goes. Returns a hold on the record that is to be given back with
 * records_release_kernel_hold after the driver has released the kernel, or NULL. */
program_record *records_release_kernel(cl_kernel kernel);

/* Gives back the reference on P that a kernel of its twin held. */
void records_release_kernel_hold(program_record *record);
