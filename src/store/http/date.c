/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/date.h"

#include <string.h>

#define S_PER_DAY 86400u

/* The forms of a date: '0' stands for a digit, 'A' for a letter. */
static const char form[] = "AAA, 00 AAA 0000 00:00:00 GMT";
static const char iso_form[] = "0000-00-00T00:00:00";

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static bool has_form(const char *text, const char *wanted)
{
    for (size_t i = 0; wanted[i] != '\0'; i++) {
        const char c = text[i];
        const bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        const bool fits = wanted[i] == '0'   ? c >= '0' && c <= '9'
                          : wanted[i] == 'A' ? is_letter
                                             : c == wanted[i];
        if (!fits) {
            return false;
        }
    }
    return true;
}

static unsigned number_at(const char *digits, size_t count)
{
    unsigned number = 0;
    for (size_t i = 0; i < count; i++) {
        number = 10 * number + (unsigned)(digits[i] - '0');
    }
    return number;
}

/* Returns 0 for January, and 12 for a text that is no month. */
static unsigned month_at(const char *name)
{
    unsigned month = 0;
    while (month < 12 && memcmp(name, months + (size_t)3 * month, 3) != 0) {
        month++;
    }
    return month;
}

static bool is_leap(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static unsigned days_of(unsigned month, unsigned year)
{
    static const unsigned char days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && is_leap(year));
}

static uint64_t days_before(unsigned month, unsigned year)
{
    const unsigned last = year - 1;
    uint64_t days = (uint64_t)365 * (year - 1970) + (last / 4 - last / 100 + last / 400) -
                    (1969 / 4 - 1969 / 100 + 1969 / 400);
    for (unsigned i = 0; i < month; i++) {
        days += days_of(i, year);
    }
    return days;
}

/* @time  points to "HH:MM:SS" */
static bool read_time(unsigned year, unsigned month, unsigned day, const char *time,
                      uint64_t *ret_time_s)
{
    const unsigned hour = number_at(time, 2), minute = number_at(time + 3, 2);
    const unsigned second = number_at(time + 6, 2);
    if (month >= 12 || year < 1970 || day == 0 || day > days_of(month, year) || hour > 23 ||
        minute > 59 || second > 60) {
        return false;
    }
    *ret_time_s =
        (days_before(month, year) + day - 1) * S_PER_DAY + hour * 3600u + minute * 60u + second;
    return true;
}

bool kilni_http_date_read(const char *text, size_t size, uint64_t *ret_time_s)
{
    return size == sizeof form - 1 && has_form(text, form) &&
           read_time(number_at(text + 12, 4), month_at(text + 8), number_at(text + 5, 2), text + 17,
                     ret_time_s);
}

bool kilni_http_date_read_iso(const char *text, size_t size, uint64_t *ret_time_s)
{
    return size >= sizeof iso_form && text[size - 1] == 'Z' && has_form(text, iso_form) &&
           read_time(number_at(text, 4), number_at(text + 5, 2) - 1, number_at(text + 8, 2),
                     text + 11, ret_time_s);
}
