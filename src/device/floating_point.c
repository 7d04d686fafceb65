/* SPDX-License-Identifier: Apache-2.0 */
#include "device/floating_point.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 64 };

/* The following is defined separately for each architecture: the control words, the bits that form
 * the mode, the values of these bits in a new process, how to mask traps, the exception flags, and
 * the format of a mode as text. Kiln does not use the C library's functions for this. They are in
 * libm, which Kiln does not link: see tests/include/check-exports. */
#if defined(__x86_64__)
#include <xmmintrin.h>

/* MXCSR: masks, rounding, FTZ and DAZ. x87: masks, precision and rounding. */
#define VECTOR_BITS 0xffc0u
#define VECTOR_DEFAULT 0x1f80u
#define X87_BITS 0x0f3fu
#define X87_DEFAULT 0x033fu
#define VECTOR_WITHOUT_TRAPS(word) ((word) | 0x1f80u)
#define X87_WITHOUT_TRAPS(word) ((word) | 0x003fu)
#define FLAGS 0x3fu
#define FLAG_INVALID 0x01u
#define FLAG_DIVISION 0x04u
#define FLAG_OVERFLOW 0x08u
#define FLAG_UNDERFLOW 0x10u
#define FORMAT "MXCSR %04" PRIx32 ", x87 %04" PRIx32
#define SCAN_FORMAT "MXCSR %" SCNx32 ", x87 %" SCNx32

static uint32_t read_vector(void)
{
    return _mm_getcsr();
}

static void write_vector(uint32_t word)
{
    _mm_setcsr(word);
}

static uint32_t read_x87(void)
{
    uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
}

static void write_x87(uint32_t word)
{
    const uint16_t low = (uint16_t)word;
    __asm__ volatile("fldcw %0" : : "m"(low));
}

uint32_t kilni_floating_point_take_flags(void)
{
    const uint32_t vector = _mm_getcsr() & FLAGS;
    uint16_t x87;
    __asm__ volatile("fnstsw %0" : "=m"(x87));
    if (vector) {
        _mm_setcsr(_mm_getcsr() & ~FLAGS);
    }
    if (x87 & FLAGS) {
        __asm__ volatile("fnclex");
    }
    return vector | (x87 & FLAGS);
}

void kilni_floating_point_add_flags(uint32_t flags)
{
    if (flags) {
        _mm_setcsr(_mm_getcsr() | flags);
    }
}

#else

#define X87_BITS 0u
#define X87_DEFAULT 0u
#define X87_WITHOUT_TRAPS(word) (word)

static uint32_t read_x87(void)
{
    return 0;
}

static void write_x87(uint32_t word)
{
    (void)word;
}

#define VECTOR_BITS UINT32_MAX
#define VECTOR_DEFAULT 0u
#define VECTOR_WITHOUT_TRAPS(word) ((word) & ~0x9f00u)
#define FLAGS 0x9fu
#define FLAG_INVALID 0x01u
#define FLAG_DIVISION 0x02u
#define FLAG_OVERFLOW 0x04u
#define FLAG_UNDERFLOW 0x08u
#define FORMAT "FPCR %08" PRIx32 " %" PRIx32
#define SCAN_FORMAT "FPCR %" SCNx32 " %" SCNx32

static uint32_t read_vector(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return (uint32_t)word;
}

static void write_vector(uint32_t word)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)word));
}

uint32_t kilni_floating_point_take_flags(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpsr" : "=r"(word));
    if (word & FLAGS) {
        __asm__ volatile("msr fpsr, %0" : : "r"(word & ~(uint64_t)FLAGS));
    }
    return (uint32_t)word & FLAGS;
}

void kilni_floating_point_add_flags(uint32_t flags)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpsr" : "=r"(word));
    __asm__ volatile("msr fpsr, %0" : : "r"(word | flags));
}

#endif

kilni_floating_point kilni_floating_point_default(void)
{
    return (kilni_floating_point){.vector = VECTOR_DEFAULT, .x87 = X87_DEFAULT};
}

bool kilni_floating_point_equals(kilni_floating_point a, kilni_floating_point b)
{
    return a.vector == b.vector && a.x87 == b.x87;
}

kilni_floating_point kilni_floating_point_get(void)
{
    return (kilni_floating_point){.vector = read_vector() & VECTOR_BITS,
                                  .x87 = read_x87() & X87_BITS};
}

void kilni_floating_point_set(kilni_floating_point mode)
{
    write_vector((read_vector() & ~VECTOR_BITS) | mode.vector);
    write_x87((read_x87() & ~X87_BITS) | mode.x87);
}

kilni_floating_point_before kilni_floating_point_silence(void)
{
    const kilni_floating_point_before before = {.flags = kilni_floating_point_take_flags(),
                                                .mode = kilni_floating_point_get()};
    kilni_floating_point_set(
        (kilni_floating_point){.vector = VECTOR_WITHOUT_TRAPS(before.mode.vector),
                               .x87 = X87_WITHOUT_TRAPS(before.mode.x87)});
    return before;
}

/* Clears all flags first. Otherwise the x87 unit would trap if a flag is set when the exception of
 * that flag is unmasked again. */
void kilni_floating_point_restore(const kilni_floating_point_before *before)
{
    kilni_floating_point_take_flags();
    kilni_floating_point_set(before->mode);
    kilni_floating_point_add_flags(before->flags);
}

uint32_t kilni_floating_point_raised(uint32_t flags)
{
    return (flags & FLAG_INVALID ? KILNI_RAISED_INVALID : 0u) |
           (flags & FLAG_DIVISION ? KILNI_RAISED_DIVISION : 0u) |
           (flags & FLAG_OVERFLOW ? KILNI_RAISED_OVERFLOW : 0u) |
           (flags & FLAG_UNDERFLOW ? KILNI_RAISED_UNDERFLOW : 0u);
}

static void write_text(kilni_floating_point mode, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE, FORMAT, mode.vector, mode.x87);
}

kiln_status kilni_floating_point_add_to_key(kiln_key_builder *key)
{
    const kilni_floating_point mode = kilni_floating_point_get();
    char text[TEXT_SIZE];
    if (kilni_floating_point_equals(mode, kilni_floating_point_default())) {
        return KILN_OK;
    }
    write_text(mode, text);
    return kiln_key_builder_add_text(key, KILNI_FLOATING_POINT_PART, text);
}

/* Accepts only text that write_text would write on this processor, because the process would crash
 * if it set a reserved bit. */
kiln_status kilni_floating_point_read(const void *bytes, uint64_t size,
                                      kilni_floating_point *ret_mode)
{
    char text[TEXT_SIZE] = "", rewritten[TEXT_SIZE];
    kilni_floating_point mode;
    if (size >= TEXT_SIZE) {
        return KILN_E_CORRUPT;
    }
    if (size > 0) {
        memcpy(text, bytes, (size_t)size);
    }
    if (sscanf(text, SCAN_FORMAT, &mode.vector, &mode.x87) != 2 || (mode.vector & ~VECTOR_BITS) ||
        (mode.x87 & ~X87_BITS)) {
        return KILN_E_CORRUPT;
    }
    write_text(mode, rewritten);
    if (strlen(rewritten) != size || memcmp(rewritten, text, (size_t)size) != 0) {
        return KILN_E_CORRUPT;
    }
    *ret_mode = mode;
    return KILN_OK;
}
