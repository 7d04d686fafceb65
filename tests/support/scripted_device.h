/* SPDX-License-Identifier: Apache-2.0
 *
 * A device runtime that follows a test's script and counts its calls. A program is a number that
 * its source determines, and a binary contains that number, so a caller detects a wrong program.
 * The device's own allocations never fail: if a call fails for lack of memory, the device is not
 * the cause.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/device.h>

/* One function of the device. Its script may be set only while no call is in progress. */
typedef struct scripted_call {
    int failing;         /* how many calls fail before all succeed */
    kiln_status failure; /* what these calls return */
    atomic_int count;    /* calls since the script was set */
} scripted_call;

#define SCRIPTED_ALWAYS INT32_MAX

typedef struct scripted_device {
    const char *text; /* the device's identity */
    scripted_call identity, describe, build, load, capture, kernel, compile, link, revise;
    const char *build_text; /* the log of a build that fails */
    uint64_t bytes;         /* the reported size of each program; 0: unknown */
    int kind;              /* devices of the same kind are interchangeable; 0: this device is not */
    bool captures_nothing; /* binaries are empty */

    _Atomic uint64_t included; /* a revision, which is part of each source's description; 0: none */
    _Atomic uint64_t revision; /* the content that sources read, which becomes part of their
                                  programs; 0: they read nothing */
    const char *reader; /* the text of the only source that reads something; NULL: all sources do */

    char options[256]; /* the options of the last build, compile or link; must not be read while one
                          runs */
    /* May be NULL; called inside each build, on the thread that builds. */
    void (*while_building)(void *user);
    void *user;

    atomic_int live_programs, live_kernels;
    atomic_int wrong; /* binaries that were passed to load, but made from a different source */
} scripted_device;

typedef struct scripted_program {
    uint64_t value;
} scripted_program;

/* Sets a function's script and resets its count. */
void script(scripted_call *call, int failing, kiln_status failure);

/* Returns the number that bytes stand for, combined with @sum, the number of any bytes before
 * them. */
uint64_t scripted_value(uint64_t sum, const void *bytes, size_t size);

/* The functions of the device, as the ops below call them. */
kiln_status scripted_build(scripted_device *device, uint64_t value, scripted_program **ret_program);
kiln_status scripted_capture(scripted_device *device, uint64_t value, kiln_capture *ret_capture);
kiln_status scripted_load(scripted_device *device, uint64_t value, scripted_program **ret_program);
void scripted_release(scripted_device *device, scripted_program *program);

/* Returns the number in a binary; 0: it is not a binary. */
uint64_t scripted_read(kiln_bytes binary);

/* Ops whose device is a scripted_device and whose programs are scripted_program. */
extern const kiln_device_ops scripted_cheap_ops, scripted_expensive_ops, scripted_never_ops;

/* As above, but capturing is cheap, and the device reports revisions and loads only entries of the
 * same revision. */
extern const kiln_device_ops scripted_revised_ops;

/* The error text if a revision is unknown. */
#define SCRIPTED_NO_REVISION "the files that it reads are unknown"

/* A name that no kernel of any program has. */
#define SCRIPTED_NO_KERNEL "nowhere"
