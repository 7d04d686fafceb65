/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when a store is trimmed, and saves the state of a trim between its slices. The state is
 * in a folder inside the store. A lock ensures that only one process at a time does a slice. If a
 * caller waits for a trim, the whole trim is done in one go, and its state is kept in memory.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>

#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"
#include "store/dir/janitor.h"
#include "store/lock.h"

#define FOLDER_NAME "janitor"
#define FOLDER KILNI_DIR_VERSION "/" FOLDER_NAME
#define JOB "job" /* the progress of the present trim */
/* The last complete summary. Its mtime is the time at which the last survey ended. If that survey
 * wrote no summary, it is the time at which the survey began. */
#define SUMMARY "summary"
#define NEXT "next"   /* the summary that is being written */
#define STUCK "stuck" /* the store's size after the last trim, if it was above the limit */

#define SLICE_NS 4000000u /* the last step of a slice can exceed this */
#define TIME_AT_CLOSE_NS 50000000u
#define DAY_S 86400
#define HOUR_S 3600
/* The larger a put is in relation to the store's limit, the more slices it does. So a trim is
 * complete before the store exceeds its limit by much. */
#define PUTS_OF_A_SLICE 8192u
#define SLICES_OF_A_PUT 64u
/* The clocks of two machines are allowed to differ by this much. */
#define CLOCK_ERROR_S 60u

/* ---- how much is removed ---- */

static uint64_t limit_of(const kilni_dir *dir)
{
    const kilni_store_options *options = &dir->store.options;
    /* A store with a limit of zero accepts no new entries. Its old entries are removed only on
     * request. */
    return options->max_bytes == 0 || options->policy == KILN_POLICY_NO_EVICT ? KILN_UNLIMITED
                                                                              : options->max_bytes;
}

static kilni_dir_job new_job(const kilni_dir *dir, uint64_t limit, uint64_t target)
{
    const kilni_store_options *options = &dir->store.options;
    return (kilni_dir_job){
        .limit = limit,
        .target = target,
        .policy = options->policy,
        .now_s = (uint64_t)kilni_clock_unix_s(),
        .resolution_s = (uint64_t)options->use_interval_s + CLOCK_ERROR_S,
        .max_age_s = options->max_age_s,
    };
}

/* ---- files ---- */

/* Opens the folder of the trim's files. Returns -1 if it does not exist or is not trusted. */
static int open_folder_there(const kilni_dir *dir)
{
    int folder;
    return kilni_dir_open_folder(dir, FOLDER, O_RDONLY, &folder) == KILN_OK ? folder : -1;
}

static int open_folder(const kilni_dir *dir)
{
    int folder = open_folder_there(dir), version;
    if (folder >= 0) {
        return folder;
    }
    kilni_dir_make_directory(kilni_dir_root(dir), KILNI_DIR_VERSION);
    if (kilni_dir_open_folder(dir, KILNI_DIR_VERSION, O_PATH, &version) != KILN_OK) {
        return -1;
    }
    kilni_dir_make_directory(version, FOLDER_NAME);
    kilni_os()->close(version);
    return open_folder_there(dir);
}

/* Opens a file. It must be a regular file that belongs to this user, and nobody else is allowed to
 * write it. Otherwise returns -1. */
static int open_own(const kilni_dir *dir, int folder, const char *name, int flags)
{
    const int file = kilni_file_open_or_make(folder, name, flags);
    struct stat stat;
    if (file >= 0 && (kilni_os()->fstat(file, &stat) != 0 ||
                      !kilni_is_trusted(&stat, S_IFREG, dir->user, false))) {
        kilni_os()->close(file);
        return -1;
    }
    return file;
}

static void open_hints(kilni_janitor *janitor, int folder)
{
    janitor->hints.file = open_own(janitor->dir, folder, SUMMARY, O_RDONLY);
}

/* ---- entries that cannot be removed ---- */

/* Entries of a newer format and files of other users are not removed. If these alone exceed the
 * store's limit, no trim can bring the store below the limit, and each put would begin a new trim.
 * So a trim that leaves the store above the limit writes the store's size to a file. The file's
 * mtime is the time of the trim. */
static void note_outcome(const kilni_dir *dir, const kilni_dir_job *job)
{
    int folder = open_folder_there(dir);
    if (folder < 0) {
        return;
    }
    if (job->bytes > limit_of(dir)) {
        int file = open_own(dir, folder, STUCK, O_RDWR | O_CREAT);
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        const uint64_t left = htole64(job->bytes);
        if (file >= 0 && kilni_file_write_at(file, &left, sizeof left, 0) == KILN_OK) {
            kilni_os()->futimens(file, times);
        }
        kilni_file_close(&file);
    } else {
        kilni_os()->unlinkat(folder, STUCK, 0);
    }
    kilni_file_close(&folder);
}

/* Reads the size that the last trim has left. Returns false if that trim brought the store below
 * its limit, or was more than an hour ago. */
static bool read_outcome(const kilni_dir *dir, uint64_t *ret_left)
{
    int folder = open_folder_there(dir);
    int file = folder < 0 ? -1 : open_own(dir, folder, STUCK, O_RDONLY);
    struct stat stat;
    uint64_t left = 0;
    size_t count = 0;
    bool is_known = file >= 0 && kilni_os()->fstat(file, &stat) == 0 &&
                    kilni_file_read_at(file, &left, sizeof left, 0, &count) == KILN_OK &&
                    count == sizeof left;
    if (is_known) {
        const int64_t age_s = kilni_clock_unix_s() - stat.st_mtim.tv_sec;
        is_known = age_s >= -1 && age_s < HOUR_S;
        *ret_left = le64toh(left);
    }
    kilni_file_close(&file);
    kilni_file_close(&folder);
    return is_known;
}

/* Returns true if a new trim would be useless. It would be if the last trim was less than an hour
 * ago and left the store above its limit, and the store has since grown by less than its limit. */
static bool is_stuck(kilni_dir *dir)
{
    uint64_t left;
    kiln_store_stat stat;
    return read_outcome(dir, &left) && kilni_dir_known_stat(&dir->store, &stat) == KILN_OK &&
           (stat.bytes <= left || stat.bytes - left < limit_of(dir));
}

/* ---- in one go ---- */

/* Does a whole trim. @flags are KILN_TRIM_…; the job does not contain them. */
static kiln_status work_at_once(kilni_dir *dir, const kilni_dir_job *job, uint32_t flags,
                                kiln_trim_report *ret_report)
{
    const bool is_dry = flags & KILN_TRIM_DRY_RUN;
    kilni_janitor janitor;
    kilni_janitor_init(&janitor, dir);
    janitor.job = *job;
    janitor.is_dry = is_dry;
    janitor.takes_newer = flags & KILN_TRIM_NEWER;
    int folder = open_folder_there(dir);
    if (folder >= 0) {
        open_hints(&janitor, folder);
    }
    while (janitor.status == KILN_OK && janitor.job.phase != KILNI_DIR_DONE) {
        kilni_janitor_run(&janitor);
    }
    kilni_janitor_flush_removed(&janitor);
    if (folder >= 0 && !is_dry) {
        /* If a trim in slices is in progress, its counts are no longer true. */
        kilni_os()->unlinkat(folder, JOB, 0);
    }
    *ret_report = (kiln_trim_report){
        .removed = janitor.job.removed,
        .removed_bytes = janitor.job.removed_bytes + janitor.job.leftover_bytes,
        .entries = janitor.job.entries,
        .bytes = janitor.job.bytes,
    };
    const kiln_status status = janitor.status != KILN_OK ? janitor.status : janitor.first_failure;
    if (status == KILN_OK && !is_dry) {
        note_outcome(dir, &janitor.job);
    }
    kilni_file_close(&janitor.hints.file);
    kilni_file_close(&folder);
    kilni_janitor_done(&janitor);
    return status;
}

/* ---- in slices ---- */

typedef struct sliced_trim {
    kilni_janitor janitor;
    int folder, job_file;
} sliced_trim;

/* Returns true if a job that was loaded can be continued. */
static bool is_valid_job(const kilni_dir_job *job)
{
    const int64_t age_s = kilni_clock_unix_s() - (int64_t)job->now_s;
    return job->phase < KILNI_DIR_DONE && job->shard < KILNI_DIR_SHARD_COUNT &&
           job->digits < KILNI_DIR_RANK_DIGITS + (job->phase == KILNI_DIR_SWEEP) && age_s >= 0 &&
           age_s < DAY_S;
}

/* Opens the summaries that the job needs. During the survey, the new summary is written. If a
 * process was killed during a slice, the file of the new summary can be longer than the job says.
 * After the survey, the new summary has replaced the last one and is only read. */
static bool open_summaries(sliced_trim *trim)
{
    kilni_janitor *janitor = &trim->janitor;
    const bool is_written = janitor->job.phase == KILNI_DIR_SURVEY;
    struct stat stat;
    janitor->summary.file = is_written
                                ? open_own(janitor->dir, trim->folder, NEXT, O_RDWR | O_CREAT)
                                : open_own(janitor->dir, trim->folder, SUMMARY, O_RDONLY);
    if (janitor->summary.file < 0 || kilni_os()->fstat(janitor->summary.file, &stat) != 0) {
        return false;
    }
    const uint64_t size = (uint64_t)stat.st_size;
    janitor->summary.size = janitor->job.summary_size;
    if (is_written) {
        open_hints(janitor, trim->folder);
        return size >= janitor->job.summary_size;
    }
    return size == janitor->job.summary_size;
}

static kiln_status begin_sliced(sliced_trim *trim)
{
    kilni_janitor *janitor = &trim->janitor;
    const uint64_t limit = limit_of(janitor->dir);
    kilni_file_close(&janitor->summary.file);
    kilni_file_close(&janitor->hints.file);
    janitor->job = new_job(janitor->dir, limit, limit / 10 * 9);
    return open_summaries(trim) ? KILN_OK : KILN_E_IO;
}

static kiln_status resume(sliced_trim *trim, kilni_dir *dir)
{
    kilni_janitor_init(&trim->janitor, dir);
    trim->folder = open_folder(dir);
    trim->job_file = -1;
    if (trim->folder < 0) {
        return KILN_E_IO;
    }
    trim->job_file = open_own(dir, trim->folder, JOB, O_RDWR | O_CREAT);
    if (trim->job_file < 0) {
        return KILN_E_IO;
    }
    const bool is_found = kilni_dir_job_load(trim->job_file, &trim->janitor.job) == KILN_OK &&
                          is_valid_job(&trim->janitor.job) && open_summaries(trim);
    return is_found ? KILN_OK : begin_sliced(trim);
}

/* Replaces the last summary by the summary that this survey has written. Called at the end of the
 * survey. */
static kiln_status publish_summary(sliced_trim *trim)
{
    kilni_dir_summary *summary = &trim->janitor.summary;
    kiln_status status = kilni_dir_summary_flush(summary);
    if (status == KILN_OK) {
        status = kilni_file_resize(summary->file, (off_t)summary->size);
    }
    if (status == KILN_OK && kilni_os()->renameat(trim->folder, NEXT, trim->folder, SUMMARY) != 0) {
        status = KILN_E_IO;
    }
    return status;
}

static kiln_status run_slice(sliced_trim *trim)
{
    kilni_janitor *janitor = &trim->janitor;
    kiln_status status = KILN_OK;
    uint64_t phase;
    do {
        phase = janitor->job.phase;
        kilni_janitor_run(janitor);
        status = janitor->status;
        if (status == KILN_OK && phase == KILNI_DIR_SURVEY && janitor->job.phase != phase) {
            status = publish_summary(trim);
        }
    } while (status == KILN_OK && janitor->job.phase != phase &&
             janitor->job.phase != KILNI_DIR_DONE);
    return status;
}

/* Saves the job for the next slice. If the trim is complete, this function removes the job instead.
 */
static kiln_status suspend(sliced_trim *trim, bool *ret_is_done)
{
    kilni_janitor *janitor = &trim->janitor;
    *ret_is_done = janitor->job.phase == KILNI_DIR_DONE;
    if (*ret_is_done) {
        note_outcome(janitor->dir, &janitor->job);
        kilni_os()->unlinkat(trim->folder, JOB, 0);
        return KILN_OK;
    }
    const kiln_status status = kilni_dir_summary_flush(&janitor->summary);
    if (janitor->job.phase == KILNI_DIR_SURVEY) {
        janitor->job.summary_size = janitor->summary.size;
    }
    return status == KILN_OK ? kilni_dir_job_save(trim->job_file, &janitor->job) : status;
}

static void close_trim(sliced_trim *trim)
{
    kilni_file_close(&trim->janitor.hints.file);
    kilni_file_close(&trim->janitor.summary.file);
    kilni_file_close(&trim->job_file);
    kilni_file_close(&trim->folder);
    kilni_janitor_done(&trim->janitor);
}

static kiln_status work_a_slice(kilni_dir *dir, bool *ret_is_done)
{
    const uint64_t until_ns = kilni_clock_ns() + SLICE_NS;
    sliced_trim trim;
    kiln_status status = resume(&trim, dir);
    if (status == KILN_OK) {
        trim.janitor.until_ns = until_ns;
        status = run_slice(&trim);
        kilni_janitor_flush_removed(&trim.janitor);
    }
    if (status == KILN_OK) {
        status = suspend(&trim, ret_is_done);
    }
    if (status != KILN_OK && trim.folder >= 0) {
        kilni_os()->unlinkat(trim.folder, JOB, 0);
    }
    close_trim(&trim);
    return status;
}

/* ---- one at a time ---- */

static kiln_status take_janitors_lock(kilni_dir *dir, kilni_lock *lock)
{
    if (kilni_lock_open(kilni_dir_root(dir), KILNI_DIR_LEASE, O_RDWR | O_CREAT, lock) != KILN_OK) {
        return KILN_E_IO;
    }
    const kiln_status status = kilni_lock_take(lock, F_WRLCK, KILNI_DIR_JANITOR_BYTE, 1, 0);
    if (status != KILN_OK && status != KILN_E_UNSUPPORTED) {
        kilni_lock_close(lock);
    }
    return status;
}

static kiln_status trim_at_once(kilni_dir *dir, const kilni_dir_job *job, uint32_t flags,
                                kiln_trim_report *ret_report)
{
    kilni_lock lock;
    kiln_status status = take_janitors_lock(dir, &lock);
    /* On a file system without locks, two processes can trim at the same time. This does no harm,
     * because neither can remove an entry that the other has already removed. */
    if (status == KILN_OK || status == KILN_E_UNSUPPORTED) {
        status = work_at_once(dir, job, flags, ret_report);
        kilni_lock_close(&lock);
    }
    return status;
}

static bool was_surveyed_within(const kilni_dir *dir, int64_t seconds)
{
    const int64_t now_s = kilni_clock_unix_s();
    struct stat stat;
    return kilni_os()->fstatat(kilni_dir_root(dir), FOLDER "/" SUMMARY, &stat,
                               AT_SYMLINK_NOFOLLOW) == 0 &&
           stat.st_mtim.tv_sec + seconds > now_s && stat.st_mtim.tv_sec <= now_s + seconds;
}

/* Records the beginning of a survey that writes no summary. Returns false if that fails. */
static bool note_survey(const kilni_dir *dir)
{
    int folder = open_folder(dir);
    int file = folder < 0 ? -1 : open_own(dir, folder, SUMMARY, O_RDWR | O_CREAT);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    const bool is_noted = file >= 0 && kilni_os()->futimens(file, times) == 0;
    kilni_file_close(&file);
    kilni_file_close(&folder);
    return is_noted;
}

/* Does a slice of a trim. If the file system has no locks, or if the trim's files cannot be
 * written, for example on a full disk, the whole trim is done in one go. In that case, if
 * @makes_room is false, only one trim is done per day. The process that first records its beginning
 * does it. */
static kiln_status trim_a_slice(kilni_dir *dir, bool makes_room, bool *ret_is_done)
{
    kilni_lock lock;
    kiln_status status = take_janitors_lock(dir, &lock);
    if (status != KILN_OK && status != KILN_E_UNSUPPORTED) {
        return status;
    }
    status = status == KILN_OK ? work_a_slice(dir, ret_is_done) : status;
    if (status != KILN_OK && status != KILN_E_NO_MEMORY &&
        (makes_room || (!was_surveyed_within(dir, DAY_S) && note_survey(dir)))) {
        const uint64_t limit = limit_of(dir);
        const kilni_dir_job job = new_job(dir, limit, limit / 10 * 9);
        kiln_trim_report report;
        status = work_at_once(dir, &job, 0, &report);
        *ret_is_done = true;
    }
    kilni_lock_close(&lock);
    return status;
}

/* Does a slice. Returns true if the trim is not complete, so that further slices are useful. */
static bool work(kilni_dir *dir, bool makes_room)
{
    bool is_done = false;
    const kiln_status status = trim_a_slice(dir, makes_room, &is_done);
    if (status == KILN_OK && is_done) {
        atomic_store_explicit(&dir->uncounted_bytes, 0, memory_order_relaxed);
    } else if (status != KILN_OK && status != KILN_BUSY && status != KILN_E_UNSUPPORTED) {
        kilni_store_warn(&dir->store, KILNI_WARNED_TRIM, "%s: can't be trimmed: %s", dir->path,
                         kiln_status_text(status));
    }
    const bool goes_on = status == KILN_OK && !is_done;
    atomic_store_explicit(&dir->is_trimming, goes_on, memory_order_relaxed);
    return goes_on;
}

/* ---- when to trim ---- */

static bool evicts(const kilni_dir *dir)
{
    return dir->store.options.policy != KILN_POLICY_NO_EVICT;
}

/* A store that does not evict refuses puts when it is full, so its size must be known soon. */
void kilni_dir_begin_count(kilni_dir *dir)
{
    for (unsigned left = evicts(dir) ? 1 : SLICES_OF_A_PUT; left > 0 && work(dir, true);) {
        left--;
    }
}

static bool is_under_way(const kilni_dir *dir)
{
    struct stat stat;
    return kilni_os()->fstatat(kilni_dir_root(dir), FOLDER "/" JOB, &stat, AT_SYMLINK_NOFOLLOW) ==
           0;
}

/* Returns true if the last survey was at least a day ago. */
static bool is_due(kilni_dir *dir)
{
    const int64_t now_s = kilni_clock_unix_s();
    if (now_s < atomic_load_explicit(&dir->due_s, memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&dir->due_s, now_s + HOUR_S, memory_order_relaxed);
    return !was_surveyed_within(dir, DAY_S);
}

static uint64_t slices_for(const kilni_dir *dir, uint64_t put_bytes)
{
    const uint64_t slices = 1 + put_bytes / (limit_of(dir) / PUTS_OF_A_SLICE + 1);
    return slices < SLICES_OF_A_PUT ? slices : SLICES_OF_A_PUT;
}

void kilni_dir_trim_after_put(kilni_dir *dir, uint64_t put_bytes, bool has_outgrown)
{
    const bool makes_room = has_outgrown && evicts(dir) && !is_stuck(dir);
    if (makes_room || is_under_way(dir) || is_due(dir)) {
        for (uint64_t left = slices_for(dir, put_bytes); left > 0 && work(dir, makes_room);) {
            left--;
        }
    }
}

void kilni_dir_trim_before_close(kilni_dir *dir)
{
    if (dir->store.options.flags & (KILN_STORE_READONLY | KILN_STORE_NO_TRIM_AT_CLOSE)) {
        return;
    }
    if (atomic_load_explicit(&dir->is_trimming, memory_order_relaxed) ||
        (dir->store.options.max_age_s > 0 && !was_surveyed_within(dir, HOUR_S))) {
        const uint64_t until_ns = kilni_clock_ns() + TIME_AT_CLOSE_NS;
        while (work(dir, false) && kilni_clock_ns() < until_ns) {
        }
    }
}

bool kilni_dir_has_room(kilni_dir *dir, uint64_t size, uint64_t replaced)
{
    kiln_store_stat stat;
    if (evicts(dir)) {
        return true;
    }
    if (kilni_dir_known_stat(&dir->store, &stat) != KILN_OK) {
        return false;
    }
    const uint64_t most = dir->store.options.max_bytes;
    const uint64_t kept = stat.bytes > replaced ? stat.bytes - replaced : 0;
    return kept <= most && size <= most - kept;
}

/* ---- on request ---- */

kiln_status kilni_dir_trim(kiln_store *store, const kiln_trim_params *params,
                           kiln_trim_report *ret_report)
{
    kilni_dir *dir = kilni_dir_of(store);
    const uint64_t limit = params->flags & KILN_TRIM_BY_SIZE ? params->max_bytes : KILN_UNLIMITED;
    kilni_dir_job job = new_job(dir, limit, limit);
    job.max_age_s = params->older_than_s;
    return params->flags & KILN_TRIM_DRY_RUN ? work_at_once(dir, &job, params->flags, ret_report)
                                             : trim_at_once(dir, &job, params->flags, ret_report);
}
