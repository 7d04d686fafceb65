/* SPDX-License-Identifier: Apache-2.0
 *
 * The addresses of a server's host. They are looked up when they are needed, and used for a minute.
 * Only the I/O thread uses this code.
 */
#pragma once

#include "store/network/lookup.h"

typedef struct kilni_host {
    const char *name;
    uint16_t port;
    /* Called at the end of a look-up. KILN_OK: addresses were found; KILN_E_IO: none were found. */
    void (*found)(struct kilni_host *host, kiln_status status);

    kilni_address addresses[KILNI_LOOKUP_MAX];
    size_t count;
    size_t next;          /* the index of the address to try, modulo the count */
    uint64_t found_ns;    /* when the addresses were looked up */
    kilni_lookup *lookup; /* the look-up that is under way; NULL: none */
} kilni_host;

/* Looks up the addresses unless they are known. Returns KILN_OK: they are known; KILN_BUSY: the
 * look-up is under way, and the function found will be called; KILN_E_IO, KILN_E_NO_MEMORY: the
 * look-up failed, and found will not be called. */
kiln_status kilni_host_find(kilni_host *host);

/* Returns the address to try. The addresses must be known. */
const kilni_address *kilni_host_address(const kilni_host *host);

/* Selects the next address for later attempts. */
void kilni_host_try_next(kilni_host *host);

/* If a look-up is under way, cancels it. The function found will not be called. */
void kilni_host_abandon(kilni_host *host);

/* Forgets the addresses and the look-up. A forked child calls this function. It does not touch the
 * parent's look-up. */
void kilni_host_forget(kilni_host *host);
