/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference-counted programs and kernels on a device.
 */
#pragma once

#include <pthread.h>

#include "program/desc.h"

struct kilni_live_kernel;

/* An object of the programs map. It is either a program of a context or a program of the user's
 * own. */
typedef struct kilni_live_program {
    /* Counts one reference for the map or the only holder, and one reference for each kernel.
     * Increments are relaxed; decrements acquire and release, so that the thread that decrements to
     * 0 sees all earlier changes. */
    _Atomic size_t references;
    const kiln_device_ops *ops;    /* borrowed, like the device: both outlive it */
    void *device;                  /* the device for which it was built */
    void *handle;                  /* NULL: not made yet */
    uint64_t number;               /* unique in the process; the group of its kernels */
    kiln_program_desc *desc;       /* NULL: the user's own */
    kiln_program_context *context; /* one reference */
    size_t shares_with;            /* index of the first of the devices that share it */
    uint64_t build_ns;             /* how long its build took, if known */
    bool matches_key; /* its inputs were those in the description's key: it was loaded, or the key
                         was still the same after the build. Set before other threads can use the
                         program */

    bool is_left_to_kernels; /* the map has destroyed its object, so only kernels can still keep the
                                program. Set before the map's reference is released; read after the
                                last reference was released */

    pthread_mutex_t lock; /* guards the members below; while it is held, no lock is taken except the
                             readers' (memory/reader.c) */
    uint64_t bytes;       /* what kilni_live_program_bytes returned, plus what was added since */
    kiln_entry *blob;     /* NULL: not requested yet */
    struct kilni_live_kernel *kernels; /* all of its kernels that exist */
} kilni_live_program;

/* An object of the kernels map. */
typedef struct kilni_live_kernel {
    void *handle;
    /* Guarded by the program's lock. */
    struct kilni_live_kernel *next, **link; /* of the program's kernels */
    const kiln_pin *place;  /* the kernel's object in the map; NULL: none, or not recorded yet */
    bool is_kept, has_left; /* it is in the map; it was, and is no longer */
    _Atomic uint64_t noted; /* the context's insertions when a use of the program was last noted;
                               the low bits count the uses that were noted, up to 15. Relaxed */
    kilni_live_program *program; /* one reference */
    void *device;                /* the device for which it was made */
    pthread_mutex_t lock;        /* for kiln_kernel_lock */
    char name[];
} kilni_live_kernel;

/* Makes a program without a handle.
 *
 * @desc  retained; NULL: the user's own
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_live_program_new(kiln_program_context *context, const kiln_program_desc *desc,
                                   kilni_live_program **ret_program);

/* A kiln_busy_fn. Returns true if one of the program's kernels is in use, because the program is
 * then in use too. */
int kilni_live_program_is_busy(void *user, const void *program);

/* Adds a reference and returns @program. */
kilni_live_program *kilni_live_program_retain(kilni_live_program *program);

/* Releases a reference. */
void kilni_live_program_release(kilni_live_program *program);

/* The maps' destroy functions. Each of them releases one reference. If kernels still keep a program
 * after that, kilni_program_context_count_left counts it. */
void kilni_live_program_destroy(void *user, void *program);
void kilni_live_kernel_destroy(void *user, void *kernel);

/* Builds a program, or compiles and links it. If the device has no room for one of these steps,
 * evicts objects and tries the step once more.
 *
 * Returns KILN_OK; KILN_E_BUILD, with the log in @error; KILN_E_UNSUPPORTED: the device can't link;
 * KILN_E_INVALID: an op succeeded but returned no object; what the ops return. */
kiln_status kilni_live_program_build(kilni_live_program *program, kiln_error *error);

/* Loads a verified entry. If the device has no room, evicts objects and tries once more. Returns
 * what load returns; KILN_MISS: the entry is sound, but its inputs have changed. */
kiln_status kilni_live_program_load(kilni_live_program *program, const kiln_entry *entry);

/* Returns the program's size in memory, including its blob, and records it in the program. Called
 * before other threads can use the program. */
uint64_t kilni_live_program_bytes(kilni_live_program *program);

/* Captures the program's binary as an entry.
 *
 * @key, @kind  the entry's
 * @replaces    as in kiln_capture; may be NULL
 * Returns what the ops' capture returns. */
kiln_status kilni_live_program_capture(const kilni_live_program *program, const kiln_key *key,
                                       uint32_t kind, const kiln_entry *replaces,
                                       kiln_entry **ret_entry);

/* Makes a kernel of a program. The kernel keeps the program alive. If the device has no room,
 * evicts objects and tries once more.
 *
 * Returns KILN_OK; KILN_MISS: the program has no kernel of that name; KILN_E_NO_MEMORY; what the
 * ops return. */
kiln_status kilni_live_kernel_new(kilni_live_program *program, void *device, const char *name,
                                  kilni_live_kernel **ret_kernel);

/* These functions record the kernel's object in the map, and whether the kernel is in the map.
 * Sometimes a kernel's removal from the map is recorded before its insertion. */
void kilni_live_kernel_set_place(kilni_live_kernel *kernel, const kiln_pin *place);
void kilni_live_kernel_set_kept(kilni_live_kernel *kernel, bool is_kept);
