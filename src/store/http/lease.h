/* SPDX-License-Identifier: Apache-2.0
 *
 * A lease on an HTTP server or S3: a marker, which is a value beside the entry and contains a token
 * of the holder. The holder puts the marker again every few seconds. A marker that is older belongs
 * to a holder that has ended.
 *
 * If the server refuses to replace a marker when it is asked to ("If-None-Match: *"), putting the
 * marker takes the lease. Otherwise a process puts its marker, waits until all processes that found
 * no marker at that time have put theirs, and has the lease if its own marker is still there.
 */
#pragma once

#include "store/remote/connector.h"

#define KILNI_HTTP_LEASE_PAUSE_NS UINT64_C(500000000)

/* As the functions lease and lease_release of kilni_connector. */
kiln_status kilni_http_lease_take(kilni_remote *remote, const char *name, uint64_t build_ns,
                                  bool has_waited, uint64_t deadline_ns,
                                  kilni_remote_lease **ret_lease);
void kilni_http_lease_release(kilni_remote_lease *lease);
