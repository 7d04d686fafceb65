/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the time of an entry's last use, which is the mtime of the entry's file.
 */
#include "os/clock.h"
#include "os/os.h"
#include "store/dir/dir.h"

void kilni_dir_record_use(const kilni_dir *dir, int file, const struct stat *stat)
{
    if (kilni_dir_is_readonly(dir)) {
        return;
    }
    int64_t age_s = kilni_clock_unix_s() - stat->st_mtim.tv_sec;
    if (age_s >= 0 && age_s < dir->store.options.use_interval_s) {
        return;
    }
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    kilni_os()->futimens(file, times);
}
