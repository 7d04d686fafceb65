/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile onednn. For the cache in memory, it reads the variables of oneDNN's primitive cache. For
 * the store on disk, it reads variables that correspond to the calls of kiln/persistent.h.
 */
#include <string.h>

#include <kiln/persistent.h>

#include "face/environment/config.h"

#define MIB_SHIFT 20u
#define MAX_MIB (UINT64_MAX >> MIB_SHIFT)

static const kilni_dir_candidate candidates[] = {{"ONEDNN_PERSISTENT_CACHE_DIR", "", false}};

static void read_policy(kilni_config_reader *reader)
{
    static const char name[] = "ONEDNN_PERSISTENT_CACHE_POLICY";
    uint32_t *policy = &reader->config->store.policy;
    *policy = KILN_POLICY_FIFO;
    const char *value = kilni_config_value(reader, name);
    if (!value || strcmp(value, "fifo") == 0) {
        return;
    }
    if (strcmp(value, "no_evict") == 0) {
        *policy = KILN_POLICY_NO_EVICT;
        return;
    }
    kilni_config_warn(reader, name, value, "expected fifo or no_evict", "fifo is used");
}

static void read_disk(kilni_config_reader *reader)
{
    kilni_config *config = reader->config;
    config->store.layout = "onednn";
    read_policy(reader);
    uint64_t capacity_mib = 0;
    kilni_config_read_number(reader, "ONEDNN_PERSISTENT_CACHE_CAPACITY", "MiB", MAX_MIB,
                             &capacity_mib);
    config->store.max_bytes = capacity_mib << MIB_SHIFT;
    config->is_persistent = capacity_mib > 0;
    kilni_config_read_dir(reader, candidates, sizeof candidates / sizeof candidates[0],
                          KILN_PERSISTENT_DEFAULT_DIR);
}

/* The newer name takes precedence, as in oneDNN. */
static void read_memory(kilni_config_reader *reader)
{
    static const char name[] = "ONEDNN_PRIMITIVE_CACHE_CAPACITY";
    static const char older_name[] = "DNNL_PRIMITIVE_CACHE_CAPACITY";
    kiln_cache_params *memory = &reader->config->memory;
    memory->policy = KILN_POLICY_LRU;
    memory->max_bytes = KILN_UNLIMITED;
    memory->max_entries = 1024;
    kilni_config_read_number(reader, kilni_config_value(reader, name) ? name : older_name,
                             "entries", INT32_MAX, &memory->max_entries);
    if (memory->max_entries == 0) {
        memory->flags |= KILN_CACHE_DISABLED;
    }
}

void kilni_config_read_onednn(kilni_config_reader *reader)
{
    read_disk(reader);
    read_memory(reader);
}
