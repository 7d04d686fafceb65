/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/lease.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/http/objects.h"
#include "store/network/token.h"

#define NS_PER_MS UINT64_C(1000000)

/* LASTS_S: how long a marker is valid after it was last put. The server's clock measures this time
 * in whole seconds. RENEWED_EACH_NS: how often the holder puts the marker again. */
#define LASTS_S 8u
#define RENEWED_EACH_NS (2500 * NS_PER_MS)

/* The maximum times for a renewal and for a release. */
#define RENEWAL_NS (2000 * NS_PER_MS)
#define RELEASE_NS (1000 * NS_PER_MS)

/* How long a process waits before it relies on its marker. The look for a marker and the put both
 * take some time. The process waits SETTLING_FACTOR times as long as the slower one of these took,
 * but within the limits below. */
#define SETTLING_FACTOR 10u
#define SETTLING_MIN_NS (50 * NS_PER_MS)
#define SETTLING_MAX_NS (1000 * NS_PER_MS)

/* Shorter builds take no lease, since it would take too long. */
#define WORTH_SETTLING_NS (1000 * NS_PER_MS)
#define WORTH_A_REQUEST_NS (100 * NS_PER_MS)

/* How long this process does not ask for a lease after the server has refused one. */
#define REFUSED_FOR_NS (60000 * NS_PER_MS)

#define NAME_SIZE 128u
#define TOKEN_LENGTH (KILNI_TOKEN_SIZE - 1)

/* What a process finds under the name of a marker. */
typedef enum marker {
    ABSENT,
    OWN,
    HELD,    /* the marker of a different holder */
    EXPIRED, /* the marker of a holder that has ended */
    AGELESS  /* the marker of a different holder, but the server does not report its age */
} marker;

struct kilni_remote_lease {
    kilni_call stopping; /* first: the call is cast to the lease. It ends the renewals */
    kilni_task starting;
    kilni_remote *remote; /* only the caller uses it, while the store is open */
    /* The client of the remote, and its server. They live until the I/O thread has stopped the
     * renewals. */
    kilni_http_client *client;
    const kilni_remote_server *server;
    const kilni_http_kind *kind;
    /* Set by a release. Ends the renewals even if the I/O thread does not get the task. Relaxed. */
    _Atomic bool is_released;
    unsigned process;             /* the process that holds the lease; its children do not */
    char name[NAME_SIZE];         /* of the marker */
    char token[TOKEN_LENGTH + 1]; /* only this holder has it */

    /* Only the I/O thread uses these. After stopping is finished, the caller uses them too. */
    kilni_timer renewal;
    bool is_renewing; /* a request is under way */
    bool is_stopped;
    bool is_lost; /* the marker is gone, or belongs to a different holder */
};

static void destroy(kilni_call *call)
{
    free(call);
}

/* ---- requests ---- */

static kilni_http_object look_of(const kilni_remote_lease *lease, uint64_t deadline_ns)
{
    return (kilni_http_object){.lane = KILNI_HTTP_LANE_LOOKUPS,
                               .method = "GET",
                               .name = lease->name,
                               .max_bytes = UINT64_MAX,
                               .kept_bytes = TOKEN_LENGTH + 1,
                               .deadline_ns = deadline_ns};
}

/* It is safe to repeat a put on a new connection, because the token shows which holder put the
 * marker. */
static kilni_http_object put_of(const kilni_remote_lease *lease, bool must_be_new,
                                uint64_t deadline_ns)
{
    return (kilni_http_object){.lane = KILNI_HTTP_LANE_LOOKUPS,
                               .method = "PUT",
                               .name = lease->name,
                               .body = lease->token,
                               .body_size = TOKEN_LENGTH,
                               .must_be_new = must_be_new,
                               .deadline_ns = deadline_ns};
}

static bool is_own(const kilni_remote_lease *lease, const kilni_http_request *request)
{
    return request->size == TOKEN_LENGTH && memcmp(request->data, lease->token, TOKEN_LENGTH) == 0;
}

/* Both times come from the server. If its clock was set back a little, the marker is treated as
 * new. If the times come from different clocks, the marker's age is unknown. */
static marker judge_age(const kilni_http_head *head)
{
    if (head->sent_s == 0 || head->modified_s == 0 ||
        (head->modified_s > head->sent_s && head->modified_s - head->sent_s > LASTS_S)) {
        return AGELESS;
    }
    return head->sent_s > head->modified_s && head->sent_s - head->modified_s > LASTS_S ? EXPIRED
                                                                                        : HELD;
}

/* Looks for the marker. Returns KILN_OK; KILN_E_UNSUPPORTED: the server refuses to answer;
 * KILN_E_IO; KILN_E_UNAUTHENTICATED; KILN_E_NO_MEMORY. */
static kiln_status look(const kilni_remote_lease *lease, uint64_t deadline_ns, marker *ret_marker)
{
    kilni_http_request *request;
    const kilni_http_object object = look_of(lease, deadline_ns);
    kiln_status status = kilni_http_ask_object(lease->remote, &object, &request);
    if (status == KILN_OK) {
        status = kilni_http_status_of_body(lease->remote, request);
    }
    if (status == KILN_OK) {
        *ret_marker = is_own(lease, request) ? OWN : judge_age(&request->head);
    } else if (status == KILN_MISS) {
        *ret_marker = ABSENT;
        status = KILN_OK;
    } else if (status == KILN_E_DENIED) {
        status = KILN_E_UNSUPPORTED;
    }
    if (request) {
        kilni_call_release(&request->call);
    }
    return status;
}

/* Returns the status for an answer to a put. A server that keeps entries but refuses markers is
 * treated as a server without leases. */
static kiln_status status_of_put(kilni_remote *remote, bool must_be_new,
                                 const kilni_http_head *head)
{
    switch (head->status) {
    case 200:
    case 201:
    case 202:
    case 204:
        return KILN_OK;
    case 409: /* S3 refuses one of two simultaneous conditional puts */
    case 412:
        return must_be_new ? KILN_EXISTS : KILN_E_UNSUPPORTED;
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        return kilni_http_status_of(remote, head);
    default:
        return KILN_E_UNSUPPORTED;
    }
}

/* Puts the marker. Returns KILN_OK; KILN_EXISTS: @must_be_new is true, and the server already has a
 * marker; KILN_E_UNSUPPORTED: the server does not accept this put; KILN_E_IO; KILN_E_DENIED;
 * KILN_E_UNAUTHENTICATED; KILN_E_NO_MEMORY. */
static kiln_status put(const kilni_remote_lease *lease, bool must_be_new, uint64_t deadline_ns)
{
    kilni_http_request *request;
    const kilni_http_object object = put_of(lease, must_be_new, deadline_ns);
    kiln_status status = kilni_http_ask_object(lease->remote, &object, &request);
    if (status == KILN_OK) {
        status = status_of_put(lease->remote, must_be_new, &request->head);
    }
    if (request) {
        kilni_call_release(&request->call);
    }
    return status;
}

/* ---- taking ---- */

static unsigned conditions_of(const kilni_remote *remote)
{
    return atomic_load_explicit(&remote->conditions, memory_order_relaxed);
}

static void note_conditions(kilni_remote *remote, unsigned conditions)
{
    atomic_store_explicit(&remote->conditions, conditions, memory_order_relaxed);
}

/* Waits for long enough, and then checks that the marker that this process put is still there.
 * Returns KILN_OK: it is; KILN_BUSY: it is not; KILN_E_IO: the deadline is too near; other statuses
 * of look. */
static kiln_status settle(const kilni_remote_lease *lease, uint64_t slowest_ns,
                          uint64_t deadline_ns)
{
    uint64_t wait_ns = SETTLING_MAX_NS;
    marker found;
    if (slowest_ns < SETTLING_MAX_NS / SETTLING_FACTOR) {
        wait_ns = slowest_ns * SETTLING_FACTOR;
    }
    wait_ns = wait_ns > SETTLING_MIN_NS ? wait_ns : SETTLING_MIN_NS;
    if (kilni_clock_ns() + wait_ns > deadline_ns) {
        return KILN_E_IO;
    }
    kilni_sleep_ns(wait_ns);
    const kiln_status status = look(lease, deadline_ns, &found);
    return status == KILN_OK && found != OWN ? KILN_BUSY : status;
}

/* @looked_ns  how long the process took to find that there is no marker, or only an expired one */
static kiln_status put_and_settle(const kilni_remote_lease *lease, uint64_t looked_ns,
                                  uint64_t deadline_ns)
{
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status status = put(lease, false, deadline_ns);
    const uint64_t put_ns = kilni_clock_ns() - start_ns;
    return status == KILN_OK ? settle(lease, looked_ns > put_ns ? looked_ns : put_ns, deadline_ns)
                             : status;
}

/* Takes the lease with a conditional put. The first put of a process is repeated. If the server
 * accepts it again, the server ignores the condition. Returns KILN_OK; KILN_EXISTS;
 * KILN_E_UNSUPPORTED: the server ignores or refuses the condition; other statuses of put. */
static kiln_status put_new(const kilni_remote_lease *lease, uint64_t deadline_ns)
{
    const bool is_probe = conditions_of(lease->remote) == KILNI_HTTP_UNTRIED;
    kiln_status status = put(lease, true, deadline_ns);
    if (status == KILN_OK && is_probe) {
        status = put(lease, true, deadline_ns);
        status = status == KILN_OK ? KILN_E_UNSUPPORTED : status == KILN_EXISTS ? KILN_OK : status;
        if (status == KILN_OK) {
            note_conditions(lease->remote, KILNI_HTTP_HONOURED);
        }
    }
    if (status == KILN_E_UNSUPPORTED) {
        note_conditions(lease->remote, KILNI_HTTP_IGNORED);
    }
    return status;
}

/* Takes the lease if there was no marker a moment ago. If the server refuses the put because there
 * is a marker, but there is none, it does not honour the condition either. However, if the server
 * is known to honour the condition, a holder has just removed its marker. */
static kiln_status take_free(const kilni_remote_lease *lease, uint64_t looked_ns,
                             uint64_t deadline_ns)
{
    marker found = HELD;
    if (conditions_of(lease->remote) != KILNI_HTTP_IGNORED) {
        kiln_status status = put_new(lease, deadline_ns);
        if (status == KILN_EXISTS) {
            status = look(lease, deadline_ns, &found);
            if (status == KILN_OK && found != ABSENT) {
                return found == OWN ? KILN_OK : KILN_BUSY;
            }
            if (status == KILN_OK) {
                status = conditions_of(lease->remote) == KILNI_HTTP_HONOURED ? KILN_BUSY
                                                                             : KILN_E_UNSUPPORTED;
            }
        }
        if (status != KILN_E_UNSUPPORTED) {
            return status;
        }
    }
    return put_and_settle(lease, looked_ns, deadline_ns);
}

/* Looks at the marker, and then takes the lease if possible.
 *
 * @value_name  NULL: the caller has not waited */
static kiln_status take(const kilni_remote_lease *lease, const char *value_name,
                        uint64_t deadline_ns)
{
    marker found;
    const uint64_t start_ns = kilni_clock_ns();
    const kiln_status status = look(lease, deadline_ns, &found);
    const uint64_t looked_ns = kilni_clock_ns() - start_ns;
    if (status != KILN_OK) {
        return status;
    }
    switch (found) {
    case OWN:
        return KILN_OK;
    case HELD:
        return KILN_BUSY;
    case AGELESS:
        return KILN_E_UNSUPPORTED;
    case EXPIRED:
        return put_and_settle(lease, looked_ns, deadline_ns);
    case ABSENT:
        break;
    }
    if (value_name && kilni_http_contains(lease->remote, value_name, deadline_ns) == KILN_OK) {
        return KILN_EXISTS;
    }
    return take_free(lease, looked_ns, deadline_ns);
}

/* Takes the lease. If the server is known to honour conditions, and the caller has not waited, the
 * put is the first request. */
static kiln_status take_at_once(const kilni_remote_lease *lease, const char *value_name,
                                uint64_t deadline_ns)
{
    if (!value_name && conditions_of(lease->remote) == KILNI_HTTP_HONOURED) {
        const kiln_status status = put_new(lease, deadline_ns);
        if (status != KILN_EXISTS && status != KILN_E_UNSUPPORTED) {
            return status;
        }
    }
    return take(lease, value_name, deadline_ns);
}

/* ---- the I/O thread ---- */

static bool is_released(const kilni_remote_lease *lease)
{
    return atomic_load_explicit(&lease->is_released, memory_order_relaxed);
}

/* Called when no request is under way. */
static void end_renewal(kilni_remote_lease *lease)
{
    lease->is_renewing = false;
    if (lease->is_stopped) {
        kilni_call_finish(&lease->stopping);
    } else if (!lease->is_lost && !is_released(lease)) {
        kilni_timer_start(&lease->renewal, kilni_clock_ns() + RENEWED_EACH_NS);
    }
}

/* The text of each request is made anew, because S3 accepts a signature only for a quarter of an
 * hour, and a token can be replaced. */
static void send_object(kilni_remote_lease *lease, const kilni_http_object *object,
                        void (*arrived)(kilni_http_request *request))
{
    kilni_http_request *request;
    kiln_status status =
        kilni_http_client_prepare(lease->client, object->lane, object->deadline_ns, &request);
    if (status == KILN_OK) {
        status = kilni_http_append_object(lease->kind, lease->server, object, &request->text);
        if (status != KILN_OK) {
            kilni_call_release(&request->call);
        }
    }
    if (status != KILN_OK) {
        end_renewal(lease);
        return;
    }
    request->max_bytes = UINT64_MAX;
    request->kept_bytes = TOKEN_LENGTH + 1;
    request->arrived = arrived;
    request->user = lease;
    kilni_http_client_send(lease->client, request);
}

static void put_arrived(kilni_http_request *request)
{
    end_renewal(request->user);
}

/* If the server does not answer, the lease is not treated as lost, because the marker may still be
 * there at the next renewal. */
static void look_arrived(kilni_http_request *request)
{
    kilni_remote_lease *lease = request->user;
    const unsigned answer = request->status == KILN_OK ? request->head.status : 0;
    const bool has_own = answer == 200 && request->data && is_own(lease, request);
    lease->is_lost = (answer == 200 || answer == 404) && !has_own;
    if (has_own && !lease->is_stopped && !is_released(lease)) {
        const kilni_http_object object = put_of(lease, false, kilni_clock_ns() + RENEWAL_NS);
        send_object(lease, &object, put_arrived);
    } else {
        end_renewal(lease);
    }
}

/* First compares the token. If this process was stopped for a while, the lease may belong to a
 * different holder by now. */
static void renew(kilni_timer *timer)
{
    kilni_remote_lease *lease =
        (kilni_remote_lease *)((char *)timer - offsetof(kilni_remote_lease, renewal));
    if (!is_released(lease)) {
        const kilni_http_object object = look_of(lease, kilni_clock_ns() + RENEWAL_NS);
        lease->is_renewing = true;
        send_object(lease, &object, look_arrived);
    }
}

static void start(kilni_task *task)
{
    kilni_remote_lease *lease =
        (kilni_remote_lease *)((char *)task - offsetof(kilni_remote_lease, starting));
    kilni_timer_start(&lease->renewal, kilni_clock_ns() + RENEWED_EACH_NS);
}

/* The release waits for a put that is under way. Otherwise the put could arrive after the removal,
 * and the marker would remain. */
static void stop(kilni_task *task)
{
    kilni_remote_lease *lease = (kilni_remote_lease *)task;
    kilni_timer_stop(&lease->renewal);
    lease->is_stopped = true;
    if (!lease->is_renewing) {
        kilni_call_finish(&lease->stopping);
    }
}

/* ---- the interface ---- */

static kiln_status make(kilni_remote *remote, const char *name, kilni_remote_lease **ret_lease)
{
    kilni_remote_lease *lease = calloc(1, sizeof *lease);
    if (!lease || kilni_call_init(&lease->stopping, stop, destroy, 0) != KILN_OK) {
        free(lease);
        return KILN_E_NO_MEMORY;
    }
    lease->remote = remote;
    lease->client = remote->client;
    lease->server = remote->server;
    lease->kind = remote->kind;
    lease->process = kilni_loop_process();
    lease->starting.run = start;
    lease->renewal.expire = renew;
    const int length = snprintf(lease->name, sizeof lease->name, "%s.lease", name);
    if (length >= (int)sizeof lease->name || !kilni_token_make(lease->token)) {
        kilni_call_release(&lease->stopping);
        return KILN_E_UNSUPPORTED;
    }
    *ret_lease = lease;
    return KILN_OK;
}

/* Returns true if taking a lease is fast compared with the build. */
static bool is_worthwhile(const kilni_remote *remote, uint64_t build_ns)
{
    const uint64_t least_ns =
        conditions_of(remote) == KILNI_HTTP_IGNORED ? WORTH_SETTLING_NS : WORTH_A_REQUEST_NS;
    return build_ns == 0 || build_ns >= least_ns;
}

/* Returns true if the server has refused leases, or has refused puts, without which a lease is
 * useless. */
static bool is_refused(kilni_remote *remote)
{
    const uint64_t now_ns = kilni_clock_ns();
    return now_ns < atomic_load_explicit(&remote->next_lease_ns, memory_order_relaxed) ||
           now_ns < atomic_load_explicit(&remote->next_put_ns, memory_order_relaxed);
}

kiln_status kilni_http_lease_take(kilni_remote *remote, const char *name, uint64_t build_ns,
                                  bool has_waited, uint64_t deadline_ns,
                                  kilni_remote_lease **ret_lease)
{
    kilni_remote_lease *lease;
    if (!is_worthwhile(remote, build_ns) || is_refused(remote)) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = make(remote, name, &lease);
    if (status != KILN_OK) {
        return status;
    }
    status = take_at_once(lease, has_waited ? name : NULL, deadline_ns);
    if (status == KILN_E_UNSUPPORTED) {
        atomic_store_explicit(&remote->next_lease_ns, kilni_clock_ns() + REFUSED_FOR_NS,
                              memory_order_relaxed);
    }
    /* If the I/O thread does not get the task, the marker expires. */
    if (status == KILN_OK && kilni_loop_post(&lease->starting) != KILN_OK) {
        status = KILN_E_IO;
    }
    if (status != KILN_OK) {
        kilni_call_release(&lease->stopping);
        return status;
    }
    *ret_lease = lease;
    return KILN_OK;
}

/* Removes the marker if it belongs to this holder. Between the check and the removal, an expired
 * marker can be replaced by the marker of a different holder. That holder then loses its lease. */
static void remove_marker(const kilni_remote_lease *lease, uint64_t deadline_ns)
{
    marker found;
    kilni_http_request *request;
    if (look(lease, deadline_ns, &found) != KILN_OK || found != OWN) {
        return;
    }
    const kilni_http_object object = {.lane = KILNI_HTTP_LANE_LOOKUPS,
                                      .method = "DELETE",
                                      .name = lease->name,
                                      .deadline_ns = deadline_ns};
    kilni_http_ask_object(lease->remote, &object, &request);
    if (request) {
        kilni_call_release(&request->call);
    }
}

/* If a renewal does not end in time, the marker is not removed, and it expires later. The I/O
 * thread does not get the task if the application has closed the descriptors of this library. In
 * that case, that thread may still refer to the lease, so the lease is never freed. */
void kilni_http_lease_release(kilni_remote_lease *lease)
{
    if (lease->process != kilni_loop_process()) {
        destroy(&lease->stopping);
        return;
    }
    const uint64_t deadline_ns = kilni_clock_ns() + RELEASE_NS;
    lease->stopping.deadline_ns = deadline_ns;
    atomic_store_explicit(&lease->is_released, true, memory_order_relaxed);
    const kiln_status stopped = kilni_call_make(&lease->stopping);
    if (stopped == KILN_OK && !lease->is_lost) {
        remove_marker(lease, deadline_ns);
    }
    if (stopped != KILN_E_IO) {
        kilni_call_release(&lease->stopping);
    }
}
