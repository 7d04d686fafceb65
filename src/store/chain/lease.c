/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "os/clock.h"
#include "store/chain/chain.h"

typedef struct chain_lease {
    kiln_lease lease;            /* first: a chain_lease is a kiln_lease */
    kiln_lease *machine, *fleet; /* NULL: no tier granted it */
} chain_lease;

/* Takes a lease from the first tier that can grant one: from a server if @is_server, otherwise from
 * a local tier. */
static kiln_status ask_tiers(kilni_chain *chain, bool is_server, const kiln_key *key,
                             uint64_t wait_ns, kiln_lease **ret_lease)
{
    kiln_status result = KILN_E_UNSUPPORTED;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        const uint32_t capabilities = kilni_tier_capabilities(tier);
        const bool is_asked = (capabilities & KILNI_STORE_LEASES) &&
                              ((capabilities & KILNI_STORE_SENDS) != 0) == is_server;
        kiln_store *asked = is_asked ? kilni_tier_use(tier) : NULL;
        if (!asked) {
            continue;
        }
        result = kilni_tier_note(tier, kiln_store_lease(asked, key, wait_ns, ret_lease));
        kilni_tier_counts_note_fault(&tier->counts, result);
        if (result == KILN_OK || result == KILN_BUSY || result == KILN_E_NO_MEMORY) {
            return result;
        }
    }
    return result;
}

/* Takes the leases of the machine and of the fleet. Returns KILN_OK: @lease has at least one of
 * them; KILN_BUSY; KILN_E_NO_MEMORY; otherwise why neither lease could be obtained. */
static kiln_status take(kilni_chain *chain, const kiln_key *key, uint64_t wait_ns,
                        chain_lease *lease)
{
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status machine = ask_tiers(chain, false, key, wait_ns, &lease->machine);
    if (machine == KILN_BUSY || machine == KILN_E_NO_MEMORY) {
        return machine;
    }
    const uint64_t waited_ns = kilni_clock_ns() - start_ns;
    const uint64_t left_ns = waited_ns < wait_ns ? wait_ns - waited_ns : 0;
    const kiln_status fleet = ask_tiers(chain, true, key, left_ns, &lease->fleet);
    if (fleet == KILN_BUSY || fleet == KILN_E_NO_MEMORY || fleet == KILN_OK) {
        return fleet;
    }
    return machine;
}

/* While this process waited, the last holder of the lease may have put the entry onto a server,
 * even if that server has no leases. */
static void forget_misses(kilni_chain *chain, const kiln_key *key)
{
    for (size_t i = 0; i < chain->count; i++) {
        kiln_store *tier = kilni_tier_peek(&chain->tiers[i]);
        if (tier && tier->ops->forget_miss) {
            tier->ops->forget_miss(tier, key);
        }
    }
}

kiln_status kilni_chain_lease(kiln_store *store, const kiln_key *key, uint64_t wait_ns,
                              kiln_lease **ret_lease)
{
    chain_lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        return KILN_E_NO_MEMORY;
    }
    lease->lease.ops = store->ops;
    const kiln_status status = take((kilni_chain *)store, key, wait_ns, lease);
    forget_misses((kilni_chain *)store, key);
    if (status != KILN_OK) {
        kilni_chain_lease_release(&lease->lease);
        return status;
    }
    lease->lease.missed_in = lease->fleet ? lease->fleet->missed_in : NULL;
    *ret_lease = &lease->lease;
    return KILN_OK;
}

void kilni_chain_lease_release(kiln_lease *lease)
{
    chain_lease *released = (chain_lease *)lease;
    kiln_lease_release(&released->fleet);
    kiln_lease_release(&released->machine);
    free(released);
}
