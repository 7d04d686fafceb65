/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves each request in a separate process. That process has the variables of the program that
 * left the request. If a driver crashes, only that process ends.
 */
#pragma once

#include <kiln/store.h>

typedef enum capture_result {
    CAPTURE_SERVED,
    CAPTURE_DROPPED,     /* the same build can no longer be made */
    CAPTURE_FAILED,      /* the driver failed, and is likely to fail again */
    CAPTURE_ENDLESS,     /* the driver took more time than any capture needs */
    CAPTURE_INTERRUPTED, /* something else ended the process: the request is not the cause */
    CAPTURE_LEFT         /* it cannot be served now, for example because the store cannot take the
                            result */
} capture_result;

/* Starts a process that serves a request, and waits for it.
 *
 * @directory  the store's directory, absolute */
capture_result capture_in_worker(const char *directory, const kiln_entry *request);

/* Runs in the separate process: reads the request from standard input, serves it, and ends the
 * process. Returns only if the process was not started for this purpose, with the exit code.
 *
 * @directory_option  the value of --dir
 * @parent            the value of --serve: the id of the process that started this one; when that
 *                    process ends, this one is killed */
int capture_worker(const char *directory_option, const char *parent);
