/* SPDX-License-Identifier: Apache-2.0
 *
 * Records which entries of a server were used today (UTC), so that each use is reported to the
 * server at most once a day. The processes of a machine share this record in a small file. Each
 * entry has one bit. Other entries share this bit, but different entries each day. So if a report
 * is missing on one day, it will hardly be missing on the days after it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

#define KILNI_DAILY_USES_WORDS 254u

/* A zeroed struct records no uses. The bits are only hints: if two threads or processes report a
 * use at the same time, it is reported twice. So every access is relaxed. */
typedef struct kilni_daily_uses {
    char *file; /* an absolute path; NULL: other processes are ignored. Constant */
    _Atomic uint64_t day;
    _Atomic uint64_t words[KILNI_DAILY_USES_WORDS]; /* the uses known to this process */
} kilni_daily_uses;

/* Returns true if this process knows that the entry was used today. Does not read the file. */
bool kilni_daily_uses_has(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s);

/* Records the use in this process. Returns true if the caller must report it to the server, because
 * neither this process nor the file has recorded it. */
bool kilni_daily_uses_claim(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s);

/* Records in the file that the use was reported to the server. */
void kilni_daily_uses_note(kilni_daily_uses *uses, const kiln_digest *digest, int64_t now_s);
