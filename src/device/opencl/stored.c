/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of each result are its log and its answers. Its folded constants are not recorded,
 * because everything that affects them is in the key.
 */
#include "device/opencl/stored.h"

#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>

#include "device/opencl/watched_build.h"
#include "device/watch/encoding.h"
#include "device/watch/results.h"

static const char no_folds[4];

static kiln_status decode(const kilni_stored_result *found, kilni_opencl_stored *ret_stored)
{
    kilni_byte_reader reader = {.at = found->outputs.data, .left = found->outputs.size};
    const char *log = kilni_read_text(&reader);
    if (reader.failed || !log) {
        return KILN_E_CORRUPT;
    }
    *ret_stored = (kilni_opencl_stored){.answers = {reader.at, reader.left},
                                        .log = {log, strlen(log)},
                                        .binary = found->code,
                                        .reads = found->reads};
    return KILN_OK;
}

kiln_status kilni_opencl_stored_find(const kiln_entry *entry, bool may_read,
                                     const kilni_opencl_traits *traits,
                                     kilni_opencl_stored *ret_stored, const char **ret_changed)
{
    if (!may_read) {
        *ret_stored = (kilni_opencl_stored){.answers = kiln_entry_answers(entry),
                                            .log = kiln_entry_log(entry),
                                            .binary = kiln_entry_payload(entry)};
        return KILN_OK;
    }
    char *name = NULL;
    kilni_stored_result found;
    kiln_status status = kilni_opencl_source_name(traits, &name);
    if (status == KILN_OK) {
        status = kilni_results_find(entry, name, &found, ret_changed);
    }
    free(name);
    return status == KILN_OK ? decode(&found, ret_stored) : status;
}

kiln_status kilni_opencl_stored_add_reads(kiln_capture *taken, kiln_bytes reads,
                                          const kiln_entry *replaced)
{
    kilni_text outputs = {0}, answers = {0}, payload = {0};
    kilni_append_text(&outputs, taken->log);
    kiln_status status = kilni_text_append_bytes(&outputs, taken->answers, taken->answers_size);
    if (status == KILN_OK) {
        const kilni_stored_result made = {.reads = reads,
                                          .folds = {no_folds, sizeof no_folds},
                                          .outputs = {outputs.bytes, outputs.length},
                                          .code = {taken->payload, taken->payload_size}};
        status = kilni_results_encode(&made, replaced, &answers, &payload);
    }
    kilni_text_done(&outputs);
    if (status != KILN_OK) {
        return status;
    }
    free(taken->answers);
    free(taken->payload);
    taken->answers = answers.bytes;
    taken->answers_size = answers.length;
    taken->payload = payload.bytes;
    taken->payload_size = payload.length;
    return KILN_OK;
}

/* ---- the reads of a result ---- */

static bool find_part(const kiln_entry *entry, const char *name, kiln_key_part *ret_part)
{
    const kiln_key *key = kiln_entry_key(entry);
    for (size_t i = 0; kiln_key_part_at(key, i, ret_part) == KILN_OK; i++) {
        if (strcmp(ret_part->name, name) == 0) {
            return true;
        }
    }
    return false;
}

kiln_status kiln_opencl_each_read(const kiln_entry *entry, size_t result, kiln_read_fn visit,
                                  void *user)
{
    kiln_key_part platform, reads;
    if (!entry || !visit) {
        return KILN_E_INVALID;
    }
    if (kiln_entry_kind_of(entry) != KILN_ENTRY_PROGRAM || !find_part(entry, "reads", &reads) ||
        !find_part(entry, "platform.name", &platform)) {
        return KILN_E_UNSUPPORTED;
    }
    char *name = NULL;
    char *platform_name = strndup(platform.bytes ? platform.bytes : "", platform.size);
    kiln_status status =
        platform_name ? kilni_opencl_source_name(kilni_opencl_traits_of(platform_name), &name)
                      : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        status = kilni_results_each_read(entry, result, name, visit, user);
    }
    free(name);
    free(platform_name);
    return status;
}
