/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point mode of the calling thread: how it rounds, whether it flushes subnormal
 * numbers to zero, and which exceptions trap. A compiler folds constants with the processor's own
 * arithmetic, in the thread that calls it, so that the mode decides what it makes. A program that
 * is linked with -ffast-math flushes in all its threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

/* The name of the key's part. */
#define KILNI_FLOATING_POINT_PART "cpu.floating_point"

/* Control bits alone: not the flags of exceptions that have been raised, which decide nothing. */
typedef struct kilni_floating_point {
    uint32_t vector; /* x86: MXCSR; Arm: FPCR */
    uint32_t x87;    /* x86: the control word; else 0 */
} kilni_floating_point;

/* The mode that a process starts in. */
kilni_floating_point kilni_floating_point_default(void);

bool kilni_floating_point_equals(kilni_floating_point a, kilni_floating_point b);

/* The calling thread's. Sets it, and leaves the flags of raised exceptions as they are. */
kilni_floating_point kilni_floating_point_get(void);
void kilni_floating_point_set(kilni_floating_point mode);

/* Flags of exceptions that the calling thread has raised, as the processor has them: lowers all of
 * them and tells which there were; raises some, which traps nothing. */
uint32_t kilni_floating_point_take_flags(void);
void kilni_floating_point_add_flags(uint32_t flags);

/* What the calling thread had before its exceptions were silenced. */
typedef struct kilni_floating_point_before {
    kilni_floating_point mode;
    uint32_t flags;
} kilni_floating_point_before;

/* Kiln calls math functions that the program did not ask for. In between no exception traps, and
 * afterwards mode and flags are as they were: the calls leave no trace. */
kilni_floating_point_before kilni_floating_point_silence(void);
void kilni_floating_point_restore(const kilni_floating_point_before *before);

/* Stored values. That a result is inexact, or an operand subnormal, is not among them. */
enum {
    KILNI_RAISED_INVALID = 1,
    KILNI_RAISED_DIVISION = 2,
    KILNI_RAISED_OVERFLOW = 4,
    KILNI_RAISED_UNDERFLOW = 8
};

/* Flags as a set of these. */
uint32_t kilni_floating_point_raised(uint32_t flags);

/* Appends the calling thread's mode; nothing if it is the default, as it nearly always is. KILN_OK;
 * KILN_E_NO_MEMORY; KILN_E_TOO_LARGE. */
kiln_status kilni_floating_point_add_to_key(kiln_key_builder *key);

/* Reads the bytes of such a part. KILN_OK; KILN_E_CORRUPT: they are of another processor's, or
 * damaged. */
kiln_status kilni_floating_point_read(const void *bytes, uint64_t size,
                                      kilni_floating_point *ret_mode);
