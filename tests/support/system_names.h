/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's getaddrinfo, for a test that replaces it with a function of its own.
 */
#pragma once

#include <dlfcn.h>
#include <netdb.h>

static inline int system_getaddrinfo(const char *name, const char *service,
                                     const struct addrinfo *hints, struct addrinfo **ret_found)
{
    union {
        void *symbol;
        int (*call)(const char *name, const char *service, const struct addrinfo *hints,
                    struct addrinfo **ret_found);
    } system = {.symbol = dlsym(RTLD_NEXT, "getaddrinfo")};
    return system.call(name, service, hints, ret_found);
}
