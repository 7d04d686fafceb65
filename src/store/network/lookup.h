/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the addresses of a name. The system's function for this has no deadline, so a separate
 * thread calls it. No other thread waits for that thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/network/stream.h"

#define KILNI_LOOKUP_MAX 4u

/* Allocated with malloc. Until done is called, it belongs to the thread that looks up the name. */
typedef struct kilni_lookup {
    kilni_task task;
    char host[256];
    uint16_t port;
    kilni_address addresses[KILNI_LOOKUP_MAX];
    size_t count; /* 0: the name does not exist, or no name server answered */

    /* Called on the I/O thread; must free the look-up. */
    void (*done)(struct kilni_lookup *lookup);
    void *user; /* an argument for done; the I/O thread may change it */
} kilni_lookup;

/* Whether the host is an address and not a name. If so, sets the addresses; no thread is needed. */
bool kilni_lookup_is_address(kilni_lookup *lookup);

/* Starts the look-up. Returns KILN_OK; KILN_E_IO: no thread can be started, and done will not be
 * called. */
kiln_status kilni_lookup_start(kilni_lookup *lookup);
