/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "os/clock.h"
#include "store/chain/chain.h"

typedef struct chain_lease {
    kiln_lease lease; /* first: a chain_lease is a kiln_lease */
    const kilni_chain *chain;
    /* NULL: no tier granted it, or it was released. The thread that exchanges it for NULL
     * releases it. Both accesses are in acquire-release order. */
    _Atomic(kiln_lease *) machine, fleet;
} chain_lease;

/* What the caller of kilni_chain_lease asks for. */
typedef struct wanted_lease {
    const kiln_key *key;
    uint64_t build_ns;
} wanted_lease;

/* Takes a lease from the first tier that can grant one. If @is_server is true, this function asks
 * only servers, otherwise only local tiers. It asks no server that would probably take longer to
 * answer than the build takes. */
static kiln_status ask_tiers(kilni_chain *chain, bool is_server, const wanted_lease *wanted,
                             uint64_t wait_ns, kiln_lease **ret_lease)
{
    kiln_status result = KILN_E_UNSUPPORTED;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        const uint32_t capabilities = kilni_tier_capabilities(tier);
        const bool is_asked = (capabilities & KILNI_STORE_LEASES) &&
                              ((capabilities & KILNI_STORE_SENDS) != 0) == is_server;
        kiln_store *asked =
            is_asked && !kilni_tier_is_slower(tier, wanted->build_ns) ? kilni_tier_use(tier) : NULL;
        if (!asked) {
            continue;
        }
        result = kilni_tier_note(
            tier, kilni_store_lease(asked, wanted->key, wanted->build_ns, wait_ns, ret_lease));
        kilni_tier_counts_note_fault(&tier->counts, result);
        if (result == KILN_OK || result == KILN_BUSY || result == KILN_E_NO_MEMORY) {
            return result;
        }
    }
    return result;
}

/* Returns true if a server grants leases, but a local tier has an entry of the key, so that the
 * server need not be asked. */
static bool is_server_needless(kilni_chain *chain, const kiln_key *key)
{
    bool has_server = false, is_here = false;
    for (size_t i = 0; i < chain->count; i++) {
        kilni_tier *tier = &chain->tiers[i];
        const uint32_t capabilities = kilni_tier_capabilities(tier);
        const bool is_local = !(capabilities & KILNI_STORE_SENDS);
        kiln_store *asked = is_local && !is_here ? kilni_tier_peek(tier) : NULL;
        is_here = is_here || (asked && kiln_store_contains(asked, key) == KILN_OK);
        has_server = has_server || (!is_local && (capabilities & KILNI_STORE_LEASES));
    }
    return has_server && is_here;
}

/* Takes the leases of the machine and of the fleet. If this process had to wait for the machine's
 * lease, the last holder has probably stored the entry. If it has, the server is not asked. If a
 * server's lease is held, although a local tier has the entry, its holder is probably a process of
 * this machine whose entry is still on its way to the server. This process need not wait for that,
 * and if the local entry is damaged, it builds without the fleet's lease. Returns
 * KILN_OK: @lease has at least one of the two leases; KILN_BUSY; KILN_E_NO_MEMORY; or a status that
 * says why neither lease could be obtained. */
static kiln_status take(kilni_chain *chain, const wanted_lease *wanted, uint64_t wait_ns,
                        chain_lease *lease)
{
    const uint64_t start_ns = kilni_clock_ns();
    kiln_lease *granted = NULL;
    kiln_status machine = ask_tiers(chain, false, wanted, 0, &granted);
    if (machine == KILN_BUSY && wait_ns > 0) {
        machine = ask_tiers(chain, false, wanted, wait_ns, &granted);
        lease->lease.is_shared = machine == KILN_OK && is_server_needless(chain, wanted->key);
    }
    atomic_init(&lease->machine, granted);
    if (machine == KILN_BUSY || machine == KILN_E_NO_MEMORY || lease->lease.is_shared) {
        return machine;
    }
    granted = NULL;
    kiln_status fleet = ask_tiers(chain, true, wanted, 0, &granted);
    if (fleet == KILN_BUSY && machine == KILN_OK && is_server_needless(chain, wanted->key)) {
        return KILN_OK;
    }
    if (fleet == KILN_BUSY && wait_ns > 0) {
        const uint64_t waited_ns = kilni_clock_ns() - start_ns;
        const uint64_t left_ns = waited_ns < wait_ns ? wait_ns - waited_ns : 0;
        fleet = ask_tiers(chain, true, wanted, left_ns, &granted);
    }
    if (fleet == KILN_OK) {
        lease->lease.missed_in = granted->missed_in;
        lease->lease.is_shared = granted->is_shared;
        atomic_init(&lease->fleet, granted);
    }
    return fleet == KILN_BUSY || fleet == KILN_E_NO_MEMORY || fleet == KILN_OK ? fleet : machine;
}

/* Makes the next look-up ask the servers again. While this process waited, the last holder of the
 * lease might have put the entry onto a server, even onto one that has no leases. */
static void forget_misses(kilni_chain *chain, const kiln_key *key)
{
    for (size_t i = 0; i < chain->count; i++) {
        kiln_store *tier = kilni_tier_peek(&chain->tiers[i]);
        if (tier && tier->ops->forget_miss) {
            tier->ops->forget_miss(tier, key);
        }
    }
}

kiln_status kilni_chain_lease(kiln_store *store, const kiln_key *key, uint64_t build_ns,
                              uint64_t wait_ns, kiln_lease **ret_lease)
{
    const wanted_lease wanted = {.key = key, .build_ns = build_ns};
    chain_lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        return KILN_E_NO_MEMORY;
    }
    lease->lease.ops = store->ops;
    lease->chain = (const kilni_chain *)store;
    const kiln_status status = take((kilni_chain *)store, &wanted, wait_ns, lease);
    forget_misses((kilni_chain *)store, key);
    if (status != KILN_OK) {
        kilni_chain_lease_release(&lease->lease);
        return status;
    }
    *ret_lease = &lease->lease;
    return KILN_OK;
}

static void release_part(_Atomic(kiln_lease *) *part)
{
    kiln_lease *released = atomic_exchange_explicit(part, NULL, memory_order_acq_rel);
    kiln_lease_release(&released);
}

/* The processes of this machine find an entry in any tier of this machine, and the other machines
 * find it on any server. */
void kilni_chain_lease_note_stored(kiln_lease *lease, size_t tier)
{
    chain_lease *held = (chain_lease *)lease;
    const bool is_server = kilni_tier_capabilities(&held->chain->tiers[tier]) & KILNI_STORE_SENDS;
    release_part(is_server ? &held->fleet : &held->machine);
}

void kilni_chain_lease_release(kiln_lease *lease)
{
    chain_lease *released = (chain_lease *)lease;
    release_part(&released->fleet);
    release_part(&released->machine);
    free(released);
}
