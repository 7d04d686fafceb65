/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits in slices, so that signals and the end of the interpreter can interrupt a wait.
 */
#ifndef KILN_PYTHON_WAIT_H
#define KILN_PYTHON_WAIT_H

#include <kiln/store.h>

#include "python.h"

/* The length of a slice: the longest time that a thread waits before it checks whether it may go on
 * waiting. */
#define WAIT_SLICE_NS UINT64_C(100000000)

/* Handles signals and the end of the interpreter. Called between two slices of a wait.
 *
 * Returns 1: go on waiting; 0: an exception is set, either by the handler of a signal, or because
 * the interpreter is ending and may have ended the thread that this one waits for. */
int wait_may_go_on(void);

/* The clock that build times are measured with, in nanoseconds. */
uint64_t wait_clock_ns(void);

/* Takes a lease as kiln_store_lease does, without the GIL. Waits in slices.
 *
 * @ret_status  [out] what kiln_store_lease returned
 * Returns 1; 0: an exception is set, by wait_may_go_on. */
int wait_for_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns, kiln_lease **ret_lease,
                   kiln_status *ret_status);

#endif
