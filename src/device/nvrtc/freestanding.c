/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/freestanding.h"

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

long kilni_bare_protect(void *start, size_t size, int protection)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_mprotect), "D"(start), "S"(size), "d"((long)protection)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_mprotect;
    register long first __asm__("x0") = (long)start;
    register long second __asm__("x1") = (long)size;
    register long third __asm__("x2") = protection;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
    return first;
#else
    (void)start, (void)size, (void)protection;
    return -1; /* there is no audit library elsewhere */
#endif
}
