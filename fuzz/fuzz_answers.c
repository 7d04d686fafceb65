/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes any bytes as the answers in an entry, and queries everything in them. The entry around
 * them is valid, because this target does not test the checksum.
 */
#include <stdint.h>
#include <stdlib.h>

#include "../tests/support/fenced_answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_entry *entry = fenced_entry_new(data, size, "", 0);
    if (!entry) {
        return 0;
    }
    kilni_opencl_answers *answers = NULL;
    if (kilni_opencl_answers_decode(kiln_entry_answers(entry), kiln_entry_log(entry), &answers) ==
            KILN_OK &&
        !fenced_answers_are_inside(answers, entry)) {
        abort();
    }
    kilni_opencl_answers_free(&answers);
    fenced_entry_release(&entry);
    return 0;
}
