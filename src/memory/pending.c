/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions on pending answers. They wait for an answer, request a notice of it, or drop
 * it.
 */
#include <stdlib.h>

#include "base/error.h"
#include "memory/lifetime.h"
#include "memory/notice.h"
#include "memory/pin.h"
#include "memory/reader.h"
#include "memory/waiter.h"

static void pending_free(kiln_pending *pending)
{
    kiln_key_release(&pending->key);
    kilni_cache_release(pending->cache);
    free(pending->waiter.notice);
    free(pending);
}

/* Returns the answer that a pending answer has got. KILN_BUSY means that the caller must ask again.
 */
static kiln_status answer_of_locked(const kiln_pending *pending, kiln_reservation *ret_reservation,
                                    kiln_error *error)
{
    const kilni_waiter *waiter = &pending->waiter;
    if (waiter->status != KILN_OK) {
        return waiter->status == KILN_BUSY
                   ? KILN_BUSY
                   : kilni_error_set(error, waiter->status, 0, "%s", pending->error.text);
    }
    *ret_reservation = waiter->reservation;
    if (ret_reservation->outcome == KILN_HIT) {
        kilni_object_hold(ret_reservation->pin);
    } else {
        pending->cache->bypasses++;
    }
    return KILN_OK;
}

kiln_status kiln_pending_wait(kiln_pending *pending, uint64_t wait_ns,
                              kiln_reservation *ret_reservation, kiln_error *error)
{
    if (!pending || !ret_reservation) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the pending answer or the result pointer is NULL");
    }
    if (!kilni_reader_ensure()) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "%s",
                               kiln_status_text(KILN_E_NO_MEMORY));
    }
    kiln_reserve_params params = pending->params;
    params.wait_ns = wait_ns;
    kilni_cache_lock(pending->cache);
    const kiln_status status =
        pending->waiter.flight
            ? kilni_wait_locked(pending->waiter.flight, &params, ret_reservation, error)
            : answer_of_locked(pending, ret_reservation, error);
    pthread_mutex_unlock(&pending->cache->lock);
    if (status == KILN_BUSY) {
        return kiln_cache_reserve(pending->cache, pending->key, &params, ret_reservation, error);
    }
    if (status == KILN_OK && ret_reservation->outcome == KILN_HIT) {
        kilni_object_note_hit(ret_reservation->pin);
    }
    return status;
}

kiln_status kiln_pending_notify(kiln_pending *pending, kiln_pending_fn notify, void *user)
{
    if (!pending || !notify) {
        return KILN_E_INVALID;
    }
    kilni_notice *notice = malloc(sizeof *notice);
    if (!notice) {
        return KILN_E_NO_MEMORY;
    }
    *notice = (kilni_notice){.call = notify, .user = user};
    kilni_cache_lock(pending->cache);
    const bool is_second = pending->waiter.notice;
    const bool is_answered = !pending->waiter.flight;
    if (!is_second && !is_answered) {
        pending->waiter.notice = notice;
        notice = NULL;
    }
    pthread_mutex_unlock(&pending->cache->lock);
    free(notice);
    if (is_second) {
        return KILN_E_INVALID;
    }
    if (is_answered) {
        notify(user);
    }
    return KILN_OK;
}

void kiln_pending_drop(kiln_pending **pending)
{
    if (!pending || !*pending) {
        return;
    }
    kiln_pending *dropped = *pending;
    *pending = NULL;
    kilni_cache_lock(dropped->cache);
    if (dropped->waiter.flight) {
        kilni_pending_detach_locked(dropped);
    }
    pthread_mutex_unlock(&dropped->cache->lock);
    kilni_notice *notice = dropped->waiter.notice;
    if (notice) {
        notice->call(notice->user);
    }
    if (dropped->waiter.status == KILN_OK) {
        kiln_pin_release(&dropped->waiter.reservation.pin);
    }
    pending_free(dropped);
}
