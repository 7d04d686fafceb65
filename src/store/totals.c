/* SPDX-License-Identifier: Apache-2.0 */
#include "store/totals.h"

#include <string.h>

#include "store/counter_file.h"

enum { FIELD_ENTRIES = 0, FIELD_BYTES = 1, FIELD_COUNTERS = 2 };
enum { KNOWN_FIELDS = FIELD_COUNTERS + KILNI_STATS_COUNT };

_Static_assert(sizeof(kiln_stats) % sizeof(uint64_t) == 0, "kiln_stats is an array of uint64_t");
_Static_assert(KNOWN_FIELDS <= KILNI_COUNTERS_MAX, "a statistics file has room for all counters");

static uint64_t add_signed(uint64_t value, int64_t change)
{
    uint64_t amount = change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
    if (change < 0) {
        return value > amount ? value - amount : 0;
    }
    return value + amount;
}

void kilni_totals_apply(kilni_totals *totals, const kilni_totals_change *change)
{
    if (change->is_recount) {
        totals->entries = 0;
        totals->bytes = 0;
    }
    totals->entries = add_signed(totals->entries, change->entries);
    totals->bytes = add_signed(totals->bytes, change->bytes);
    kilni_stats_add(&totals->counters, &change->counters);
}

static kilni_totals totals_of(const kilni_counters *counters)
{
    kilni_totals totals = {.entries = counters->values[FIELD_ENTRIES],
                           .bytes = counters->values[FIELD_BYTES]};
    memcpy(&totals.counters, &counters->values[FIELD_COUNTERS], sizeof totals.counters);
    return totals;
}

static void apply(kilni_counters *counters, const kilni_totals_change *change)
{
    if (counters->count < KNOWN_FIELDS) {
        counters->count = KNOWN_FIELDS;
    }
    kilni_totals totals = totals_of(counters);
    kilni_totals_apply(&totals, change);
    counters->values[FIELD_ENTRIES] = totals.entries;
    counters->values[FIELD_BYTES] = totals.bytes;
    memcpy(&counters->values[FIELD_COUNTERS], &totals.counters, sizeof totals.counters);
}

/* A change to a file, and what the file contains after the change. */
typedef struct file_change {
    const kilni_totals_change *change;
    kilni_totals totals;
} file_change;

static void change_counters(void *user, kilni_counters *counters)
{
    file_change *work = user;
    apply(counters, work->change);
    work->totals = totals_of(counters);
    work->totals.is_new = counters->is_new;
}

kiln_status kilni_totals_change_file(int directory, const char *path,
                                     const kilni_totals_change *change, kilni_totals *ret_totals)
{
    file_change work = {.change = change};
    const kiln_status status = kilni_counter_file_change(directory, path, change_counters, &work);
    if (status == KILN_OK && ret_totals) {
        *ret_totals = work.totals;
    }
    return status;
}

kiln_status kilni_totals_read_file(int directory, const char *path, kilni_totals *ret_totals)
{
    kilni_counters counters;
    const kiln_status status = kilni_counter_file_read(directory, path, &counters);
    if (status == KILN_OK) {
        *ret_totals = totals_of(&counters);
        ret_totals->is_new = counters.is_new;
    }
    return status;
}

void kilni_stats_add(kiln_stats *sum, const kiln_stats *delta)
{
#define ADD(name, meaning) sum->name += delta->name;
    KILN_STATS_LIST(ADD)
#undef ADD
}

bool kilni_stats_is_zero(const kiln_stats *stats)
{
    static const kiln_stats zero;
    return memcmp(stats, &zero, sizeof zero) == 0;
}
