/* SPDX-License-Identifier: Apache-2.0
 *
 * A lease on an HTTP server or S3 is a marker: a value that is kept beside the entry and contains
 * the holder's token. The holder puts the marker again every few seconds. If a marker is older than
 * that, its holder has ended.
 *
 * If the server honours a request not to replace a marker ("If-None-Match: *"), a single put takes
 * the lease. Otherwise a process first puts its marker. It then waits until all processes that also
 * found no marker have put theirs. If its own marker is still there, the process has the lease.
 */
#pragma once

#include "store/remote/connector.h"

#define KILNI_HTTP_LEASE_PAUSE_NS UINT64_C(500000000)

/* These functions implement the operations lease and lease_release of kilni_connector. */
kiln_status kilni_http_lease_take(kilni_remote *remote, const char *name, uint64_t build_ns,
                                  bool has_waited, uint64_t deadline_ns,
                                  kilni_remote_lease **ret_lease);
void kilni_http_lease_release(kilni_remote_lease *lease);
