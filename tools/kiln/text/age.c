/* SPDX-License-Identifier: Apache-2.0 */
#include "age.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 9

bool age_parse(const char *text, uint64_t *ret_seconds)
{
    static const struct {
        const char *suffix;
        uint64_t seconds;
    } units[] = {{"", 86400}, {"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const size_t digits = strspn(text, "0123456789");
    const uint64_t number = digits > 0 && digits <= DIGITS_MAX ? strtoull(text, NULL, 10) : 0;
    for (size_t i = 0; number > 0 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].suffix) == 0) {
            *ret_seconds = number * units[i].seconds;
            return true;
        }
    }
    return false;
}
