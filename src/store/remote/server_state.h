/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a server that fails. The processes of one user on one machine share it in a small
 * file. The file is written when these processes stop contacting the server, and removed when the
 * server answers. It is only a hint. It is ignored if it is malformed, not trusted or outdated, or
 * if it was written on a different machine or before this machine was last started. No function
 * here blocks or takes a lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Why a server is not contacted. */
typedef enum kilni_server_fault {
    KILNI_FAULT_BROKEN,      /* the server closed the connection or broke the protocol */
    KILNI_FAULT_SILENT,      /* the server did not answer in time */
    KILNI_FAULT_UNREACHABLE, /* the server refused the connection, or its name has no address */
    /* These faults concern only one process, and are never in the file: */
    KILNI_FAULT_BUSY,      /* the server reported that it cannot answer now */
    KILNI_FAULT_REFUSED,   /* the server refused this user */
    KILNI_FAULT_UNTRUSTED, /* the server's certificate is not accepted */
    KILNI_FAULT_FILES      /* a group's directory or a file there cannot be read or written */
} kilni_server_fault;

/* All times come from kilni_clock_ns, which is the same clock for all processes of a machine. */
typedef struct kilni_server_state {
    uint64_t noted_ns; /* when the server last failed */
    uint64_t retry_ns; /* from when one process is allowed to probe the server */
    uint64_t end_ns;   /* when the state is forgotten */
    uint32_t faults;   /* the number of consecutive failures */
    kilni_server_fault fault;
} kilni_server_state;

/* The longest time from a fault to the end of the state. */
#define KILNI_SERVER_STATE_LASTS_NS (UINT64_C(60) * 1000000000)

/* Returns true, and sets @ret_state, if the file says that the server must not be contacted now.
 * The file must belong to this user and must not be writable by anyone else.
 *
 * @path  an absolute path */
bool kilni_server_state_read(const char *path, uint64_t now_ns, kilni_server_state *ret_state);

/* Replaces the file in one step, so that readers see either the old or the new file. A failure does
 * no harm. The folder must belong to this user and must not be writable by anyone else.
 *
 * Returns true if the file was written. */
bool kilni_server_state_write(const char *path, const kilni_server_state *state);

/* Removes the file. */
void kilni_server_state_remove(const char *path);
