/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_request.h"

#include "../shared/helper.h"
#include "../shared/session.h"
#include "../shared/trace.h"

/* Returns the state of a request in the store: KILN_OK if the request waits to be served; KILN_MISS
 * if there is no such request; KILN_EXISTS if it was given up recently. */
static kiln_status look_up(kiln_store *store, const kiln_key *key)
{
    kiln_entry *known = NULL;
    if (kiln_store_get(store, key, &known) != KILN_OK || kilni_opencl_request_has_expired(known)) {
        kiln_entry_release(&known);
        return KILN_MISS;
    }
    const int is_open = kilni_opencl_request_is_open(known);
    kiln_entry_release(&known);
    return is_open ? KILN_OK : KILN_EXISTS;
}

static kiln_status put_request(const kilni_opencl_described_build *build, const kiln_key *key)
{
    kiln_entry *made = NULL;
    kiln_status status = kilni_opencl_request_new(build, key, &made);
    if (status == KILN_OK) {
        status = kilni_writer_put(session_requests()->writer, made, NULL);
    }
    kiln_entry_release(&made);
    return status;
}

void capture_request_leave(const kilni_opencl_described_build *build,
                           const kilni_opencl_traits *traits)
{
    kiln_store *store = session_requests()->store;
    if (!kilni_opencl_keeps_cache(traits)) {
        trace_note("not requested: the driver's own cache is off");
        return;
    }
    kiln_key *key = NULL;
    kiln_status status = kilni_opencl_request_key(build->keys, build->device_count, &key);
    if (status == KILN_OK) {
        status = look_up(store, key);
    }
    if (status == KILN_MISS) {
        status = put_request(build, key);
    }
    if (status == KILN_OK) {
        helper_expect();
    }
    kiln_key_release(&key);
}
