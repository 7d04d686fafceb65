/* SPDX-License-Identifier: Apache-2.0 */
#include "stubs.h"

#include <stddef.h>
#include <stdint.h>

/* Also written in the assembly below. */
#define STUB_COUNT 512u
#define STUB_BYTES 16u

/* Written under the loader's lock. Each element is written before the stub that uses it is returned
 * to a caller. */
static struct {
    const void *owner; /* NULL: free */
    size_t number;
    void *function;
    stub_call_fn *call;
} replaced[STUB_COUNT];

/* What the stubs save. */
typedef struct saved_registers {
    const void *arguments[NVRTC_ARGUMENT_REGISTERS];
    uintptr_t result; /* x86-64: of rax; Arm: of x6, which is not restored after a served call */
} saved_registers;

/* Called by the stubs. Returns the address to continue at; NULL if the call is served. */
__attribute__((used)) void *stub_enter(size_t stub, saved_registers *registers);

void *stub_enter(size_t stub, saved_registers *registers)
{
    int result = 0;
    if (replaced[stub].call(replaced[stub].owner, replaced[stub].number, registers->arguments,
                            &result)) {
        registers->result = (uintptr_t)(unsigned)result;
        return NULL;
    }
    return replaced[stub].function;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".balign 16\n"
        ".type stubs, @function\n"
        "stubs:\n"
        ".set stub, 0\n"
        ".rept 512\n"
        "    .balign 16\n"
        "    pushq $stub\n"
        "    jmp stub_common\n"
        "    .set stub, stub + 1\n"
        ".endr\n"
        ".size stubs, . - stubs\n"
        ".type stub_common, @function\n"
        "stub_common:\n"
        /* The stub's number and the return address are already on the stack. Below them, there is
         * room for 8 registers, of which 7 are used, and for 8 vectors. This size keeps the stack
         * aligned to 16 bytes. A thread can be unwound through this frame. */
        "    .cfi_startproc\n"
        "    .cfi_def_cfa_offset 16\n"
        "    subq $192, %rsp\n"
        "    .cfi_def_cfa_offset 208\n"
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
        "    call stub_enter\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
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
        "    .cfi_remember_state\n"
        "    .cfi_def_cfa_offset 8\n"
        "    jmp *%r11\n"
        "    .cfi_restore_state\n"
        "1:  movq 48(%rsp), %rax\n"
        "    addq $200, %rsp\n"
        "    .cfi_def_cfa_offset 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size stub_common, . - stub_common\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".balign 16\n"
        ".type stubs, %function\n"
        "stubs:\n"
        ".set stub, 0\n"
        ".rept 512\n"
        "    .balign 16\n"
        "    mov x16, #stub\n"
        "    b stub_common\n"
        "    .set stub, stub + 1\n"
        ".endr\n"
        ".size stubs, . - stubs\n"
        ".type stub_common, %function\n"
        "stub_common:\n"
        "    .cfi_startproc\n"
        "    sub sp, sp, #224\n"
        "    .cfi_def_cfa_offset 224\n"
        "    stp x0, x1, [sp, #0]\n"
        "    stp x2, x3, [sp, #16]\n"
        "    stp x4, x5, [sp, #32]\n"
        "    stp x6, x7, [sp, #48]\n"
        "    stp x8, x30, [sp, #64]\n"
        "    .cfi_offset 30, -152\n"
        "    stp q0, q1, [sp, #96]\n"
        "    stp q2, q3, [sp, #128]\n"
        "    stp q4, q5, [sp, #160]\n"
        "    stp q6, q7, [sp, #192]\n"
        "    mov x0, x16\n"
        "    mov x1, sp\n"
        "    bl stub_enter\n"
        "    cbz x0, 1f\n"
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
        "    .cfi_remember_state\n"
        "    .cfi_restore 30\n"
        "    .cfi_def_cfa_offset 0\n"
        "    br x16\n"
        "    .cfi_restore_state\n"
        "1:  ldr x0, [sp, #48]\n"
        "    ldr x30, [sp, #72]\n"
        "    add sp, sp, #224\n"
        "    .cfi_restore 30\n"
        "    .cfi_def_cfa_offset 0\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size stub_common, . - stub_common\n");
#endif

extern char stubs[STUB_COUNT][STUB_BYTES];

void *stub_new(const void *owner, size_t number, void *function, stub_call_fn *call)
{
    size_t stub = 0;
    while (stub < STUB_COUNT && replaced[stub].owner) {
        stub++;
    }
    if (stub == STUB_COUNT) {
        return NULL;
    }
    replaced[stub].owner = owner;
    replaced[stub].number = number;
    replaced[stub].function = function;
    replaced[stub].call = call;
    return stubs[stub];
}

void stubs_forget(const void *owner)
{
    for (size_t stub = 0; stub < STUB_COUNT; stub++) {
        if (replaced[stub].owner == owner) {
            replaced[stub].owner = NULL;
        }
    }
}
