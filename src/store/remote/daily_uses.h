/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entries of a server were used today (UTC), so that each use is reported to it at most once
 * a day. The processes of a machine share this in a small file. Each entry has one bit, which it
 * shares with other entries, and with different ones each day. So a report may be missing on one
 * day, but hardly on the days after it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

#define KILNI_DAILY_USES_WORDS 254u

/* Zeroed, it has no uses. The bits are only hints: a use may be reported twice if two threads or
 * processes report it at the same time. So every access is relaxed. */
typedef struct kilni_daily_uses {
    char *file; /* the absolute path; NULL: the uses of other processes are not known. Constant */
    _Atomic uint64_t day;
    _Atomic uint64_t words[KILNI_DAILY_USES_WORDS]; /* of the uses that this process knows of */
} kilni_daily_uses;

/* Whether this process knows of a use today. Does not read the file. */
bool kilni_daily_uses_has(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s);

/* Records the use in this process. Returns whether the caller has to report it, because neither
 * this process nor the file knows of it. */
bool kilni_daily_uses_claim(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s);

/* Records in the file that the use was reported. */
void kilni_daily_uses_note(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s);
