/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device makes: programs and kernels, each counted by those who need it.
 */
#pragma once

#include <pthread.h>

#include "program/desc.h"

/* Object of the programs map. A program of a context, or of the user's. */
typedef struct kilni_live_program {
    _Atomic size_t references;  /* the map's or its holder's, and one of each kernel. Grows relaxed;
                                   what brings it to 0 acquires and releases */
    const kiln_device_ops *ops; /* borrowed, as the device: both outlive it */
    void *device;               /* for which it was built */
    void *handle;               /* NULL: not made yet */
    uint64_t number;            /* no other program of this process has it: its kernels' group */
    kiln_program_desc *desc;    /* NULL: the user's own */
    kiln_program_context *context; /* one reference */
    size_t serves;                 /* index of the first of the devices that share it */
    uint64_t build_ns;             /* what building it cost, as far as that is known */
    bool is_of_its_key; /* it is what the description's key says: it was loaded, or once it was
                           built the key was the same. Set before others have the program */

    pthread_mutex_t lock; /* guards blob, which is made when it is asked for first */
    kiln_entry *blob;
} kilni_live_program;

/* Object of the kernels map. */
typedef struct kilni_live_kernel {
    void *handle;
    _Atomic uint64_t noted; /* the context's insertions when a use of the program was noted last,
                               and below it how many were, of 15. Relaxed */
    kilni_live_program *program; /* one reference */
    void *device;                /* for which it was made */
    pthread_mutex_t lock;        /* the user's: kiln_kernel_lock */
} kilni_live_kernel;

/* Makes a place for a program.
 *
 * @desc  retained; NULL: the user's own
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_live_program_new(kiln_program_context *context, const kiln_program_desc *desc,
                                   kilni_live_program **ret_program);

/* One reference more; returns its argument. */
kilni_live_program *kilni_live_program_retain(kilni_live_program *program);

/* The maps' destroy functions: each gives back one reference. */
void kilni_live_program_destroy(void *user, void *program);
void kilni_live_kernel_destroy(void *user, void *kernel);

/* Builds, or compiles and links. Room is made once, where the device has none.
 *
 * Returns KILN_OK; KILN_E_BUILD, with the log in @error; KILN_E_UNSUPPORTED: the device can't link;
 * KILN_E_INVALID: an op succeeded but made nothing; what the ops return. */
kiln_status kilni_live_program_build(kilni_live_program *program, kiln_error *error);

/* Makes it of a verified entry. Likewise; KILN_MISS: the entry is good, but not as things are. */
kiln_status kilni_live_program_load(kilni_live_program *program, const kiln_entry *entry);

/* What it occupies in memory, with its blob. For whoever has it alone. */
uint64_t kilni_live_program_bytes(const kilni_live_program *program);

/* Takes its binary as an entry.
 *
 * @key, @kind  of the entry
 * @replaces    as of a kiln_capture; may be NULL
 * Statuses as the ops' capture. */
kiln_status kilni_live_program_capture(const kilni_live_program *program, const kiln_key *key,
                                       uint32_t kind, const kiln_entry *replaces,
                                       kiln_entry **ret_entry);

/* Makes a kernel of a program, which it keeps alive. Likewise.
 *
 * Returns KILN_OK; KILN_MISS: there is none of that name; KILN_E_NO_MEMORY; what the ops return. */
kiln_status kilni_live_kernel_new(kilni_live_program *program, void *device, const char *name,
                                  kilni_live_kernel **ret_kernel);
