/* SPDX-License-Identifier: Apache-2.0 */
#include "units.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

char *format_size(uint64_t bytes, char *text)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " B", bytes);
        return text;
    }
    double amount = (double)bytes / 1024;
    size_t unit = 0;
    while (amount >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]) {
        amount /= 1024;
        unit++;
    }
    snprintf(text, UNIT_TEXT_SIZE, amount < 9.95 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return text;
}

/* Writes three significant digits. */
static void format_amount(double amount, const char *unit, char *text)
{
    int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
    snprintf(text, UNIT_TEXT_SIZE, "%.*f %s", decimals, amount, unit);
}

char *format_duration(uint64_t nanoseconds, char *text)
{
    if (nanoseconds < 1000) {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " ns", nanoseconds);
        return text;
    }
    double seconds = (double)nanoseconds / 1e9;
    uint64_t whole_s = (nanoseconds + 500000000) / 1000000000;
    if (seconds < 0.9995e-3) {
        format_amount(seconds * 1e6, "us", text);
    } else if (seconds < 0.9995) {
        format_amount(seconds * 1e3, "ms", text);
    } else if (whole_s < 60) {
        format_amount(seconds, "s", text);
    } else if (whole_s < 3600) {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " min %" PRIu64 " s", whole_s / 60, whole_s % 60);
    } else {
        snprintf(text, UNIT_TEXT_SIZE, "%" PRIu64 " h %" PRIu64 " min", whole_s / 3600,
                 whole_s % 3600 / 60);
    }
    return text;
}

char *format_time(int64_t unix_s, char *text)
{
    time_t moment = (time_t)unix_s;
    struct tm local;
    if (localtime_r(&moment, &local) == NULL ||
        strftime(text, UNIT_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0) {
        snprintf(text, UNIT_TEXT_SIZE, "-");
    }
    return text;
}
