/* SPDX-License-Identifier: Apache-2.0 */
#include "cancellation_guard.h"

#include <pthread.h>

void run_without_cancellation(void (*work)(void *user), void *user)
{
    int state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    work(user);
    pthread_setcancelstate(state, &state);
}
