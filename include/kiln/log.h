/* SPDX-License-Identifier: Apache-2.0
 *
 * The library prints nothing. What it has to say to people goes to a function of the caller's.
 */
#ifndef KILN_LOG_H
#define KILN_LOG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How much a line matters. */
typedef enum kiln_log_level {
    KILN_LOG_ERROR = 1,   /* something was turned off */
    KILN_LOG_WARNING = 2, /* something was skipped or ignored; work goes on as before */
    KILN_LOG_INFO = 3
} kiln_log_level;

/* @text is one line without its newline, valid during the call. May be called from any thread,
 * never while a lock of the library's is held. */
typedef void (*kiln_log_fn)(void *user, kiln_log_level level, const char *text);

/* A log callback with its argument; a zeroed one is silent. The user pointer is borrowed for as
 * long as the object lives that it was given to. */
typedef struct kiln_log {
    kiln_log_fn write;
    void *user;
} kiln_log;

#ifdef __cplusplus
}
#endif

#endif
