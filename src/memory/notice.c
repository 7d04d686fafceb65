/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/notice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Guards the list of notices. The fork handlers take this lock, so that no other thread can hold it
 * when the process forks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Notices to be sent, oldest first. */
static kilni_notice *first_notice, **last_notice = &first_notice;

/* True if there are any notices. Stored under the lock. Loaded relaxed, because the thread that
 * added a notice sees its own store, and sends the notice. */
static _Atomic bool has_notices;

void kilni_notices_lock(void)
{
    pthread_mutex_lock(&lock);
}

void kilni_notices_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void kilni_notice_add(kilni_notice **notice)
{
    if (!*notice) {
        return;
    }
    kilni_notices_lock();
    *last_notice = *notice;
    last_notice = &(*notice)->next;
    atomic_store_explicit(&has_notices, true, memory_order_relaxed);
    kilni_notices_unlock();
    *notice = NULL;
}

static kilni_notice *take_notice(void)
{
    kilni_notices_lock();
    kilni_notice *notice = first_notice;
    if (notice) {
        first_notice = notice->next;
        if (!first_notice) {
            last_notice = &first_notice;
            atomic_store_explicit(&has_notices, false, memory_order_relaxed);
        }
    }
    kilni_notices_unlock();
    return notice;
}

void kilni_notices_send(void)
{
    while (atomic_load_explicit(&has_notices, memory_order_relaxed)) {
        kilni_notice *notice = take_notice();
        if (!notice) {
            break;
        }
        const kilni_notice sent = *notice;
        free(notice);
        sent.call(sent.user);
    }
}
