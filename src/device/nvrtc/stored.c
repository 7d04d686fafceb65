/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/stored.h"

#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/context.h"
#include "device/nvrtc/request.h"
#include "device/watch/changed_files.h"
#include "device/watch/results.h"

/* ---- capturing ---- */

static kiln_status describe(const kilni_nvrtc_compiled_program *built, kiln_capture *captured)
{
    const kiln_bytes *log = &built->outputs.answers[KILNI_NVRTC_LOG].bytes;
    captured->device = strdup(built->device.bytes);
    captured->log = log->size > 0 ? strndup(log->data, log->size) : strdup("");
    return captured->device && captured->log ? KILN_OK : KILN_E_NO_MEMORY;
}

static kiln_status encode(const kilni_nvrtc_compiled_program *built, const kiln_entry *replaces,
                          kiln_capture *captured)
{
    const kilni_stored_result made = {.reads = {built->reads.bytes, built->reads.length},
                                      .folds = {built->folds.bytes, built->folds.length},
                                      .outputs = {built->encoded.bytes, built->encoded.length},
                                      .code = {built->code.bytes, built->code.length}};
    kilni_text answers = {0}, payload = {0};
    const kiln_status status = kilni_results_encode(&made, replaces, &answers, &payload);
    *captured = (kiln_capture){.answers = answers.bytes,
                               .answers_size = answers.length,
                               .payload = payload.bytes,
                               .payload_size = payload.length};
    return status;
}

kiln_status kilni_nvrtc_capture(const kilni_nvrtc_compiled_program *built,
                                kiln_capture *ret_capture)
{
    kiln_capture captured = {0};
    if (built->why) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = encode(built, ret_capture->replaces, &captured);
    if (status == KILN_OK) {
        status = describe(built, &captured);
    }
    if (status != KILN_OK) {
        kiln_capture_done(&captured);
        return status;
    }
    *ret_capture = captured;
    return KILN_OK;
}

/* ---- loading ---- */

/* Looks for the result that fits the present files. Records the reads of this result for the next
 * request. */
static kiln_status find_and_record(const kiln_nvrtc_device *d, const kiln_digest *program,
                                   uint64_t revision, const kiln_entry *entry,
                                   kilni_stored_result *ret_result)
{
    uint64_t mark;
    kiln_status status = kilni_known_reads_begin_check(d->known, program, &mark);
    if (status == KILN_OK) {
        status = kilni_results_find(entry, KILNI_NVRTC_NO_NAME, ret_result, NULL);
    }
    if (status == KILN_OK) {
        status = kilni_known_reads_confirm(d->known, program, mark, revision, ret_result->reads);
    }
    if (status == KILN_BUSY) {
        status = kilni_reads_hold(ret_result->reads, KILNI_NVRTC_NO_NAME, NULL);
    }
    return status;
}

/* Also returns KILN_MISS if something has changed so that the program no longer has a key. */
static kiln_status find(const kiln_nvrtc_device *d, const kilni_nvrtc_request *r,
                        const kiln_entry *entry, kilni_stored_result *ret_result)
{
    if (!d->known || !r->key) {
        return KILN_MISS;
    }
    const kiln_digest program = kiln_key_digest(r->key);
    return find_and_record(d, &program, r->revision, entry, ret_result);
}

static kiln_status copy_bytes(kiln_bytes from, kilni_text *to)
{
    return kilni_text_append_bytes(to, from.data, from.size);
}

static kiln_status copy(const kilni_stored_result *found, const kiln_entry *entry,
                        kilni_nvrtc_compiled_program *built)
{
    kiln_status status = kilni_text_append(&built->device, kiln_entry_provenance(entry).device);
    if (status == KILN_OK) {
        status = copy_bytes(found->reads, &built->reads);
    }
    if (status == KILN_OK) {
        status = copy_bytes(found->folds, &built->folds);
    }
    if (status == KILN_OK) {
        status = copy_bytes(found->outputs, &built->encoded);
    }
    return status == KILN_OK ? copy_bytes(found->code, &built->code) : status;
}

static kiln_status load_request(const kiln_nvrtc_device *d, const kilni_nvrtc_request *r,
                                const kiln_entry *entry, kilni_nvrtc_compiled_program *built)
{
    kilni_stored_result found;
    kiln_status status = find(d, r, entry, &found);
    if (status == KILN_OK) {
        status = copy(&found, entry, built);
    }
    if (status == KILN_OK) {
        status = kilni_nvrtc_compiled_program_decode(built);
    }
    if (status == KILN_OK) {
        status = kilni_nvrtc_context_load(d, built);
    }
    return status == KILN_E_CORRUPT ? KILN_E_REFUSED : status;
}

kiln_status kilni_nvrtc_load(const kiln_nvrtc_device *device, const kiln_program_source *source,
                             const kiln_entry *entry, kilni_nvrtc_compiled_program **ret_built)
{
    kilni_nvrtc_request r;
    kilni_nvrtc_compiled_program *built = calloc(1, sizeof *built);
    if (!built) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = kilni_nvrtc_request_begin(device, source, &r, NULL);
    if (status == KILN_OK) {
        status = load_request(device, &r, entry, built);
    }
    kilni_nvrtc_request_done(&r);
    if (status != KILN_OK) {
        kilni_nvrtc_compiled_program_free(device, built);
        return status;
    }
    *ret_built = built;
    return KILN_OK;
}
