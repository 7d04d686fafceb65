/* SPDX-License-Identifier: Apache-2.0
 *
 * One request is served by a process of its own: it has the variables of the program that left the
 * request, and whatever a driver does ends nothing else.
 */
#pragma once

#include <kiln/store.h>

typedef enum capture_result {
    CAPTURE_SERVED,
    CAPTURE_DROPPED,     /* the same build can't be had any more */
    CAPTURE_FAILED,      /* the driver's fault: it is likely to fail again */
    CAPTURE_ENDLESS,     /* the driver took more time than any capture does */
    CAPTURE_INTERRUPTED, /* somebody else ended the process: that says nothing of the request */
    CAPTURE_LEFT         /* the store can't take the result now */
} capture_result;

/* Serves a request in a process that it starts and waits for.
 *
 * @directory  of the store, absolute */
capture_result capture_in_worker(const char *directory, const kiln_entry *request);

/* What such a process does: it takes the request from its standard input. Ends the process, but
 * where nobody started it for this: then it returns what to exit with.
 *
 * @directory_option  what --dir said
 * @parent            what --serve said: the process that started it, with which it ends */
int capture_worker(const char *directory_option, const char *parent);
