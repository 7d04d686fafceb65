/* SPDX-License-Identifier: Apache-2.0 */
#include "constant/constants.h"

#include <stdlib.h>

static kilni_constants constants = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool sees_forks;

/* Of the handlers below: where a process forks while they are being registered, its child registers
 * them again. */
static _Thread_local unsigned fork_depth;

static void before_fork(void)
{
    if (fork_depth++ == 0) {
        pthread_mutex_lock(&constants.lock);
    }
}

static void after_fork(void)
{
    if (--fork_depth == 0) {
        pthread_mutex_unlock(&constants.lock);
    }
}

static void begin(void)
{
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        constants.kinds[i] =
            (kilni_constant_limits){.capacity_mib = KILN_UNLIMITED, .policy = KILN_POLICY_NO_EVICT};
    }
    kilni_constant_environment_read(secure_getenv(KILNI_CONSTANT_VARIABLE), constants.kinds,
                                    &constants.complaints);
    sees_forks = pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

kilni_constants *kilni_constants_get(void)
{
    pthread_once(&once, begin);
    return sees_forks ? &constants : NULL;
}
