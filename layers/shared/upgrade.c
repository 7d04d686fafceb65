/* SPDX-License-Identifier: Apache-2.0 */
#include "upgrade.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"
#include "key/hash.h"
#include "session.h"
#include "store/store.h"
#include "trace.h"

/* The driver of the last build, as driver_of returns it. Only spares a look into the store, so
 * every access is relaxed. */
static _Atomic uint64_t last_driver;

/* The helper must find the request, which a thread writes. */
#define DRAIN_NS UINT64_C(100000000)

/* The variables with which programs find drivers. */
static const char *const variables[] = {"LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES",
                                        "OPENCL_VENDOR_PATH"};

/* Returns a checksum of the parts that identify the device and the version of its driver, or the
 * compiler. The libraries to which a driver is linked are not among them, since a program may bring
 * its own. */
static uint64_t driver_of(const kiln_key *key)
{
    static const char *const prefixes[] = {"platform.", "device.", "nvrtc."};
    uint64_t sum = 0;
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++) {
            if (strncmp(part.name, prefixes[p], strlen(prefixes[p])) == 0) {
                sum = (sum ^ kilni_checksum(part.bytes, (size_t)part.size)) *
                      UINT64_C(0x9e3779b97f4a7c15);
            }
        }
    }
    return sum;
}

static kiln_status make_key(uint64_t driver, const char *family, const char *library,
                            kiln_key **ret_key)
{
    kiln_key_builder *builder = NULL;
    char run[64];
    kiln_status status = kiln_key_builder_new(&builder);
    if (status != KILN_OK) {
        return status;
    }
    snprintf(run, sizeof run, "%ld %s", (long)getpid(), program_invocation_short_name);
    kiln_key_builder_add_text(builder, KILN_REQUEST_PART, KILN_REQUEST_REPLAY);
    kiln_key_builder_add_number(builder, "driver", driver);
    kiln_key_builder_add_text(builder, "device", family);
    kiln_key_builder_add_text(builder, "run", run);
    if (library) {
        kiln_key_builder_add_text(builder, "nvrtc", library);
    }
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value) {
            kiln_key_builder_add_text(builder, "variable", variables[i]);
            kiln_key_builder_add_text(builder, "value", value);
        }
    }
    status = kiln_key_builder_finish(builder, ret_key);
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status leave_request(uint64_t driver, const char *family, const char *library)
{
    kiln_key *key = NULL;
    kiln_entry *request = NULL;
    kiln_status status = make_key(driver, family, library, &key);
    if (status == KILN_OK) {
        const kiln_entry_params params = {
            .struct_size = sizeof params,
            .key = key,
            .kind = KILN_ENTRY_REQUEST,
            .provenance = {.struct_size = sizeof params.provenance,
                           .tool = session_tool(),
                           .device = family,
                           .name = KILN_REQUEST_REPLAY},
            .payload = {family, strlen(family)},
        };
        status = kiln_entry_new(&params, &request);
    }
    if (status == KILN_OK) {
        status = kilni_writer_put(session_requests()->writer, request, NULL);
    }
    kiln_entry_release(&request);
    kiln_key_release(&key);
    return status;
}

void upgrade_note_build(const kiln_key *key, const char *family, const char *library)
{
    const uint64_t driver = driver_of(key);
    if (!session_config()->replay || !session_config()->helper || !session_can_store() ||
        atomic_exchange_explicit(&last_driver, driver, memory_order_relaxed) == driver) {
        return;
    }
    if (kilni_store_is_new_driver(session_requests()->store, driver) &&
        leave_request(driver, family, library) == KILN_OK) {
        trace_note("the store does not know this driver yet: the builds of older ones will be "
                   "repeated");
        kilni_writer_drain(session_requests()->writer, DRAIN_NS);
        helper_start();
    }
}
