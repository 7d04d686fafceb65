/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the addresses of a name. The system's function for this has no deadline, so it is called on
 * a separate thread. No other thread waits for that thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/network/stream.h"

#define KILNI_LOOKUP_MAX 4u

/* Allocated with malloc. The thread that looks up the name owns it until done is called. */
typedef struct kilni_lookup {
    kilni_task task;
    char host[256];
    uint16_t port;
    kilni_address addresses[KILNI_LOOKUP_MAX];
    size_t count; /* 0: the name does not exist, or no name server answered */

    /* Called on the I/O thread. The function must free the look-up. */
    void (*done)(struct kilni_lookup *lookup);
    void *user; /* an argument for done; the I/O thread is allowed to change it */
} kilni_lookup;

/* Returns true, and sets the addresses, if the host is an address and not a name. No thread is
 * needed for this. */
bool kilni_lookup_is_address(kilni_lookup *lookup);

/* Starts the look-up. Returns KILN_OK; KILN_E_IO: no thread can be started, and the function done
 * will not be called. */
kiln_status kilni_lookup_start(kilni_lookup *lookup);
