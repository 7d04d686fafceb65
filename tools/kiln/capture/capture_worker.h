/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves each request in a separate process. That process has the variables of the program that
 * left the request. If a driver crashes, only that process ends.
 */
#pragma once

#include <kiln/store.h>

typedef enum capture_result {
    CAPTURE_SERVED,
    CAPTURE_DROPPED,     /* it is no longer possible to make the same build */
    CAPTURE_FAILED,      /* the driver failed, and is likely to fail again */
    CAPTURE_ENDLESS,     /* the driver took more time than any capture needs */
    CAPTURE_INTERRUPTED, /* the process was ended for a reason other than the request */
    CAPTURE_LEFT         /* it cannot be served now, for example because the store cannot take the
                            result */
} capture_result;

/* Starts a process that serves a request, and waits for it.
 *
 * @directory  the store's directory, absolute */
capture_result capture_in_worker(const char *directory, const kiln_entry *request);

/* Runs in the separate process: reads the request from standard input, serves it, and ends the
 * process. Returns only if the process was not started for this purpose; the result is then the
 * exit code.
 *
 * @directory_option  the value of --dir
 * @parent            the value of --serve: the id of the process that started the worker; the
 *                    worker is killed when that process ends */
int capture_worker(const char *directory_option, const char *parent);
