/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/leftover.h"

#include <fcntl.h>

#include "os/clock.h"
#include "store/lock.h"

#define LEFTOVER_AGE_S 3600
#define DAY_S 86400

/* Returns true if a time is recent. A time that is more than a day in the future comes from a wrong
 * clock, and is not recent. */
static bool is_recent(int64_t now_s, int64_t time_s)
{
    return now_s - time_s < LEFTOVER_AGE_S && time_s - now_s <= DAY_S;
}

static bool is_old(const kilni_dir_found *found)
{
    const int64_t now_s = kilni_clock_unix_s();
    if (is_recent(now_s, found->stat.st_mtim.tv_sec)) {
        return false;
    }
    /* A file that is set aside keeps its mtime, which is the time of its last use. Its ctime is the
     * time at which it was set aside. If that time is recent, the file might be set aside only for
     * a moment. */
    return !kilni_dir_is_aside_name(found->name) || !is_recent(now_s, found->stat.st_ctim.tv_sec);
}

bool kilni_dir_is_leftover(const kilni_dir_found *found)
{
    if (!is_old(found)) {
        return false;
    }
    kilni_lock lock;
    if (kilni_lock_open_briefly(found->directory, found->name, O_RDONLY, &lock, NULL) != KILN_OK) {
        return false;
    }
    kiln_status status = kilni_lock_take(&lock, F_RDLCK, 0, 0, 0);
    kilni_lock_close(&lock);
    return status == KILN_OK || status == KILN_E_UNSUPPORTED;
}
