/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "units.h"

#define INTERVAL_NS UINT64_C(100000000)
#define RATE_AFTER_NS UINT64_C(1000000000)

/* Only one thread uses these variables. */
static uint64_t done;
static uint64_t expected; /* 0: not known */
static uint64_t began_ns; /* the time of the first step; 0: there was none */
static uint64_t shown_ns; /* the time when the line was last written; 0: the line is not shown */

bool progress_is_shown(void)
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

/* Shows how many steps are done in a second, and how long the others take at this rate. */
static void show_rate(uint64_t elapsed_ns)
{
    const double rate = (double)done * 1e9 / (double)elapsed_ns;
    fprintf(stderr, ", %.*f/s", rate < 10 ? 1 : 0, rate);
    if (done < expected) {
        char left[UNIT_TEXT_SIZE];
        const double left_s = (double)(expected - done) / rate;
        fprintf(stderr, ", %s left", format_duration((uint64_t)(left_s * 1e9), left));
    }
}

/* If there are more steps than expected, the bar is full. */
static void show(const char *what, uint64_t elapsed_ns)
{
    static const char marks[] = "########################";
    const uint64_t width = sizeof marks - 1;
    const uint64_t filled =
        done < expected ? (uint64_t)((double)done / (double)expected * (double)width) : width;
    if (expected == 0) {
        fprintf(stderr, "\r%" PRIu64 " %s", done, what);
    } else {
        fprintf(stderr, "\r[%-*.*s] %" PRIu64 " of %" PRIu64 " %s", (int)width, (int)filled, marks,
                done, expected, what);
    }
    if (elapsed_ns >= RATE_AFTER_NS) {
        show_rate(elapsed_ns);
    }
    fputs("\x1b[K", stderr);
}

void progress_step(const char *what)
{
    done++;
    if (!progress_is_shown()) {
        return;
    }
    const uint64_t now = now_ns();
    began_ns = began_ns == 0 ? now : began_ns;
    if (shown_ns == 0 || now - shown_ns >= INTERVAL_NS) {
        show(what, now - began_ns);
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
    done = began_ns = 0;
}
