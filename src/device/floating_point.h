/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point mode of the calling thread: how it rounds, whether it flushes subnormal
 * numbers to zero, and which exceptions trap. A compiler folds constants with the processor's own
 * arithmetic in the thread that calls it, so the mode affects its result. In a program that is
 * linked with -ffast-math, all threads flush subnormal numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

/* The name of the mode's part in a key. */
#define KILNI_FLOATING_POINT_PART "cpu.floating_point"

/* The control bits of a mode. The flags of raised exceptions are left out, because they do not
 * affect results. */
typedef struct kilni_floating_point {
    uint32_t vector; /* x86: MXCSR; Arm: FPCR */
    uint32_t x87;    /* x86: the control word; else 0 */
} kilni_floating_point;

/* Returns the mode in which a process starts. */
kilni_floating_point kilni_floating_point_default(void);

bool kilni_floating_point_equals(kilni_floating_point a, kilni_floating_point b);

/* Return and set the calling thread's mode. Setting it leaves the flags of raised exceptions
 * unchanged. */
kilni_floating_point kilni_floating_point_get(void);
void kilni_floating_point_set(kilni_floating_point mode);

/* Flags of exceptions that the calling thread has raised, in the processor's encoding. The first
 * function clears all flags and returns those that were set. The second sets the given flags
 * without causing a trap. */
uint32_t kilni_floating_point_take_flags(void);
void kilni_floating_point_add_flags(uint32_t flags);

/* The calling thread's state before kilni_floating_point_silence. */
typedef struct kilni_floating_point_before {
    kilni_floating_point mode;
    uint32_t flags;
} kilni_floating_point_before;

/* Use these two functions around calls of math functions that the program itself did not request.
 * Call the first one before, and the second one afterwards. In between, no exception causes a trap.
 * kilni_floating_point_restore restores the mode and the flags, so that the program does not notice
 * the calls. */
kilni_floating_point_before kilni_floating_point_silence(void);
void kilni_floating_point_restore(const kilni_floating_point_before *before);

/* Entries store these values. Inexact results and subnormal operands are not recorded. */
enum {
    KILNI_RAISED_INVALID = 1,
    KILNI_RAISED_DIVISION = 2,
    KILNI_RAISED_OVERFLOW = 4,
    KILNI_RAISED_UNDERFLOW = 8
};

/* Converts the processor's flags to a combination of KILNI_RAISED_…. */
uint32_t kilni_floating_point_raised(uint32_t flags);

/* Appends the calling thread's mode to a key. Appends nothing if the mode is the default, which is
 * nearly always the case. Returns KILN_OK; KILN_E_NO_MEMORY; KILN_E_TOO_LARGE. */
kiln_status kilni_floating_point_add_to_key(kiln_key_builder *key);

/* Reads a mode from the part of a key that kilni_floating_point_add_to_key appended. Returns
 * KILN_OK; KILN_E_CORRUPT: the bytes are from a different processor architecture, or damaged. */
kiln_status kilni_floating_point_read(const void *bytes, uint64_t size,
                                      kilni_floating_point *ret_mode);
