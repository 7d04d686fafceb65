/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include "json.h"
#include "output.h"

kiln_status counters_read(kiln_store *store, struct counters *ret_counters)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    kiln_status status = store == NULL ? KILN_OK : kiln_store_get_stat(store, &stat);
    if (status != KILN_OK) {
        return status;
    }
    *ret_counters =
        (struct counters){.stats = stat.totals, .entries = stat.entries, .bytes = stat.bytes};
    return KILN_OK;
}

json_t *counters_to_json(const struct counters *counters)
{
    json_t *object = must(json_object());
#define ADD_COUNTER(name, meaning) json_add(object, #name, json_number(counters->stats.name));
    KILN_STATS_LIST(ADD_COUNTER)
#undef ADD_COUNTER
    json_add(object, "entries", json_number(counters->entries));
    json_add(object, "bytes", json_number(counters->bytes));
    return object;
}
