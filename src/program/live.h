/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device makes: programs and kernels, reference-counted.
 */
#pragma once

#include <pthread.h>

#include "program/desc.h"

/* An object of the programs map: a program of a context, or one of the user's own. */
typedef struct kilni_live_program {
    _Atomic size_t references;     /* one of the map or of its only holder, and one of each kernel.
                                      Increments are relaxed; decrements acquire and release, so
                                      that the one to 0 sees everything before */
    const kiln_device_ops *ops;    /* borrowed, like the device: both outlive it */
    void *device;                  /* the device for which it was built */
    void *handle;                  /* NULL: not made yet */
    uint64_t number;               /* unique in the process; the group of its kernels */
    kiln_program_desc *desc;       /* NULL: the user's own */
    kiln_program_context *context; /* one reference */
    size_t shares_with;            /* index of the first of the devices that share it */
    uint64_t build_ns;             /* how long its build took, if known */
    bool matches_key; /* its inputs were those in the description's key: it was loaded, or the key
                           was still the same after the build. Set before other threads have the
                           program */

    pthread_mutex_t lock; /* guards blob, which is made on demand */
    kiln_entry *blob;
} kilni_live_program;

/* An object of the kernels map. */
typedef struct kilni_live_kernel {
    void *handle;
    _Atomic uint64_t noted; /* the context's insertions when a use of the program was last noted; in
                               the low bits how many uses were noted since, up to 15. Relaxed */
    kilni_live_program *program; /* one reference */
    void *device;                /* the device for which it was made */
    pthread_mutex_t lock;        /* for kiln_kernel_lock */
} kilni_live_kernel;

/* Makes a program without a handle.
 *
 * @desc  retained; NULL: the user's own
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_live_program_new(kiln_program_context *context, const kiln_program_desc *desc,
                                   kilni_live_program **ret_program);

/* Adds a reference and returns its argument. */
kilni_live_program *kilni_live_program_retain(kilni_live_program *program);

/* The maps' destroy functions: each releases one reference. */
void kilni_live_program_destroy(void *user, void *program);
void kilni_live_kernel_destroy(void *user, void *kernel);

/* Builds, or compiles and links. If the device has no room, evicts once and tries again.
 *
 * Returns KILN_OK; KILN_E_BUILD, with the log in @error; KILN_E_UNSUPPORTED: the device can't link;
 * KILN_E_INVALID: an op succeeded but made nothing; what the ops return. */
kiln_status kilni_live_program_build(kilni_live_program *program, kiln_error *error);

/* Loads a verified entry; tries again as above. KILN_MISS: the entry is sound, but its inputs have
 * changed. */
kiln_status kilni_live_program_load(kilni_live_program *program, const kiln_entry *entry);

/* Returns the program's size in memory, including its blob. No other thread may have the program.
 */
uint64_t kilni_live_program_bytes(const kilni_live_program *program);

/* Captures the program's binary as an entry.
 *
 * @key, @kind  of the entry
 * @replaces    as in kiln_capture; may be NULL
 * Returns as the ops' capture. */
kiln_status kilni_live_program_capture(const kilni_live_program *program, const kiln_key *key,
                                       uint32_t kind, const kiln_entry *replaces,
                                       kiln_entry **ret_entry);

/* Makes a kernel of a program, which the kernel keeps alive; tries again as above.
 *
 * Returns KILN_OK; KILN_MISS: the program has no kernel of that name; KILN_E_NO_MEMORY; what the
 * ops return. */
kiln_status kilni_live_kernel_new(kilni_live_program *program, void *device, const char *name,
                                  kilni_live_kernel **ret_kernel);
