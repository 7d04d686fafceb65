/* SPDX-License-Identifier: Apache-2.0 */
#include "store/chain/tier.h"

#include <stdlib.h>

#include "os/clock.h"

/* After this many failures in a row, a tier is skipped. A single unreadable file does not cause its
 * tier to be skipped. */
#define FAILURES_IN_A_ROW 3u
#define PAUSE_MIN_NS ((uint64_t)1000000000)
#define PAUSE_MAX_NS ((uint64_t)60 * 1000000000)

static kiln_store *store_of(kilni_tier *tier)
{
    return atomic_load_explicit(&tier->store, memory_order_acquire);
}

/* Returns how long a tier is skipped after this many failures. */
static uint64_t pause_after(unsigned failures)
{
    unsigned doublings = failures > FAILURES_IN_A_ROW ? failures - FAILURES_IN_A_ROW : 0;
    uint64_t pause = PAUSE_MIN_NS << (doublings < 6 ? doublings : 6);
    return pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
}

static void skip_for_a_while(kilni_tier *tier, unsigned failures, const char *why)
{
    atomic_store_explicit(&tier->retry_ns, kilni_clock_ns() + pause_after(failures),
                          memory_order_relaxed);
    if (why) {
        kilni_store_warn(tier->chain, KILNI_WARNED_TIER << tier->number,
                         "%s is skipped, and tried again later: %s", tier->name, why);
    }
}

static void count_failure(kilni_tier *tier, unsigned least, const char *why)
{
    unsigned failures = atomic_fetch_add_explicit(&tier->failures, 1, memory_order_relaxed) + 1;
    if (failures >= least) {
        skip_for_a_while(tier, failures, why);
    }
}

/* Records a success. Another thread records a failure in two steps. If this function runs between
 * these steps, only retry_ns remains set. */
static void count_success(kilni_tier *tier)
{
    if (atomic_load_explicit(&tier->failures, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&tier->retry_ns, memory_order_relaxed) != 0) {
        atomic_store_explicit(&tier->failures, 0, memory_order_relaxed);
        atomic_store_explicit(&tier->retry_ns, 0, memory_order_relaxed);
    }
}

static const char *why_not(kiln_status status, const kiln_error *error)
{
    /* If a store does not exist and KILN_STORE_NO_CREATE is set, no warning is logged. */
    if (status == KILN_MISS) {
        return NULL;
    }
    return error->text[0] != '\0' ? error->text : kiln_status_text(status);
}

kiln_status kilni_tier_open(kilni_tier *tier, kiln_error *ret_error)
{
    kiln_store *opened = NULL;
    kiln_status status = kilni_store_open_with(tier->where.engine, tier->where.path,
                                               &tier->where.options, &opened, ret_error);
    if (status != KILN_OK) {
        count_failure(tier, 1, why_not(status, ret_error));
        return status;
    }
    kiln_store *none = NULL;
    if (!atomic_compare_exchange_strong_explicit(&tier->store, &none, opened, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        kiln_store_close(&opened);
    }
    count_success(tier);
    return KILN_OK;
}

/* Returns true if this thread must try the tier again now. */
static bool claims_retry(kilni_tier *tier, uint64_t retry_ns)
{
    uint64_t now_ns = kilni_clock_ns();
    unsigned failures = atomic_load_explicit(&tier->failures, memory_order_relaxed);
    return now_ns >= retry_ns && atomic_compare_exchange_strong_explicit(
                                     &tier->retry_ns, &retry_ns, now_ns + pause_after(failures),
                                     memory_order_relaxed, memory_order_relaxed);
}

kiln_store *kilni_tier_use(kilni_tier *tier)
{
    uint64_t retry_ns = atomic_load_explicit(&tier->retry_ns, memory_order_relaxed);
    if (retry_ns != 0 && !claims_retry(tier, retry_ns)) {
        return NULL;
    }
    kiln_store *store = store_of(tier);
    if (!store) {
        kiln_error error = {.struct_size = sizeof error};
        store = kilni_tier_open(tier, &error) == KILN_OK ? store_of(tier) : NULL;
    }
    return store;
}

kiln_store *kilni_tier_peek(kilni_tier *tier)
{
    const bool is_in_order = atomic_load_explicit(&tier->retry_ns, memory_order_relaxed) == 0;
    return is_in_order ? store_of(tier) : NULL;
}

/* If the tier's store gives a reason, that reason is returned, because it is more precise than the
 * tier's own. */
const char *kilni_tier_outage(kilni_tier *tier, uint64_t *ret_wait_ns)
{
    const uint64_t retry_ns = atomic_load_explicit(&tier->retry_ns, memory_order_relaxed);
    const uint64_t now_ns = kilni_clock_ns();
    kiln_store *store = store_of(tier);
    const char *reason =
        store && store->ops->outage ? store->ops->outage(store, ret_wait_ns) : NULL;
    if (reason || retry_ns == 0) {
        return reason;
    }
    *ret_wait_ns = retry_ns > now_ns ? retry_ns - now_ns : 0;
    return store ? "its last calls failed" : "it could not be opened";
}

kiln_status kilni_tier_note(kilni_tier *tier, kiln_status status)
{
    if (status == KILN_E_IO || status == KILN_E_DENIED) {
        count_failure(tier, FAILURES_IN_A_ROW, kiln_status_text(status));
    } else if (status != KILN_E_NO_MEMORY) {
        count_success(tier);
    }
    return status;
}

/* The mean, in which each earlier look-up has seven eighths of the weight of the next one. Two
 * threads may lose one of two durations. */
void kilni_tier_note_latency(kilni_tier *tier, uint64_t duration_ns)
{
    const uint64_t mean_ns = atomic_load_explicit(&tier->latency_ns, memory_order_relaxed);
    atomic_store_explicit(&tier->latency_ns,
                          mean_ns > 0 ? mean_ns - mean_ns / 8 + duration_ns / 8 : duration_ns,
                          memory_order_relaxed);
}

bool kilni_tier_is_slower(const kilni_tier *tier, uint64_t build_ns)
{
    return build_ns > 0 && build_ns < atomic_load_explicit(&tier->latency_ns, memory_order_relaxed);
}

uint32_t kilni_tier_capabilities(const kilni_tier *tier)
{
    return tier->where.engine->capabilities(tier->where.options.flags);
}

bool kilni_tier_is_written(const kilni_tier *tier)
{
    return (kilni_tier_capabilities(tier) & KILNI_STORE_WRITABLE) &&
           tier->where.options.write != KILNI_WRITE_NONE;
}

bool kilni_tier_is_authenticated(const kilni_tier *tier)
{
    const kilni_store_options *options = &tier->where.options;
    return options->key_file || (tier->where.engine->needs_trust && !options->trusts_any);
}

bool kilni_tier_signs(const kilni_tier *tier)
{
    const kilni_store_options *options = &tier->where.options;
    return options->key_file || (tier->where.engine->needs_trust && options->secret_key_file);
}

bool kilni_tier_is_filled(const kilni_tier *tier, const kilni_tier *source)
{
    return kilni_tier_is_written(tier) &&
           (!source || !kilni_tier_signs(tier) || kilni_tier_is_authenticated(source));
}

void kilni_tier_close(kilni_tier *tier)
{
    kiln_store *store = store_of(tier);
    kiln_store_close(&store);
    free(tier->where.path);
    free(tier->key_file);
    free(tier->name);
}
