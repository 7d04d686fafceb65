/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/daily_uses.h"

#include <fcntl.h>
#include <string.h>

#include "store/counter_file.h"

#define S_PER_DAY 86400

_Static_assert(KILNI_DAILY_USES_WORDS < KILNI_COUNTERS_MAX, "a file has room for the day, too");

/* The place of an entry's bit on a given day. */
typedef struct bit_place {
    uint64_t day, mask;
    unsigned word;
} bit_place;

static bit_place place_of(const kiln_digest *digest, int64_t now_s)
{
    const uint64_t day = now_s > 0 ? (uint64_t)now_s / S_PER_DAY : 0;
    uint64_t number;
    memcpy(&number, digest->bytes, sizeof number);
    number = (number ^ (day * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9);
    const uint64_t bit = (number >> 32) % (UINT64_C(64) * KILNI_DAILY_USES_WORDS);
    return (bit_place){.day = day, .mask = UINT64_C(1) << (bit % 64), .word = (unsigned)(bit / 64)};
}

/* ---- in this process ---- */

static void begin_day(kilni_daily_uses *uses, uint64_t day)
{
    if (atomic_exchange_explicit(&uses->day, day, memory_order_relaxed) == day) {
        return;
    }
    for (unsigned i = 0; i < KILNI_DAILY_USES_WORDS; i++) {
        atomic_store_explicit(&uses->words[i], 0, memory_order_relaxed);
    }
}

bool kilni_daily_uses_has(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s)
{
    const bit_place place = place_of(digest, now_s);
    return atomic_load_explicit(&uses->day, memory_order_relaxed) == place.day &&
           (atomic_load_explicit(&uses->words[place.word], memory_order_relaxed) & place.mask) != 0;
}

/* ---- the file: the day, and then the words ---- */

static bool file_has(const kilni_daily_uses *uses, const bit_place *place)
{
    kilni_counters counters;
    return uses->file && kilni_counter_file_read(AT_FDCWD, uses->file, &counters) == KILN_OK &&
           counters.values[0] == place->day &&
           (counters.values[1 + place->word] & place->mask) != 0;
}

static void add_use(void *user, kilni_counters *counters)
{
    const bit_place *place = user;
    if (counters->count < 1 + KILNI_DAILY_USES_WORDS) {
        counters->count = 1 + KILNI_DAILY_USES_WORDS;
    }
    if (counters->values[0] != place->day) {
        memset(counters->values, 0, sizeof counters->values);
        counters->values[0] = place->day;
    }
    counters->values[1 + place->word] |= place->mask;
}

bool kilni_daily_uses_claim(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s)
{
    const bit_place place = place_of(digest, now_s);
    begin_day(uses, place.day);
    const uint64_t before =
        atomic_fetch_or_explicit(&uses->words[place.word], place.mask, memory_order_relaxed);
    return (before & place.mask) == 0 && !file_has(uses, &place);
}

void kilni_daily_uses_note(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s)
{
    bit_place place = place_of(digest, now_s);
    if (uses->file) {
        kilni_counter_file_change(AT_FDCWD, uses->file, add_use, &place);
    }
}
