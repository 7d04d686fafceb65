/* SPDX-License-Identifier: Apache-2.0 */
#include "unknown.h"

#include <stddef.h>
#include <stdint.h>

/* Also written in the assembly below. */
#define STUB_COUNT 32u
#define STUB_BYTES 16u

/* Written under the loader's lock. Each element is written before the stub that uses it is returned
 * to a caller. */
static struct {
    const void *owner; /* NULL: free */
    void *function;
    unknown_call_fn *before_call;
} watched[STUB_COUNT];

/* Called by the stubs. Returns the address to continue at. */
__attribute__((used)) void *unknown_enter(size_t stub, const void *const *arguments);

void *unknown_enter(size_t stub, const void *const *arguments)
{
    watched[stub].before_call(arguments);
    return watched[stub].function;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".balign 16\n"
        ".type unknown_stubs, @function\n"
        "unknown_stubs:\n"
        ".set stub, 0\n"
        ".rept 32\n"
        "    .balign 16\n"
        "    pushq $stub\n"
        "    jmp unknown_common\n"
        "    .set stub, stub + 1\n"
        ".endr\n"
        ".size unknown_stubs, . - unknown_stubs\n"
        ".type unknown_common, @function\n"
        "unknown_common:\n"
        /* The stub's number and the return address are already on the stack. Below them, there is
         * room for 8 registers, of which 7 are used, and for 8 vectors. This size keeps the stack
         * aligned to 16 bytes. */
        "    subq $192, %rsp\n"
        "    movq %rdi, 0(%rsp)\n"
        "    movq %rsi, 8(%rsp)\n"
        "    movq %rdx, 16(%rsp)\n"
        "    movq %rcx, 24(%rsp)\n"
        "    movq %r8, 32(%rsp)\n"
        "    movq %r9, 40(%rsp)\n"
        "    movq %rax, 48(%rsp)\n"
        "    movups %xmm0, 64(%rsp)\n"
        "    movups %xmm1, 80(%rsp)\n"
        "    movups %xmm2, 96(%rsp)\n"
        "    movups %xmm3, 112(%rsp)\n"
        "    movups %xmm4, 128(%rsp)\n"
        "    movups %xmm5, 144(%rsp)\n"
        "    movups %xmm6, 160(%rsp)\n"
        "    movups %xmm7, 176(%rsp)\n"
        "    movq 192(%rsp), %rdi\n"
        "    movq %rsp, %rsi\n"
        "    call unknown_enter\n"
        "    movq %rax, %r11\n"
        "    movq 0(%rsp), %rdi\n"
        "    movq 8(%rsp), %rsi\n"
        "    movq 16(%rsp), %rdx\n"
        "    movq 24(%rsp), %rcx\n"
        "    movq 32(%rsp), %r8\n"
        "    movq 40(%rsp), %r9\n"
        "    movq 48(%rsp), %rax\n"
        "    movups 64(%rsp), %xmm0\n"
        "    movups 80(%rsp), %xmm1\n"
        "    movups 96(%rsp), %xmm2\n"
        "    movups 112(%rsp), %xmm3\n"
        "    movups 128(%rsp), %xmm4\n"
        "    movups 144(%rsp), %xmm5\n"
        "    movups 160(%rsp), %xmm6\n"
        "    movups 176(%rsp), %xmm7\n"
        "    addq $200, %rsp\n"
        "    jmp *%r11\n"
        ".size unknown_common, . - unknown_common\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".balign 16\n"
        ".type unknown_stubs, %function\n"
        "unknown_stubs:\n"
        ".set stub, 0\n"
        ".rept 32\n"
        "    .balign 16\n"
        "    mov x16, #stub\n"
        "    b unknown_common\n"
        "    .set stub, stub + 1\n"
        ".endr\n"
        ".size unknown_stubs, . - unknown_stubs\n"
        ".type unknown_common, %function\n"
        "unknown_common:\n"
        "    sub sp, sp, #224\n"
        "    stp x0, x1, [sp, #0]\n"
        "    stp x2, x3, [sp, #16]\n"
        "    stp x4, x5, [sp, #32]\n"
        "    stp x6, x7, [sp, #48]\n"
        "    stp x8, x30, [sp, #64]\n"
        "    stp q0, q1, [sp, #96]\n"
        "    stp q2, q3, [sp, #128]\n"
        "    stp q4, q5, [sp, #160]\n"
        "    stp q6, q7, [sp, #192]\n"
        "    mov x0, x16\n"
        "    mov x1, sp\n"
        "    bl unknown_enter\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #0]\n"
        "    ldp x2, x3, [sp, #16]\n"
        "    ldp x4, x5, [sp, #32]\n"
        "    ldp x6, x7, [sp, #48]\n"
        "    ldp x8, x30, [sp, #64]\n"
        "    ldp q0, q1, [sp, #96]\n"
        "    ldp q2, q3, [sp, #128]\n"
        "    ldp q4, q5, [sp, #160]\n"
        "    ldp q6, q7, [sp, #192]\n"
        "    add sp, sp, #224\n"
        "    br x16\n"
        ".size unknown_common, . - unknown_common\n");
#endif

extern char unknown_stubs[STUB_COUNT][STUB_BYTES];

void *unknown_stub_new(const void *owner, void *function, unknown_call_fn *before_call)
{
    size_t stub = 0;
    while (stub < STUB_COUNT && watched[stub].owner) {
        stub++;
    }
    if (stub == STUB_COUNT) {
        return NULL;
    }
    watched[stub].owner = owner;
    watched[stub].function = function;
    watched[stub].before_call = before_call;
    return unknown_stubs[stub];
}

void unknown_forget(const void *owner)
{
    for (size_t stub = 0; stub < STUB_COUNT; stub++) {
        if (watched[stub].owner == owner) {
            watched[stub].owner = NULL;
        }
    }
}
