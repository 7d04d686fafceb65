/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/breaker.h"

#include <stddef.h>

#define NS_PER_S UINT64_C(1000000000)
#define FAULTS_IN_A_ROW 3u
#define PAUSE_MIN_NS NS_PER_S
#define PAUSE_MAX_NS (NS_PER_S * 75 / 2) /* at most 45 s with its jitter */
#define KNOWN_FOR_NS (60 * NS_PER_S)
#define READ_EACH_NS NS_PER_S

/* All callers are admitted again when this much time has passed since a probe became due, even if
 * no process has probed. Otherwise, if processes ended before their probes did, no process would
 * notice that the server works again. If the server was silent, callers are admitted only a minute
 * after the fault, because each of them would have to wait a long time. */
#define GRACE_NS (2 * NS_PER_S)

/* The time that an admitted caller has for its probe before the next caller is admitted. */
#define CLAIM_NS (2 * NS_PER_S)

/* Makes the pause up to a fifth shorter or longer, so that many machines do not probe at the same
 * time. */
static uint64_t with_jitter(uint64_t pause_ns, uint64_t now_ns)
{
    const uint64_t mixed = (now_ns ^ (now_ns >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return pause_ns - pause_ns / 5 + (mixed >> 16) % (pause_ns / 5 * 2);
}

static uint64_t pause_after(unsigned faults, uint64_t now_ns)
{
    const unsigned doublings = faults > FAULTS_IN_A_ROW ? faults - FAULTS_IN_A_ROW : 0;
    const uint64_t pause_ns = PAUSE_MIN_NS << (doublings < 6 ? doublings : 6);
    return with_jitter(pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS, now_ns);
}

static uint64_t load(const _Atomic uint64_t *time_ns)
{
    return atomic_load_explicit(time_ns, memory_order_relaxed);
}

static void store(_Atomic uint64_t *time_ns, uint64_t value_ns)
{
    atomic_store_explicit(time_ns, value_ns, memory_order_relaxed);
}

static void close_here(kilni_breaker *breaker)
{
    atomic_store_explicit(&breaker->faults, 0, memory_order_relaxed);
    atomic_store_explicit(&breaker->is_shared, false, memory_order_relaxed);
    store(&breaker->retry_ns, 0);
}

/* ---- the file ---- */

static kilni_server_state state_of(const kilni_breaker *breaker, uint64_t retry_ns)
{
    return (kilni_server_state){
        .noted_ns = load(&breaker->noted_ns),
        .retry_ns = retry_ns,
        .end_ns = load(&breaker->end_ns),
        .faults = atomic_load_explicit(&breaker->faults, memory_order_relaxed),
        .fault = kilni_breaker_fault(breaker),
    };
}

static void write_file(kilni_breaker *breaker, uint64_t retry_ns)
{
    const kilni_server_state state = state_of(breaker, retry_ns);
    if (breaker->file && kilni_server_state_write(breaker->file, &state)) {
        atomic_store_explicit(&breaker->is_shared, true, memory_order_relaxed);
    }
}

static void adopt(kilni_breaker *breaker, const kilni_server_state *state)
{
    atomic_store_explicit(&breaker->faults, state->faults, memory_order_relaxed);
    atomic_store_explicit(&breaker->fault, (unsigned)state->fault, memory_order_relaxed);
    atomic_store_explicit(&breaker->is_shared, true, memory_order_relaxed);
    store(&breaker->noted_ns, state->noted_ns);
    store(&breaker->end_ns, state->end_ns);
    store(&breaker->retry_ns, state->retry_ns);
}

/* Adopts the state in the file, unless this process has had an answer or a failure from the server
 * after that state was noted. In the case of a failure, this process was unable to replace the
 * file. */
static void read_file(kilni_breaker *breaker, uint64_t now_ns)
{
    kilni_server_state state;
    if (kilni_server_state_read(breaker->file, now_ns, &state)) {
        if (state.noted_ns >= load(&breaker->answered_ns) &&
            state.noted_ns >= load(&breaker->noted_ns)) {
            adopt(breaker, &state);
        }
    } else if (atomic_load_explicit(&breaker->is_shared, memory_order_relaxed)) {
        close_here(breaker);
    }
}

/* ---- asking ---- */

static void look_at_file(kilni_breaker *breaker, uint64_t now_ns)
{
    uint64_t read_ns = load(&breaker->read_ns);
    const bool is_due = read_ns == 0 || now_ns - read_ns >= READ_EACH_NS;
    if (breaker->file && is_due &&
        atomic_compare_exchange_strong_explicit(&breaker->read_ns, &read_ns, now_ns,
                                                memory_order_relaxed, memory_order_relaxed)) {
        read_file(breaker, now_ns);
    }
}

bool kilni_breaker_is_closed(kilni_breaker *breaker, uint64_t now_ns)
{
    look_at_file(breaker, now_ns);
    if (load(&breaker->retry_ns) != 0 && now_ns >= load(&breaker->end_ns)) {
        store(&breaker->retry_ns, 0);
    }
    return load(&breaker->retry_ns) == 0;
}

bool kilni_breaker_admits(kilni_breaker *breaker, uint64_t now_ns)
{
    if (kilni_breaker_is_closed(breaker, now_ns)) {
        return true;
    }
    if (now_ns < load(&breaker->retry_ns)) {
        return false;
    }
    /* A different process may have claimed the probe after this process last read the file. */
    if (atomic_load_explicit(&breaker->is_shared, memory_order_relaxed)) {
        read_file(breaker, now_ns);
    }
    uint64_t retry_ns = load(&breaker->retry_ns);
    if (now_ns < retry_ns || retry_ns == 0) {
        return retry_ns == 0;
    }
    const uint64_t end_ns = load(&breaker->end_ns);
    const uint64_t claim_ns = now_ns + CLAIM_NS < end_ns ? now_ns + CLAIM_NS : end_ns;
    const bool is_ours = atomic_compare_exchange_strong_explicit(
        &breaker->retry_ns, &retry_ns, claim_ns, memory_order_relaxed, memory_order_relaxed);
    if (is_ours && atomic_load_explicit(&breaker->is_shared, memory_order_relaxed)) {
        write_file(breaker, claim_ns);
    }
    return is_ours;
}

bool kilni_breaker_is_open(kilni_breaker *breaker, uint64_t now_ns, kilni_server_state *ret_state)
{
    if (kilni_breaker_is_closed(breaker, now_ns)) {
        return false;
    }
    *ret_state = state_of(breaker, load(&breaker->retry_ns));
    return true;
}

uint64_t kilni_breaker_retry_ns(const kilni_breaker *breaker)
{
    return load(&breaker->retry_ns);
}

bool kilni_breaker_is_known(const kilni_breaker *breaker, uint64_t now_ns)
{
    const uint64_t answered_ns = load(&breaker->answered_ns);
    return answered_ns != 0 && now_ns - answered_ns < KNOWN_FOR_NS;
}

kilni_server_fault kilni_breaker_fault(const kilni_breaker *breaker)
{
    return (kilni_server_fault)atomic_load_explicit(&breaker->fault, memory_order_relaxed);
}

/* ---- what happened ---- */

void kilni_breaker_note_answer(kilni_breaker *breaker, uint64_t now_ns)
{
    const bool is_shared = atomic_load_explicit(&breaker->is_shared, memory_order_relaxed);
    store(&breaker->answered_ns, now_ns);
    close_here(breaker);
    if (is_shared) {
        kilni_server_state_remove(breaker->file);
    }
}

static void open_until(kilni_breaker *breaker, uint64_t retry_ns, uint64_t end_ns)
{
    store(&breaker->end_ns, end_ns);
    store(&breaker->retry_ns, retry_ns);
}

/* If the server has not answered within the last minute, the first fault already keeps callers
 * away. Otherwise the next caller would have to wait as long as the caller that failed. */
void kilni_breaker_note_fault(kilni_breaker *breaker, uint64_t now_ns, kilni_server_fault fault)
{
    unsigned faults = atomic_fetch_add_explicit(&breaker->faults, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&breaker->fault, (unsigned)fault, memory_order_relaxed);
    store(&breaker->noted_ns, now_ns);
    if (faults < FAULTS_IN_A_ROW && !kilni_breaker_is_known(breaker, now_ns)) {
        faults = FAULTS_IN_A_ROW;
        atomic_store_explicit(&breaker->faults, faults, memory_order_relaxed);
    }
    if (faults >= FAULTS_IN_A_ROW) {
        const uint64_t retry_ns = now_ns + pause_after(faults, now_ns);
        open_until(breaker, retry_ns,
                   fault == KILNI_FAULT_SILENT ? now_ns + KILNI_SERVER_STATE_LASTS_NS
                                               : retry_ns + GRACE_NS);
        write_file(breaker, retry_ns);
    }
}

/* Since the server has answered, a fault in the file is over, and the file is removed here. If the
 * file stayed, the pause would end when another process removes it. */
void kilni_breaker_rest(kilni_breaker *breaker, uint64_t now_ns, uint64_t duration_ns,
                        kilni_server_fault fault)
{
    kilni_breaker_note_answer(breaker, now_ns);
    atomic_store_explicit(&breaker->fault, (unsigned)fault, memory_order_relaxed);
    open_until(breaker, now_ns + duration_ns, now_ns + duration_ns + GRACE_NS);
}
