/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/lookup.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/thread.h"

static void find(kilni_lookup *lookup, int flags)
{
    char port[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    snprintf(port, sizeof port, "%u", (unsigned)lookup->port);
    if (getaddrinfo(lookup->host, port, &hints, &found) != 0) {
        return;
    }
    for (struct addrinfo *at = found; at && lookup->count < KILNI_LOOKUP_MAX; at = at->ai_next) {
        if (at->ai_addrlen <= sizeof(struct sockaddr_storage)) {
            kilni_address *address = &lookup->addresses[lookup->count++];
            memcpy(&address->address, at->ai_addr, at->ai_addrlen);
            address->size = at->ai_addrlen;
        }
    }
    freeaddrinfo(found);
}

bool kilni_lookup_is_address(kilni_lookup *lookup)
{
    lookup->count = 0;
    find(lookup, AI_NUMERICHOST);
    return lookup->count > 0;
}

static void finish(kilni_task *task)
{
    kilni_lookup *lookup = (kilni_lookup *)task;
    lookup->done(lookup);
}

static void *run(void *argument)
{
    kilni_lookup *lookup = argument;
    find(lookup, AI_ADDRCONFIG);
    lookup->task.run = finish;
    if (kilni_loop_post(&lookup->task) != KILN_OK) {
        free(lookup);
    }
    return NULL;
}

kiln_status kilni_lookup_start(kilni_lookup *lookup)
{
    pthread_t thread;
    lookup->count = 0;
    if (!kilni_thread_start(run, lookup, &thread)) {
        return KILN_E_IO;
    }
    pthread_detach(thread);
    return KILN_OK;
}
