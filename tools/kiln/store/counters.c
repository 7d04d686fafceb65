/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <string.h>

#include "../text/json.h"
#include "../text/memory.h"

static int count_request(void *user, kiln_item *item)
{
    uint64_t *count = user;
    kiln_item_info info = {.struct_size = sizeof info};
    /* A request without content was given up. Requests for replays are not of captures. */
    *count += kiln_item_get_info(item, &info) == KILN_OK && info.state == KILN_OK &&
              info.bytes > 0 && strcmp(info.name, KILN_REQUEST_REPLAY) != 0;
    return 0;
}

kiln_status counters_read(kiln_store *store, counter_values *ret_counters)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    kiln_status status =
        store == NULL ? KILN_OK : kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat);
    if (status != KILN_OK) {
        return status;
    }
    counter_values counters = {.stats = stat.totals,
                               .entries = stat.entries,
                               .bytes = stat.bytes,
                               .max_bytes = stat.max_bytes};
    if (store != NULL) {
        status = kiln_store_each_request(store, count_request, &counters.requests);
    }
    *ret_counters = counters;
    return status;
}

json_t *counters_to_json(const counter_values *counters)
{
    json_t *object = must(json_object());
#define ADD_COUNTER(name, meaning) json_add(object, #name, json_number(counters->stats.name));
    KILN_STATS_LIST(ADD_COUNTER)
#undef ADD_COUNTER
    json_add(object, "entries", json_number(counters->entries));
    json_add(object, "bytes", json_number(counters->bytes));
    json_add(object, "requests", json_number(counters->requests));
    return object;
}
