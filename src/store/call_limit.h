/* SPDX-License-Identifier: Apache-2.0
 *
 * A time at which all calls of a thread to servers end, even those that are under way. Without it,
 * a server that answers a byte at a time could hold up the end of a process for as long as the
 * calls' own deadlines allow.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Limits the calling thread's calls to servers: they end at *@end_ns (a time of kilni_clock_ns) at
 * the latest. Any thread can change *@end_ns at any time; a call that is under way notices it
 * within 20 ms. Every access is relaxed. *@end_ns must stay valid until the limit is replaced or
 * the thread has ended. NULL: there is no limit. Returns the previous limit. */
const _Atomic uint64_t *kilni_call_limit_set(const _Atomic uint64_t *end_ns);

const _Atomic uint64_t *kilni_call_limit_get(void);
