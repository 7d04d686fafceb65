/* SPDX-License-Identifier: Apache-2.0
 *
 * A device runtime that does what a test says and counts what it was asked. A program is a number
 * that its source decides, and a binary is that number, so that whoever gets a wrong one is told.
 *
 * Its own allocations never fail: where a call fails for want of memory, it was not the device.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/device.h>

/* One call of the device. The script is set while no call is under way. */
typedef struct scripted_call {
    int failing;         /* so many calls fail, then all succeed */
    kiln_status failure; /* and this is what those answer */
    atomic_int count;    /* calls so far, since the script was set */
} scripted_call;

#define SCRIPTED_ALWAYS INT32_MAX

typedef struct scripted_device {
    const char *text; /* its identity */
    scripted_call identity, describe, build, load, capture, kernel, compile, link, revise;
    const char *build_text; /* the log of a build that fails */
    uint64_t bytes;         /* what each program is said to occupy; 0: can't be told */
    int kind;               /* devices of one kind are interchangeable; 0: with none */
    bool captures_nothing;  /* binaries are empty */

    _Atomic uint64_t included; /* what each source is described with; 0: nothing */
    _Atomic uint64_t revision; /* of what sources read, which their programs are made of; 0: they
                                  read nothing */
    const char *reader;        /* the text of the only source that reads; NULL: all do */

    char options[256]; /* of the last build, compile or link that was asked for; not to be read
                          while one is under way */
    /* May be NULL; called inside each build, on the thread that builds. */
    void (*while_building)(void *user);
    void *user;

    atomic_int live_programs, live_kernels;
    atomic_int wrong; /* binaries that were given to load, but not made of that source */
} scripted_device;

typedef struct scripted_program {
    uint64_t value;
} scripted_program;

/* Sets a call's script and forgets its count. */
void script(scripted_call *call, int failing, kiln_status failure);

/* The number that bytes stand for; for several, each with the sum of those before it. */
uint64_t scripted_value(uint64_t sum, const void *bytes, size_t size);

/* The device's calls, as the ops below make them. */
kiln_status scripted_build(scripted_device *device, uint64_t value, scripted_program **ret_program);
kiln_status scripted_capture(scripted_device *device, uint64_t value, kiln_capture *ret_capture);
kiln_status scripted_load(scripted_device *device, uint64_t value, scripted_program **ret_program);
void scripted_release(scripted_device *device, scripted_program *program);

/* The number that a binary is, or 0 where it is none. */
uint64_t scripted_read(kiln_bytes binary);

/* Ops whose device is a scripted_device and whose programs are scripted_program. */
extern const kiln_device_ops scripted_cheap_ops, scripted_dear_ops, scripted_never_ops;

/* Cheap ones that tell revisions, and load what is of the same one. */
extern const kiln_device_ops scripted_revised_ops;

/* The text of a revision that can't be had. */
#define SCRIPTED_NO_REVISION "what it reads can't be told"

/* No program has a kernel of this name. */
#define SCRIPTED_NO_KERNEL "nowhere"
