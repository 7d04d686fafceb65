/* SPDX-License-Identifier: Apache-2.0 */
#include "face.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;

void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void stay_on_this_processor(void)
{
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET((unsigned)sched_getcpu(), &processors);
    sched_setaffinity(0, sizeof processors, &processors);
}

void measure_faces(const face *faces, size_t face_count, int rounds)
{
    stay_on_this_processor();
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < face_count; i++) {
            const face *f = &faces[i];
            sink = f->run(f->user, f->count / 10 + 1);
            double begin = now_ns();
            sink = f->run(f->user, f->count);
            printf("%s\t%.4f\n", f->name, (now_ns() - begin) / (double)f->count);
        }
    }
}
