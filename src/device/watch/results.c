/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding begins with the version, u32, and the count of results, u32. Each result begins with
 * the sizes, u64 each, of its reads, folds, outputs and code. The reads, the folds and the outputs
 * follow. The code is in the payload. Version 1 had no folds. In version 2, the reads did not
 * record which folders are the same.
 */
#include "device/watch/results.h"

#include <stdbool.h>
#include <string.h>

#include "device/watch/changed_files.h"
#include "device/watch/constant_folds.h"
#include "device/watch/encoding.h"
#include "key/omit.h"

#define RESULTS_VERSION 3u
#define OLDEST_VERSION 1u

static kiln_status append_result(const kilni_stored_result *result, kilni_text *answers,
                                 kilni_text *payload)
{
    const kiln_bytes *const parts[] = {&result->reads, &result->folds, &result->outputs,
                                       &result->code};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < 4 && status == KILN_OK; i++) {
        status = kilni_append_number(answers, parts[i]->size, 8);
    }
    for (size_t i = 0; i < 3 && status == KILN_OK; i++) {
        status = kilni_text_append_bytes(answers, parts[i]->data, parts[i]->size);
    }
    return status == KILN_OK
               ? kilni_text_append_bytes(payload, result->code.data, result->code.size)
               : status;
}

static kiln_bytes read_part(kilni_byte_reader *reader, uint64_t size)
{
    const unsigned char *bytes = kilni_read_bytes(reader, size);
    return (kiln_bytes){bytes, bytes ? (size_t)size : 0};
}

static void read_result(kilni_byte_reader *answers, kilni_byte_reader *payload,
                        kilni_stored_result *result)
{
    const uint64_t reads = kilni_read_u64(answers), folds = kilni_read_u64(answers),
                   outputs = kilni_read_u64(answers), code = kilni_read_u64(answers);
    result->reads = read_part(answers, reads);
    result->folds = read_part(answers, folds);
    result->outputs = read_part(answers, outputs);
    result->code = read_part(payload, code);
}

kiln_status kilni_results_decode(const kiln_entry *entry, kilni_results *ret_results)
{
    const kiln_bytes given = kiln_entry_answers(entry), codes = kiln_entry_payload(entry);
    kilni_byte_reader answers = {.at = given.data, .left = given.size};
    kilni_byte_reader payload = {.at = codes.data, .left = codes.size};
    kilni_results results = {0};
    const uint32_t version = kilni_read_u32(&answers), count = kilni_read_u32(&answers);
    if (!answers.failed && version >= OLDEST_VERSION && version < RESULTS_VERSION) {
        return KILN_E_UNSUPPORTED;
    }
    if (answers.failed || version != RESULTS_VERSION || count == 0 || count > KILNI_RESULTS_MAX) {
        return KILN_E_CORRUPT;
    }
    for (uint32_t i = 0; i < count; i++) {
        read_result(&answers, &payload, &results.items[i]);
    }
    if (answers.failed || payload.failed || answers.left != 0 || payload.left != 0) {
        return KILN_E_CORRUPT;
    }
    results.count = count;
    *ret_results = results;
    return KILN_OK;
}

/* ---- several results ---- */

static bool are_equal(kiln_bytes a, kiln_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static void collect(const kilni_stored_result *made, const kiln_entry *earlier,
                    kilni_results *ret_results)
{
    kilni_results found = {0};
    if (earlier && kilni_results_decode(earlier, &found) != KILN_OK) {
        found.count = 0;
    }
    ret_results->items[0] = *made;
    ret_results->count = 1;
    for (size_t i = 0; i < found.count && ret_results->count < KILNI_RESULTS_MAX; i++) {
        if (!are_equal(found.items[i].reads, made->reads) ||
            !are_equal(found.items[i].folds, made->folds)) {
            ret_results->items[ret_results->count++] = found.items[i];
        }
    }
}

kiln_status kilni_results_encode(const kilni_stored_result *made, const kiln_entry *earlier,
                                 kilni_text *ret_answers, kilni_text *ret_payload)
{
    kilni_results results;
    kilni_text answers = {0}, payload = {0};
    collect(made, earlier, &results);
    kiln_status status = kilni_append_number(&answers, RESULTS_VERSION, 4);
    if (status == KILN_OK) {
        status = kilni_append_number(&answers, results.count, 4);
    }
    for (size_t i = 0; i < results.count && status == KILN_OK; i++) {
        status = append_result(&results.items[i], &answers, &payload);
    }
    if (status != KILN_OK) {
        kilni_text_done(&answers);
        kilni_text_done(&payload);
        return status;
    }
    *ret_answers = answers;
    *ret_payload = payload;
    return KILN_OK;
}

static kiln_status compare(const kilni_stored_result *result, const char *name,
                           const char **ret_changed)
{
    kiln_status status = KILN_OK;
    if (!kilni_key_omits("folds")) {
        status = kilni_folds_hold(result->folds, ret_changed);
    }
    if (status == KILN_OK && !kilni_key_omits("reads")) {
        status = kilni_reads_hold(result->reads, name, ret_changed);
    }
    return status;
}

kiln_status kilni_results_find(const kiln_entry *entry, const char *name,
                               kilni_stored_result *ret_result, const char **ret_changed)
{
    kilni_results results;
    kiln_status status = kilni_results_decode(entry, &results);
    if (status != KILN_OK) {
        return status == KILN_E_UNSUPPORTED ? KILN_MISS : status;
    }
    status = KILN_MISS;
    for (size_t i = 0; i < results.count && status == KILN_MISS; i++) {
        status = compare(&results.items[i], name, i == 0 ? ret_changed : NULL);
        if (status == KILN_OK) {
            *ret_result = results.items[i];
        }
    }
    return status;
}

kiln_status kilni_results_each_read(const kiln_entry *entry, size_t result, const char *name,
                                    kiln_read_fn visit, void *user)
{
    kilni_results results;
    const kiln_status status = kilni_results_decode(entry, &results);
    if (status != KILN_OK) {
        return status;
    }
    return result < results.count ? kilni_reads_each(results.items[result].reads, name, visit, user)
                                  : KILN_MISS;
}
