/* SPDX-License-Identifier: Apache-2.0
 *
 * The library prints nothing. It passes messages to a function of the caller.
 */
#ifndef KILN_LOG_H
#define KILN_LOG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The importance of a line. */
typedef enum kiln_log_level {
    KILN_LOG_ERROR = 1,   /* a feature was disabled */
    KILN_LOG_WARNING = 2, /* something was skipped or ignored, without further effect */
    KILN_LOG_INFO = 3
} kiln_log_level;

/* Receives a line. @text has no newline and is valid during the call. Can be called on any thread,
 * but never while the library holds one of its locks. */
typedef void (*kiln_log_fn)(void *user, kiln_log_level level, const char *text);

/* A log function with its argument. If all members are zero, messages are dropped. The user pointer
 * must stay valid as long as the object that received the log exists. */
typedef struct kiln_log {
    kiln_log_fn write;
    void *user;
} kiln_log;

#ifdef __cplusplus
}
#endif

#endif
