/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of every call: a status, and, if the caller asks for it, a message.
 *
 * Zero is success, positive values are results that are not errors (such as a miss), and negative
 * values are errors. A value never changes, and is never reused for something else.
 */
#ifndef KILN_STATUS_H
#define KILN_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One of the values below. */
typedef int32_t kiln_status;

/* X(name, value, text): the list from which constants, names and texts are made. */
#define KILN_STATUS_LIST(X)                                                                        \
    X(KILN_OK, 0, "success")                                                                       \
    X(KILN_MISS, 1, "not there")                                                                   \
    X(KILN_BUSY, 2, "held by someone else")                                                        \
    X(KILN_TIMEOUT, 3, "the wait ended before the result was there")                               \
    X(KILN_EXISTS, 4, "already there")                                                             \
    X(KILN_E_INVALID, -1, "an argument breaks the contract of the call")                           \
    X(KILN_E_NO_MEMORY, -2, "out of memory")                                                       \
    X(KILN_E_IO, -3, "the system refused an input or output operation")                            \
    X(KILN_E_CORRUPT, -4, "the bytes are damaged")                                                 \
    X(KILN_E_VERSION, -5, "written by a newer version of the format")                              \
    X(KILN_E_UNSUPPORTED, -6, "not supported here")                                                \
    X(KILN_E_DENIED, -7, "not trusted or not permitted: owner, mode or kind of a file")            \
    X(KILN_E_FULL, -8, "no room left")                                                             \
    X(KILN_E_READONLY, -9, "opened for reading only")                                              \
    X(KILN_E_BUILD, -10, "the build itself failed")                                                \
    X(KILN_E_CYCLE, -11, "the build waits for itself")                                             \
    X(KILN_E_REFUSED, -12, "the device does not take these bytes")                                 \
    X(KILN_E_RESOURCES, -13, "the device is out of resources")                                     \
    X(KILN_E_UNAUTHENTICATED, -14, "the signature is missing or wrong")                            \
    X(KILN_E_TOO_LARGE, -15, "larger than the limit")                                              \
    X(KILN_E_PARSE, -16, "the text can't be understood")

enum {
#define KILN_STATUS_ENUM(name, value, text) name = value,
    KILN_STATUS_LIST(KILN_STATUS_ENUM)
#undef KILN_STATUS_ENUM
};

/* No limit. The default of every limit is finite. */
#define KILN_UNLIMITED UINT64_MAX

/* Details of an error, for messages. The caller owns the structure and sets struct_size. A call
 * that fails fills it; a call that succeeds leaves it alone. */
typedef struct kiln_error {
    size_t struct_size;
    kiln_status status;
    int32_t system_error; /* errno, or 0 */
    char text[240];       /* names the input and what was expected; always ends with a zero byte */
} kiln_error;

/* Returns the name of the constant, such as "KILN_E_CORRUPT"; "KILN_E_UNKNOWN" for an unknown
 * value. The text is static. Threads: any. Blocks: never. */
KILN_API const char *kiln_status_name(kiln_status status);

/* Returns a line for messages, such as "the bytes are damaged". The text is static. Threads: any.
 * Blocks: never. */
KILN_API const char *kiln_status_text(kiln_status status);

#ifdef __cplusplus
}
#endif

#endif
