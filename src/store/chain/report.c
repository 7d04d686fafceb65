/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "store/chain/chain.h"

/* Returns the folder that contains the files of counts; NULL: there is none. The store of that
 * folder has checked that it belongs to this user. Relative paths are not used, because by now they
 * could lead to a different folder. */
static const char *folder_of(const kilni_chain *chain)
{
    const char *path = chain->home ? chain->home->where.path : NULL;
    return path && path[0] == '/' && kilni_tier_peek(chain->home) ? path : NULL;
}

/* Returns a text that identifies the tier and is the same in all chains that contain it; NULL:
 * memory ran out. The caller must free the text. */
static char *identity_of(const kilni_tier *tier)
{
    char *text = NULL;
    return asprintf(&text, "%s%s", tier->where.engine->scheme, tier->where.path) < 0 ? NULL : text;
}

void kilni_chain_save_counts(kilni_chain *chain)
{
    const char *folder = folder_of(chain);
    for (size_t i = 0; folder && i < chain->count; i++) {
        char *identity = identity_of(&chain->tiers[i]);
        if (identity) {
            kilni_tier_counts_save(&chain->tiers[i].counts, folder, identity);
        }
        free(identity);
    }
}

static kiln_tier_info info_of(kilni_tier *tier, const char *folder)
{
    uint64_t values[KILNI_TIER_COUNTERS] = {0};
    char *identity = identity_of(tier);
    if (folder && identity) {
        kilni_tier_counts_read(folder, identity, values);
    }
    free(identity);
    kiln_tier_info info = {
        .struct_size = sizeof info,
        .location = tier->name,
        .hits = values[KILNI_TIER_HITS],
        .misses = values[KILNI_TIER_MISSES],
        .read_bytes = values[KILNI_TIER_READ_BYTES],
        .puts = values[KILNI_TIER_PUTS],
        .damaged = values[KILNI_TIER_DAMAGED],
        .faults = values[KILNI_TIER_FAULTS],
        .dropped = values[KILNI_TIER_DROPPED],
        .latency_ns = kilni_tier_counts_latency(values),
    };
    info.outage = kilni_tier_outage(tier, &info.retry_ns);
    return info;
}

void kilni_chain_each_tier(kiln_store *store, kiln_tier_fn visit, void *user)
{
    kilni_chain *chain = (kilni_chain *)store;
    kilni_chain_save_counts(chain);
    for (size_t i = 0; i < chain->count; i++) {
        const kiln_tier_info info = info_of(&chain->tiers[i], folder_of(chain));
        visit(user, &info);
    }
}
