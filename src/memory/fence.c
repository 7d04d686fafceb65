/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/fence.h"

#include <linux/membarrier.h>
#include <sys/single_threaded.h>

#include "os/os.h"

#ifdef KILNI_FENCE_IS_COUNTED

_Atomic unsigned kilni_fence_word;

void kilni_fence_choose(void)
{
}

bool kilni_fence_heavy(void)
{
    kilni_fence_light();
    return true;
}

#else

bool kilni_fence_is_asymmetric;

/* Registering waits for all processors where there are other threads already, some 10 ms: a program
 * that is on its way to its first results is not to be held up for look-ups that it may never make.
 */
void kilni_fence_choose(void)
{
    const int needed = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    int granted = __libc_single_threaded ? kilni_os()->membarrier(MEMBARRIER_CMD_QUERY) : 0;
    kilni_fence_is_asymmetric =
        granted >= 0 && (granted & needed) == needed &&
        kilni_os()->membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

bool kilni_fence_heavy(void)
{
    if (!kilni_fence_is_asymmetric) {
        atomic_thread_fence(memory_order_seq_cst);
        return true;
    }
    return kilni_os()->membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

#endif
