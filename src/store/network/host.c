/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/host.h"

#include <stdlib.h>
#include <string.h>

#include "os/clock.h"

#define ADDRESSES_LAST_NS UINT64_C(60000000000)

/* If the look-up has failed, the old addresses are kept, because open connections may still need
 * one of them. */
static void take(kilni_host *host, const kilni_lookup *lookup)
{
    if (lookup->count == 0) {
        return;
    }
    memcpy(host->addresses, lookup->addresses, sizeof host->addresses);
    host->count = lookup->count;
    host->found_ns = kilni_clock_ns();
}

static void done(kilni_lookup *lookup)
{
    kilni_host *host = lookup->user;
    take(host, lookup);
    host->lookup = NULL;
    host->found(host, lookup->count > 0 ? KILN_OK : KILN_E_IO);
    free(lookup);
}

/* Begins to look up the host, unless it is an address. */
static kiln_status look_up(kilni_host *host)
{
    const size_t length = strlen(host->name);
    kilni_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup || length >= sizeof lookup->host) {
        free(lookup);
        return KILN_E_NO_MEMORY;
    }
    memcpy(lookup->host, host->name, length);
    lookup->port = host->port;
    lookup->done = done;
    lookup->user = host;
    if (kilni_lookup_is_address(lookup)) {
        take(host, lookup);
        free(lookup);
        return KILN_OK;
    }
    const kiln_status status = kilni_lookup_start(lookup);
    if (status != KILN_OK) {
        free(lookup);
        return status;
    }
    host->lookup = lookup;
    return KILN_BUSY;
}

kiln_status kilni_host_find(kilni_host *host)
{
    if (host->lookup) {
        return KILN_BUSY;
    }
    if (host->count > 0 && kilni_clock_ns() - host->found_ns < ADDRESSES_LAST_NS) {
        return KILN_OK;
    }
    return look_up(host);
}

const kilni_address *kilni_host_address(const kilni_host *host)
{
    return &host->addresses[host->next % host->count];
}

void kilni_host_try_next(kilni_host *host)
{
    host->next++;
}

void kilni_host_abandon(kilni_host *host)
{
    if (host->lookup) {
        kilni_lookup_abandon(host->lookup);
        host->lookup = NULL;
    }
}

void kilni_host_forget(kilni_host *host)
{
    host->lookup = NULL;
    host->count = 0;
}
