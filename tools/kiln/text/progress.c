/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_NS UINT64_C(100000000)

/* Only one thread uses these variables. */
static uint64_t done;
static uint64_t expected; /* 0: not known */
static uint64_t shown_ns; /* the time when the line was last written; 0: the line is not shown */

static bool is_wanted(void)
{
    static int wanted = -1;
    if (wanted < 0) {
        const char *terminal = getenv("TERM");
        wanted = isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
    }
    return wanted;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void progress_expect(uint64_t steps)
{
    expected = steps;
}

/* If there are more steps than expected, the bar is full. */
static void show(const char *what)
{
    static const char marks[] = "########################";
    const uint64_t width = sizeof marks - 1;
    if (expected == 0) {
        fprintf(stderr, "\r%" PRIu64 " %s\x1b[K", done, what);
        return;
    }
    const uint64_t filled =
        done < expected ? (uint64_t)((double)done / (double)expected * (double)width) : width;
    fprintf(stderr, "\r[%-*.*s] %" PRIu64 " of %" PRIu64 " %s\x1b[K", (int)width, (int)filled,
            marks, done, expected, what);
}

void progress_step(const char *what)
{
    done++;
    if (!is_wanted()) {
        return;
    }
    uint64_t now = now_ns();
    if (shown_ns == 0 || now - shown_ns >= INTERVAL_NS) {
        show(what);
        shown_ns = now;
    }
}

void progress_hide(void)
{
    if (shown_ns != 0) {
        fputs("\r\x1b[K", stderr);
        shown_ns = 0;
    }
}

void progress_end(void)
{
    progress_hide();
    done = expected = 0;
}
