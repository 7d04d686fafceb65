/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a server is contacted. A server that fails is not contacted for a while. After
 * that, one process probes it at growing intervals until it answers. The processes of one user on a
 * machine share this state in a file, so that only some of them have to wait for a dead server. The
 * functions do not read a clock, so tests can choose the time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/remote/server_state.h"

/* A zeroed breaker admits every caller. The fields are only hints, so every access is relaxed.
 * Threads: any. */
typedef struct kilni_breaker {
    const char *file;          /* as in server_state.h; NULL: nothing is shared. Constant */
    _Atomic uint64_t retry_ns; /* when the next caller is admitted; 0: all are admitted */
    _Atomic uint64_t end_ns; /* when all callers are admitted again, whatever happens until then */
    _Atomic uint64_t answered_ns; /* when the server last answered; 0: never */
    _Atomic uint64_t noted_ns;    /* when the server last failed */
    _Atomic uint64_t read_ns;     /* when the file was last read; 0: never */
    _Atomic unsigned faults;      /* since it answered */
    _Atomic unsigned fault;       /* the last one, a kilni_server_fault */
    _Atomic bool is_shared;       /* the file contains this state too */
} kilni_breaker;

/* Returns true if all callers are allowed to contact the server, so that no probe is needed. Reads
 * the file at most once a second. */
bool kilni_breaker_is_closed(kilni_breaker *breaker, uint64_t now_ns);

/* Returns true if the caller is allowed to contact the server. While the server is not being
 * contacted, but a probe is due, only one caller is admitted, and that caller then probes the
 * server. If processes share no file, or ask at the same moment, each of them admits one caller. */
bool kilni_breaker_admits(kilni_breaker *breaker, uint64_t now_ns);

/* Returns the time from which kilni_breaker_admits can admit the next caller; 0: it admits all
 * callers. */
uint64_t kilni_breaker_retry_ns(const kilni_breaker *breaker);

/* Returns true if the server has answered within the last minute. */
bool kilni_breaker_is_known(const kilni_breaker *breaker, uint64_t now_ns);

/* Returns true, and sets @ret_state, if at present no caller or only one caller is admitted. */
bool kilni_breaker_is_open(kilni_breaker *breaker, uint64_t now_ns, kilni_server_state *ret_state);

/* Returns the last fault. */
kilni_server_fault kilni_breaker_fault(const kilni_breaker *breaker);

/* Records that the server answered. */
void kilni_breaker_note_answer(kilni_breaker *breaker, uint64_t now_ns);

/* Records that the server could not be reached, was silent, closed the connection or broke the
 * protocol. */
void kilni_breaker_note_fault(kilni_breaker *breaker, uint64_t now_ns, kilni_server_fault fault);

/* Admits no caller of this process for the given time. Called if the server has answered that it
 * cannot serve or that it refuses this user, or if its certificate is not accepted. */
void kilni_breaker_rest(kilni_breaker *breaker, uint64_t now_ns, uint64_t duration_ns,
                        kilni_server_fault fault);
