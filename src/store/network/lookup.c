/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/lookup.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/thread.h"

/* Only the I/O thread uses these. They belong to the process whose number is below. */
static unsigned process;
static unsigned running; /* threads */
static kilni_lookup *waiting, **last_waiting = &waiting;

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

static kiln_status start_thread(kilni_lookup *lookup);

static kilni_lookup *take_waiting(void)
{
    kilni_lookup *lookup = waiting;
    waiting = lookup->next;
    last_waiting = waiting ? last_waiting : &waiting;
    return lookup;
}

/* Called on the I/O thread when a thread has looked up a name. */
static void finish(kilni_task *task)
{
    kilni_lookup *lookup = (kilni_lookup *)task;
    running--;
    while (waiting && running < KILNI_LOOKUP_THREADS) {
        kilni_lookup *next = take_waiting();
        if (start_thread(next) != KILN_OK) {
            next->done(next); /* without addresses */
        }
    }
    if (lookup->is_abandoned) {
        free(lookup);
    } else {
        lookup->done(lookup);
    }
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

static kiln_status start_thread(kilni_lookup *lookup)
{
    pthread_t thread;
    if (!kilni_thread_start(run, lookup, &thread)) {
        return KILN_E_IO;
    }
    pthread_detach(thread);
    running++;
    return KILN_OK;
}

/* In a forked child, forgets the look-ups of the parent, without touching them. */
static void enter_process(void)
{
    if (process != kilni_loop_process()) {
        process = kilni_loop_process();
        running = 0;
        waiting = NULL;
        last_waiting = &waiting;
    }
}

kiln_status kilni_lookup_start(kilni_lookup *lookup)
{
    enter_process();
    lookup->count = 0;
    if (running < KILNI_LOOKUP_THREADS) {
        return start_thread(lookup);
    }
    lookup->next = NULL;
    *last_waiting = lookup;
    last_waiting = &lookup->next;
    return KILN_OK;
}

void kilni_lookup_abandon(kilni_lookup *lookup)
{
    kilni_lookup **at = &waiting;
    while (*at && *at != lookup) {
        at = &(*at)->next;
    }
    if (!*at) {
        lookup->is_abandoned = true;
        return;
    }
    *at = lookup->next;
    last_waiting = lookup->next ? last_waiting : at;
    free(lookup);
}
