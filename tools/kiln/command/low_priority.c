/* SPDX-License-Identifier: Apache-2.0 */
#include "low_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void low_priority_set(void)
{
    enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_CLASS_IDLE = 3, IOPRIO_CLASS_SHIFT = 13 };
    const struct sched_param parameters = {0};
    const struct rlimit no_core_file = {0};
    if (nice(19) == -1 || sched_setscheduler(0, SCHED_IDLE, &parameters) != 0) {
        /* A failure is not fatal: this process then runs at a higher priority. */
    }
    setrlimit(RLIMIT_CORE, &no_core_file);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT);
}
