/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as a journal. Each event that is found, encoded again, is found again. It does
 * not matter in which pieces the bytes arrive.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/journal_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static int visit(void *user, const kiln_journal_event *event)
{
    uint64_t *sum = user;
    unsigned char record[KILNI_JOURNAL_RECORD_MAX];
    size_t again = 0;
    kiln_journal_event found;
    const size_t size = kilni_journal_encode(event, record);
    require(size <= sizeof record);
    require(kilni_journal_decode(record, size, &again, &found) == KILNI_JOURNAL_EVENT);
    require(again == size && found.kind == event->kind && found.count == event->count);
    require(strncmp(found.name, event->name, strlen(found.name)) == 0);
    *sum += event->count + strlen(event->program) + strlen(event->device) + strlen(event->name);
    return 0;
}

/* Passes the bytes in pieces, as a reader with a small buffer does. */
static kiln_journal_report read_in_pieces(const uint8_t *bytes, size_t size, size_t piece,
                                          uint64_t *ret_sum)
{
    kilni_journal_reader reader = {.visit = visit, .user = ret_sum};
    size_t used = 0, end = 0;
    while (end < size) {
        end = size - end < piece ? size : end + piece;
        used += kilni_journal_read_bytes(&reader, bytes + used, end - used, end == size);
    }
    require(used == size);
    return reader.report;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (!bytes) {
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    uint64_t whole_sum = 0, pieces_sum = 0;
    const kiln_journal_report whole = read_in_pieces(bytes, size, size > 0 ? size : 1, &whole_sum);
    const kiln_journal_report pieces = read_in_pieces(bytes, size, 7, &pieces_sum);
    require(whole.events == pieces.events && whole.newer == pieces.newer);
    require(whole.damaged == pieces.damaged && whole_sum == pieces_sum);
    free(bytes);
    return 0;
}
