/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/fence.h"

#include <linux/membarrier.h>

#include "memory/reader.h"
#include "os/os.h"

#ifdef KILNI_FENCE_IS_COUNTED

_Atomic unsigned kilni_fence_word;

bool kilni_fence_ask(void)
{
    return false;
}

void kilni_fence_switch(bool asymmetric)
{
    (void)asymmetric;
}

bool kilni_fence_system(void)
{
    return false;
}

void kilni_fence_heavy(void)
{
    kilni_fence_light(false);
}

#else

/* This many ordinary fences cost a thread about as much as asking the system. */
enum { MANY_FENCES = 1 << 20 };

_Atomic unsigned kilni_fence_state_word;

bool kilni_fence_ask(void)
{
    const int needed = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    int granted = kilni_os()->membarrier(MEMBARRIER_CMD_QUERY);
    return granted >= 0 && (granted & needed) == needed &&
           kilni_os()->membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

void kilni_fence_switch(bool asymmetric)
{
    unsigned next = (kilni_fence_state() | 1) + 1;
    atomic_store_explicit(&kilni_fence_state_word, next | asymmetric, memory_order_release);
}

void kilni_fence_heavy(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

bool kilni_fence_system(void)
{
    return kilni_os()->membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

void kilni_fence_ordinary(void)
{
    static _Thread_local unsigned passed __attribute__((tls_model("initial-exec")));
    kilni_reader_acknowledge_fences();
    atomic_thread_fence(memory_order_seq_cst);
    if (++passed % MANY_FENCES == 0) {
        kilni_reader_improve_fences();
    }
}

#endif
