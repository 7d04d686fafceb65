/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes any bytes as the results in an NVRTC entry, looks up its files, folds its constants
 * again, and reads everything in them. The first byte says how many of the following bytes are the
 * payload. The entry around them is valid, because this target does not test the checksum.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/outputs.h"
#include "device/watch/changed_files.h"
#include "device/watch/constant_folds.h"
#include "device/watch/results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static kiln_entry *new_entry(kiln_bytes answers, kiln_bytes payload)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    if (kiln_key_builder_new(&builder) == KILN_OK) {
        kiln_key_builder_finish(builder, &key);
    }
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .provenance = {.struct_size = sizeof params.provenance},
                                      .answers = answers,
                                      .payload = payload};
    kiln_entry_new(&params, &entry);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
    return entry;
}

/* Reads every byte, for the sanitizers. */
static unsigned sum_of(kiln_bytes bytes)
{
    const unsigned char *at = bytes.data;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        sum += at[i];
    }
    return sum;
}

static int add_read(void *user, const kiln_read *read)
{
    unsigned *sum = user;
    *sum += (unsigned)strlen(read->path) + read->found + (unsigned)read->size;
    return 0;
}

static unsigned read_outputs(const kilni_stored_result *result)
{
    kilni_nvrtc_outputs outputs;
    unsigned sum = 0;
    if (kilni_nvrtc_outputs_decode(result->outputs, result->code, "/a/k.cu", &outputs) != KILN_OK) {
        return 0;
    }
    for (size_t i = 0; i < KILNI_NVRTC_OUTPUT_COUNT; i++) {
        sum += sum_of(outputs.answers[i].bytes);
    }
    for (size_t i = 0; i < outputs.name_count; i++) {
        sum += (unsigned)strlen(outputs.names[i].expression);
        sum += (unsigned)strlen(outputs.names[i].lowered);
    }
    kilni_nvrtc_outputs_done(&outputs);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t payload = size > 0 && data[0] < size ? data[0] : 0, head = size > 0 ? 1 : 0;
    kiln_entry *entry = new_entry((kiln_bytes){data + head + payload, size - head - payload},
                                  (kiln_bytes){data + head, payload});
    kilni_results results;
    unsigned sum = 0;
    kilni_math_set_function(KILNI_MATH_exp, (void *)exp);
    kilni_math_set_function(KILNI_MATH_pow, (void *)pow);
    if (entry && kilni_results_decode(entry, &results) == KILN_OK) {
        for (size_t i = 0; i < results.count; i++) {
            kilni_folds_hold(results.items[i].folds, NULL);
            kilni_reads_hold(results.items[i].reads, "/a/k.cu", NULL);
            kilni_reads_each(results.items[i].reads, NULL, add_read, &sum);
            sum += read_outputs(&results.items[i]);
        }
    }
    __asm__ volatile("" : : "r"(sum)); /* keeps the compiler from dropping the reads */
    kiln_entry_release(&entry);
    return 0;
}
