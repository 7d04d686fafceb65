/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the time of an entry's last use, which is the mtime of the entry's file.
 */
#include "os/clock.h"
#include "os/os.h"
#include "store/dir/dir.h"

#define S_PER_DAY 86400

bool kilni_dir_record_use(const kilni_dir *dir, int file, const struct stat *stat)
{
    if (kilni_dir_is_readonly(dir)) {
        return false;
    }
    const int64_t now_s = kilni_clock_unix_s();
    int64_t age_s = now_s - stat->st_mtim.tv_sec;
    if (age_s >= 0 && age_s < dir->store.options.use_interval_s) {
        return false;
    }
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    return kilni_os()->futimens(file, times) == 0 &&
           now_s / S_PER_DAY != stat->st_mtim.tv_sec / S_PER_DAY;
}
