/* SPDX-License-Identifier: Apache-2.0 */
#include "device/freestanding.h"

#include <sys/syscall.h>

int kilni_bare_equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

int kilni_bare_begins_with(const char *text, const char *prefix)
{
    while (*prefix && *text == *prefix) {
        text++;
        prefix++;
    }
    return *prefix == '\0';
}

const char *kilni_bare_base_name(const char *path)
{
    const char *name = path;
    for (; *path; path++) {
        name = *path == '/' ? path + 1 : name;
    }
    return name;
}

long kilni_bare_call(long number, long first, long second, long third, long fourth)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = fourth;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    register long x2 __asm__("x2") = third;
    register long x3 __asm__("x3") = fourth;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#endif
}

long kilni_bare_protect(void *start, size_t size, int protection)
{
    return kilni_bare_call(SYS_mprotect, (long)start, (long)size, protection, 0);
}
