/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/lease.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/network/token.h"
#include "store/redis/slots.h"

#define NS_PER_MS UINT64_C(1000000)
#define SMALL_REPLY_BYTES 4096u

/* How long a lease lasts after its last renewal, and how often it is renewed. */
#define LASTS_MS "4000"
#define RENEWED_EACH_NS (1300 * NS_PER_MS)

/* The maximum time for a renewal or a release. A lease that is not released expires. */
#define UPKEEP_NS (1000 * NS_PER_MS)

#define NAME_SIZE 64u

/* Each script does in one step what would otherwise take several commands. If the answer to the
 * first script is lost, the script may be sent again. It then finds its own token. The last two
 * scripts compare the token. So a holder whose lease has expired cannot change the lease of the
 * next holder. */
static const char take_script[] = "local found = redis.call('EXISTS', KEYS[2]) "
                                  "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) "
                                  "or redis.call('GET', KEYS[1]) == ARGV[1] "
                                  "then return 2 - found end return 0";
static const char renew_script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
static const char release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

struct kilni_remote_lease {
    kilni_task starting, ending;
    kilni_timer renewal; /* used only by the I/O thread */
    kilni_redis_client *client;
    unsigned process; /* the process that holds the lease; its children do not */
    /* Set when the lease is released. From then on, the I/O thread must not renew the lease, even
     * if the task that ends the renewal never reaches that thread. The flag guards no other data,
     * so accesses are relaxed. */
    _Atomic bool is_released;
    bool is_of_miss; /* the value did not exist when the lease was granted */
    char value_name[NAME_SIZE];
    char name[NAME_SIZE];
    char token[KILNI_TOKEN_SIZE]; /* only this holder has it */
};

static kilni_resp_argument argument_of(const char *text)
{
    return (kilni_resp_argument){text, strlen(text)};
}

/* Makes an exchange that runs a script. Only the script that takes a lease gets the name of the
 * value. The other scripts use one name, because a node of a cluster runs no script on two names
 * while a slot moves. Returns KILN_OK; KILN_E_NO_MEMORY. */
static kiln_status prepare(const kilni_remote_lease *lease, const char *script,
                           uint64_t deadline_ns, kilni_redis_exchange **ret_exchange)
{
    const bool has_value = script == take_script;
    kilni_resp_argument command[7] = {argument_of("EVAL"), argument_of(script),
                                      argument_of(has_value ? "2" : "1"), argument_of(lease->name)};
    size_t count = 4;
    if (has_value) {
        command[count++] = argument_of(lease->value_name);
    }
    command[count++] = argument_of(lease->token);
    command[count++] = argument_of(LASTS_MS);
    kilni_redis_exchange *exchange;
    kiln_status status =
        kilni_redis_client_prepare(lease->client, KILNI_REDIS_LANE_LOOKUPS,
                                   kilni_redis_slot_of(lease->name, strlen(lease->name)),
                                   SMALL_REPLY_BYTES, deadline_ns, &exchange);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_redis_exchange_add(exchange, command, count);
    if (status != KILN_OK) {
        kilni_call_release(&exchange->call);
        return status;
    }
    *ret_exchange = exchange;
    return KILN_OK;
}

/* Runs a script. A server that refuses scripts, or that has no memory for a lease, is treated as a
 * server without leases. Returns KILN_OK: the server answered with a number; KILN_E_UNSUPPORTED;
 * KILN_E_IO; KILN_E_DENIED; KILN_E_UNAUTHENTICATED; KILN_E_NO_MEMORY. */
static kiln_status run_script(const kilni_remote_lease *lease, const char *script,
                              uint64_t deadline_ns, int64_t *ret_number)
{
    kilni_redis_exchange *exchange;
    kiln_status status = prepare(lease, script, deadline_ns, &exchange);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_redis_client_ask(lease->client, exchange);
    if (status == KILN_OK) {
        const bool is_number =
            exchange->value_count == 1 && exchange->values[0].kind == KILNI_RESP_INTEGER;
        status = is_number ? KILN_OK : KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        *ret_number = exchange->values[0].integer;
    }
    kilni_call_release(&exchange->call);
    return status;
}

/* ---- the I/O thread ---- */

static void renew(kilni_timer *timer)
{
    kilni_remote_lease *lease =
        (kilni_remote_lease *)((char *)timer - offsetof(kilni_remote_lease, renewal));
    kilni_redis_exchange *exchange;
    if (atomic_load_explicit(&lease->is_released, memory_order_relaxed)) {
        return;
    }
    const uint64_t now_ns = kilni_clock_ns();
    if (prepare(lease, renew_script, now_ns + UPKEEP_NS, &exchange) == KILN_OK) {
        kilni_redis_client_send(lease->client, exchange);
    }
    kilni_timer_start(timer, now_ns + RENEWED_EACH_NS);
}

static void start(kilni_task *task)
{
    kilni_remote_lease *lease =
        (kilni_remote_lease *)((char *)task - offsetof(kilni_remote_lease, starting));
    kilni_timer_start(&lease->renewal, kilni_clock_ns() + RENEWED_EACH_NS);
}

static void end(kilni_task *task)
{
    kilni_remote_lease *lease =
        (kilni_remote_lease *)((char *)task - offsetof(kilni_remote_lease, ending));
    kilni_timer_stop(&lease->renewal);
    free(lease);
}

/* ---- the interface ---- */

kiln_status kilni_redis_lease_take(kilni_redis_client *client, const char *name,
                                   uint64_t deadline_ns, kilni_remote_lease **ret_lease)
{
    kilni_remote_lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        return KILN_E_NO_MEMORY;
    }
    lease->client = client;
    lease->process = kilni_loop_process();
    lease->starting.run = start;
    lease->ending.run = end;
    lease->renewal.expire = renew;
    kiln_status status = KILN_E_UNSUPPORTED;
    int64_t number = 0;
    snprintf(lease->value_name, sizeof lease->value_name, "%s", name);
    const int length = snprintf(lease->name, sizeof lease->name, "%s:lease", name);
    if (length < (int)sizeof lease->name && kilni_token_make(lease->token)) {
        status = run_script(lease, take_script, deadline_ns, &number);
    }
    if (status == KILN_OK && number == 0) {
        status = KILN_BUSY;
    }
    lease->is_of_miss = number == 2;
    /* If the I/O thread does not get the task, the lease expires on the server. */
    if (status == KILN_OK && kilni_loop_post(&lease->starting) != KILN_OK) {
        status = KILN_E_IO;
    }
    if (status != KILN_OK) {
        free(lease);
        return status;
    }
    *ret_lease = lease;
    return KILN_OK;
}

bool kilni_redis_lease_is_of_miss(const kilni_remote_lease *lease)
{
    return lease->is_of_miss;
}

/* The flag stops the renewal before the lease is released. A renewal that is under way might find
 * that the lease no longer exists. This does no harm. */
void kilni_redis_lease_release(kilni_remote_lease *lease)
{
    if (lease->process != kilni_loop_process()) {
        free(lease);
        return;
    }
    int64_t number;
    atomic_store_explicit(&lease->is_released, true, memory_order_relaxed);
    run_script(lease, release_script, kilni_clock_ns() + UPKEEP_NS, &number);
    kilni_loop_post(&lease->ending);
}
