/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_on_query.h"

#include <stdlib.h>

#include "../shared/session.h"
#include "program_entry.h"
#include "program_inputs.h"
#include "records.h"
#include "store/store.h"

/* If the application did not request a device's binary, it is possible that the driver has not made
 * that binary yet. */
static int asks_for_all_devices(cl_program program, unsigned char *const *binaries)
{
    cl_device_id *devices = NULL;
    cl_uint count = 0;
    int all = program_devices_of(program, &devices, &count) == KILN_OK;
    for (cl_uint i = 0; all && i < count; i++) {
        all = binaries[i] != NULL;
    }
    free(devices);
    return all;
}

/* Returns the entry that a new entry will replace; the caller releases it. The new entry keeps its
 * results for other files. Returns NULL if there is no such entry, if the new entry must not keep
 * its results (kilni_store_may_merge), or if the build read no files. */
static kiln_entry *find_replaced(const kilni_request_context *requests, const device_keys *built,
                                 cl_uint index)
{
    kiln_entry *replaced = NULL;
    if (built->reads.length > 0 && requests->store) {
        kiln_store_get(requests->store, built->keys[index], &replaced);
    }
    if (replaced && !kilni_store_may_merge(requests->store, replaced)) {
        kiln_entry_release(&replaced);
    }
    return replaced;
}

/* The driver has just made the binaries, so a second request for them costs only a copy. */
static void capture(program_record *record, unsigned generation, const device_keys *built,
                    uint64_t build_ns)
{
    const kilni_request_context *requests = session_requests();
    for (cl_uint i = 0; requests && i < built->count; i++) {
        kiln_entry *entry = NULL, *replaced = find_replaced(requests, built, i);
        if (program_capture(record->platform, record->program, built->devices[i], built->keys[i],
                            build_ns, &built->reads, replaced, &entry) == KILN_OK &&
            records_is_generation(record, generation)) {
            kilni_writer_put(requests->writer, entry, NULL);
        }
        kiln_entry_release(&replaced);
        kiln_entry_release(&entry);
    }
}

void capture_queried_binaries(cl_program program, unsigned char *const *binaries)
{
    program_record *record = session_is_forked() ? NULL : records_hold(program);
    if (!record || !asks_for_all_devices(program, binaries)) {
        records_release(record);
        return;
    }
    unsigned generation = 0;
    device_keys built = {0};
    uint64_t build_ns = 0;
    if (records_take_uncaptured(record, &generation, &built, &build_ns)) {
        capture(record, generation, &built, build_ns);
    }
    device_keys_done(&built);
    records_release(record);
}
