/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the addresses of a name. The system's function for this has no deadline, so it is called on
 * separate threads. No other thread waits for these threads. There are at most
 * KILNI_LOOKUP_THREADS, because a server can name any number of other servers, and name servers may
 * never answer. Further look-ups wait for a thread. Only the I/O thread calls these functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/network/stream.h"

#define KILNI_LOOKUP_MAX 4u
#define KILNI_LOOKUP_THREADS 4u

/* Allocated with malloc. From the start of the look-up until done is called, lookup.c or the thread
 * that looks up the name owns it. */
typedef struct kilni_lookup {
    kilni_task task;
    struct kilni_lookup *next; /* of those that wait for a thread */
    char host[256];
    uint16_t port;
    kilni_address addresses[KILNI_LOOKUP_MAX];
    size_t count; /* 0: the name does not exist, or no name server answered */

    /* Called on the I/O thread. The function must free the look-up. */
    void (*done)(struct kilni_lookup *lookup);
    void *user; /* an argument for done */
    bool is_abandoned;
} kilni_lookup;

/* Returns true, and sets the addresses, if the host is an address and not a name. No thread is
 * needed for this. */
bool kilni_lookup_is_address(kilni_lookup *lookup);

/* Starts the look-up, or makes it wait for a thread. Returns KILN_OK; KILN_E_IO: no thread can be
 * started, and the function done will not be called. */
kiln_status kilni_lookup_start(kilni_lookup *lookup);

/* Gives up a look-up that was started. The function done will not be called. */
void kilni_lookup_abandon(kilni_lookup *lookup);
