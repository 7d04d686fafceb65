/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "entry/entry.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/layout.h"
#include "store/dir/leftover.h"

#define NS_PER_S 1000000000
/* Every slice does at least this many steps, even if its time is over. So a trim makes progress
 * even on a slow disk, on which each file takes a long time. */
#define LEAST_STEPS 8u
#define RECORDS_OF_A_STEP 64u
#define NONE UINT64_MAX
#define DIGIT_BITS 8u

void kilni_janitor_init(kilni_janitor *janitor, kilni_dir *dir)
{
    *janitor = (kilni_janitor){
        .dir = dir,
        .until_ns = UINT64_MAX,
        .hints.file = -1,
        .summary.file = -1,
        .segment_at = NONE,
        .known_shard = NONE,
    };
}

void kilni_janitor_done(kilni_janitor *janitor)
{
    kilni_dir_records_done(&janitor->met);
    kilni_dir_records_done(&janitor->segment);
    kilni_dir_records_done(&janitor->known);
    kilni_dir_summary_done(&janitor->hints);
    kilni_dir_summary_done(&janitor->summary);
}

static bool may_go_on(const kilni_janitor *j)
{
    return j->status == KILN_OK &&
           (j->steps < LEAST_STEPS || j->until_ns == UINT64_MAX || kilni_clock_ns() < j->until_ns);
}

static kilni_ranking ranking_of(const kilni_dir_job *job)
{
    return (kilni_ranking){.policy = (uint32_t)job->policy,
                           .now_s = (int64_t)job->now_s,
                           .resolution_s = job->resolution_s,
                           .max_age_s = job->max_age_s};
}

/* ---- the records of a shard in a summary ---- */

static bool read_segment(kilni_janitor *j, const kilni_dir_summary *from, uint64_t at)
{
    if (j->segment_at == at) {
        return true;
    }
    j->segment_at = NONE;
    const kiln_status status = kilni_dir_summary_read(from, at, &j->segment, &j->segment_next);
    if (status == KILN_E_NO_MEMORY) {
        j->status = status;
    }
    j->segment_at = status == KILN_OK ? at : NONE;
    return status == KILN_OK;
}

static int compare_inodes(const void *first, const void *second)
{
    const kilni_dir_record *a = first;
    const kilni_dir_record *b = second;
    return a->inode < b->inode ? -1 : a->inode > b->inode;
}

/* Returns the index of a shard's first record in a segment. The records of a segment are ordered by
 * shard. */
static size_t first_of_shard(const kilni_dir_records *segment, uint64_t shard)
{
    size_t low = 0;
    size_t high = segment->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (segment->items[middle].shard < shard) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void copy_shard(kilni_janitor *j, uint64_t shard)
{
    const kilni_dir_records *segment = &j->segment;
    for (size_t i = first_of_shard(segment, shard);
         i < segment->count && segment->items[i].shard == shard; i++) {
        if (!kilni_dir_records_add(&j->known, &segment->items[i])) {
            j->status = KILN_E_NO_MEMORY;
            return;
        }
    }
}

/* Reads the records of the present shard from a summary. Shards are read in order, so this function
 * does not read the segments of earlier shards again. */
static void learn_shard(kilni_janitor *j, const kilni_dir_summary *from)
{
    const uint64_t shard = j->job.shard;
    if (j->known_shard == shard) {
        return;
    }
    j->known.count = 0;
    j->known_shard = shard;
    uint64_t last = 0;
    for (uint64_t at = j->job.read_at; last <= shard && read_segment(j, from, at);
         at = j->segment_next) {
        last = j->segment.items[j->segment.count - 1].shard;
        if (last < shard) {
            j->job.read_at = j->segment_next;
        }
        copy_shard(j, shard);
    }
    if (j->known.count > 1) {
        qsort(j->known.items, j->known.count, sizeof *j->known.items, compare_inodes);
    }
}

static kilni_dir_record describe(uint64_t shard, const kilni_dir_found *found)
{
    const struct timespec used = found->stat.st_mtim;
    const int64_t used_s = used.tv_sec < 0                          ? 0
                           : used.tv_sec > INT64_MAX / NS_PER_S - 1 ? INT64_MAX / NS_PER_S - 1
                                                                    : used.tv_sec;
    return (kilni_dir_record){
        .shard = shard,
        .inode = found->stat.st_ino,
        .facts.used_ns = used_s * NS_PER_S + used.tv_nsec,
        .facts.bytes = kilni_dir_disk_bytes(&found->stat),
    };
}

/* Returns the summary's record of a file, if the file is unchanged. */
static const kilni_dir_record *recall(const kilni_janitor *j, const kilni_dir_record *now)
{
    const kilni_dir_record *known =
        j->known.count == 0
            ? NULL
            : bsearch(now, j->known.items, j->known.count, sizeof *j->known.items, compare_inodes);
    return known && known->facts.used_ns == now->facts.used_ns &&
                   known->facts.bytes == now->facts.bytes
               ? known
               : NULL;
}

/* ---- survey ---- */

/* Removes a file unless it was replaced or used since it was seen. */
static bool remove_seen(const kilni_janitor *j, const kilni_dir_found *found)
{
    const kilni_dir_identity seen = kilni_dir_identity_of(&found->stat);
    return j->is_dry || kilni_dir_remove_found(j->dir, found, &seen, j->takes_newer) == KILN_OK;
}

static bool remove_leftover(kilni_janitor *j, const kilni_dir_found *found)
{
    if (!kilni_dir_is_leftover(found) || !remove_seen(j, found)) {
        return false;
    }
    j->job.leftover_bytes += kilni_dir_disk_bytes(&found->stat);
    return true;
}

/* Returns true if an entry must not be removed because its cost is unknown.
 *
 * @status  the result of reading the entry's head */
static bool stays(const kilni_janitor *j, kiln_status status)
{
    const bool is_worthless = status == KILN_E_CORRUPT || status == KILN_E_DENIED ||
                              (status == KILN_E_VERSION && j->takes_newer);
    return !is_worthless;
}

/* Reads the cost and the time of an entry's build from the entry's head, and records them. The cost
 * of a damaged entry is zero. */
static void read_head(const kilni_janitor *j, const kilni_dir_found *found,
                      kilni_dir_record *record)
{
    int file;
    struct stat stat;
    unsigned char bytes[KILNI_ENTRY_PREVIEW_SIZE];
    kilni_entry_preview head;
    size_t count = 0;
    kiln_status status = kilni_dir_open_file(j->dir, found->directory, found->name, &file, &stat);
    if (status == KILN_OK) {
        status = kilni_file_read_at(file, bytes, sizeof bytes, 0, &count);
        if (status == KILN_OK) {
            status = kilni_entry_preview_decode(bytes, count, (uint64_t)stat.st_size, &head);
        }
        if (status == KILN_OK && head.seems_newer && kilni_dir_may_be_newer(j->dir, file, &stat)) {
            status = KILN_E_VERSION;
        }
        kilni_os()->close(file);
    }
    if (status == KILN_OK) {
        record->facts.created_s = head.created_s;
        record->facts.build_ns =
            head.build_ns < KILNI_DIR_STAYS ? head.build_ns : KILNI_DIR_STAYS - 1;
    } else if (stays(j, status)) {
        record->facts.build_ns = KILNI_DIR_STAYS;
    }
}

static void complete(kilni_janitor *j, const kilni_dir_found *found, kilni_dir_record *record)
{
    const kilni_dir_record *known = recall(j, record);
    if (known && known->facts.build_ns != KILNI_DIR_STAYS) {
        record->facts.created_s = known->facts.created_s;
        record->facts.build_ns = known->facts.build_ns;
    } else {
        read_head(j, found, record);
    }
}

static void count_candidate(kilni_dir_job *job, const kilni_dir_record *record)
{
    const kilni_ranking ranking = ranking_of(job);
    const uint64_t recency = kilni_rank_recency(&ranking, &record->facts);
    job->candidate_bytes += record->facts.bytes;
    if (recency > job->newest_recency) {
        job->newest_recency = recency;
        job->newest_inode = record->inode;
        job->newest_bytes = record->facts.bytes;
    }
}

static void note(kilni_janitor *j, const kilni_dir_record *record)
{
    const kilni_ranking ranking = ranking_of(&j->job);
    const bool stays = record->facts.build_ns == KILNI_DIR_STAYS;
    if (!stays && kilni_rank_has_expired(&ranking, &record->facts)) {
        j->job.expired_bytes += record->facts.bytes;
    } else if (!stays) {
        count_candidate(&j->job, record);
    }
    if (!kilni_dir_records_add(&j->met, record)) {
        j->status = KILN_E_NO_MEMORY;
    } else if (j->met.count == KILNI_DIR_SEGMENT_RECORDS) {
        j->status = kilni_dir_summary_append(&j->summary, &j->met);
    }
}

static int survey_file(void *user, const kilni_dir_found *found)
{
    kilni_janitor *j = user;
    j->steps++;
    if (found->is_temporary && remove_leftover(j, found)) {
        return !may_go_on(j);
    }
    j->job.shard_files++;
    j->job.bytes += kilni_dir_disk_bytes(&found->stat);
    if (!found->is_temporary) {
        j->job.entries += kilni_dir_has_entries(found->shard);
        if (found->stat.st_uid == j->dir->user) {
            learn_shard(j, &j->hints);
            kilni_dir_record record = describe(j->job.shard, found);
            complete(j, found, &record);
            note(j, &record);
        }
    }
    return !may_go_on(j);
}

/* Removes the present shard if it is empty. In layouts with more levels of folders, empty folders
 * are removed at the end of the trim. */
static void remove_empty_shard(const kilni_janitor *j)
{
    if (!j->dir->layout->walk_from || j->job.shard == KILNI_DIR_REQUESTS) {
        kilni_dir_remove_empty_shard(j->dir, (unsigned)j->job.shard);
    }
}

static void leave_shard(kilni_janitor *j)
{
    j->job.shard++;
    j->job.position = (kilni_dir_position){.offsets = {0}};
    j->job.shard_files = 0;
}

static void begin_phase(kilni_janitor *j, kilni_dir_phase phase)
{
    j->job.phase = phase;
    j->job.read_at = 0;
    j->job.shard = 0;
    j->job.position = (kilni_dir_position){.offsets = {0}};
    j->job.shard_files = 0;
    j->segment_at = NONE;
    j->known_shard = NONE;
}

/* Continues the walk through the present shard. */
static void walk_shard(kilni_janitor *j, kilni_dir_visit_fn *visit)
{
    bool has_ended = false;
    const kiln_status status =
        kilni_dir_walk_part(j->dir, (unsigned)j->job.shard, &j->job.position, visit, j, &has_ended);
    if (status != KILN_OK && status != KILN_MISS) {
        j->job.has_failed = 1;
        j->first_failure = j->first_failure == KILN_OK ? status : j->first_failure;
    }
    if (j->status != KILN_OK || has_ended) {
        return;
    }
    if (status == KILN_OK && j->job.shard_files == 0 && !j->is_dry) {
        remove_empty_shard(j);
    }
    leave_shard(j);
}

/* Replaces the sizes in the totals by the sizes that the survey has counted. */
static void correct_totals(const kilni_janitor *j)
{
    const kilni_totals_change change = {
        .is_recount = true, .entries = (int64_t)j->job.entries, .bytes = (int64_t)j->job.bytes};
    kilni_totals totals;
    if (!j->job.has_failed && !j->is_dry) {
        kilni_dir_change_totals(j->dir, &change, &totals);
    }
}

static void decide_how_much(kilni_dir_job *job)
{
    const uint64_t kept = job->bytes - job->expired_bytes;
    const uint64_t excess = kept > job->limit ? kept - job->target : 0;
    const uint64_t others = job->candidate_bytes - job->newest_bytes;
    if (excess > others && kept - others > job->limit) {
        job->newest_recency = 0;
        job->tied_bytes = excess < job->candidate_bytes ? excess : job->candidate_bytes;
    } else {
        job->tied_bytes = excess < others ? excess : others;
    }
}

static void note_met(kilni_janitor *j)
{
    if (j->status == KILN_OK) {
        j->status = kilni_dir_summary_append(&j->summary, &j->met);
    }
}

static void end_survey(kilni_janitor *j)
{
    kilni_dir_job *job = &j->job;
    note_met(j);
    if (j->status != KILN_OK) {
        return;
    }
    correct_totals(j);
    decide_how_much(job);
    job->summary_size = j->summary.size + j->summary.count;
    begin_phase(j, job->tied_bytes > 0      ? KILNI_DIR_RANK
                   : job->expired_bytes > 0 ? KILNI_DIR_SWEEP
                                            : KILNI_DIR_DONE);
}

static void survey(kilni_janitor *j)
{
    walk_shard(j, survey_file);
    if (j->status == KILN_OK && j->job.shard == KILNI_DIR_SHARD_COUNT) {
        end_survey(j);
    }
}

/* ---- rank: this phase finds one digit after another, and reads the summary once per digit ---- */

static bool is_newest(const kilni_dir_job *job, const kilni_ranking *ranking,
                      const kilni_dir_record *record)
{
    return job->newest_recency > 0 && record->inode == job->newest_inode &&
           kilni_rank_recency(ranking, &record->facts) == job->newest_recency;
}

static bool is_candidate(const kilni_dir_job *job, const kilni_ranking *ranking,
                         const kilni_dir_record *record)
{
    return record->facts.build_ns != KILNI_DIR_STAYS &&
           !kilni_rank_has_expired(ranking, &record->facts) && !is_newest(job, ranking, record);
}

static bool has_known_digits(const kilni_dir_job *job, uint64_t rank)
{
    return job->digits == 0 || rank >> (64 - DIGIT_BITS * job->digits) == job->rank;
}

static void count_by_digit(kilni_janitor *j)
{
    kilni_dir_job *job = &j->job;
    const kilni_ranking ranking = ranking_of(job);
    const unsigned shift = 64 - DIGIT_BITS * ((unsigned)job->digits + 1);
    for (size_t i = 0; i < j->segment.count; i++) {
        const kilni_dir_record *record = &j->segment.items[i];
        const uint64_t rank = kilni_rank(&ranking, &record->facts);
        if (is_candidate(job, &ranking, record) && has_known_digits(job, rank)) {
            job->by_digit[rank >> shift & (KILNI_DIR_DIGIT_VALUES - 1)] += record->facts.bytes;
        }
    }
    j->steps += 1 + (unsigned)j->segment.count / RECORDS_OF_A_STEP;
}

/* Sets the next digit of the rank to the lowest digit with which enough bytes will be removed. */
static void choose_digit(kilni_janitor *j)
{
    kilni_dir_job *job = &j->job;
    unsigned digit = 0;
    while (digit < KILNI_DIR_DIGIT_VALUES - 1 && job->tied_bytes > job->by_digit[digit]) {
        job->tied_bytes -= job->by_digit[digit];
        digit++;
    }
    job->rank = job->rank << DIGIT_BITS | digit;
    job->digits++;
    memset(job->by_digit, 0, sizeof job->by_digit);
    job->read_at = 0;
    if (job->digits == KILNI_DIR_RANK_DIGITS) {
        begin_phase(j, KILNI_DIR_SWEEP);
    }
}

static void rank(kilni_janitor *j)
{
    if (read_segment(j, &j->summary, j->job.read_at)) {
        count_by_digit(j);
        j->job.read_at = j->segment_next;
    } else if (j->status == KILN_OK) {
        choose_digit(j);
    }
}

/* ---- sweep ---- */

static bool is_victim(const kilni_dir_job *job, const kilni_dir_record *record)
{
    const kilni_ranking ranking = ranking_of(job);
    if (record->facts.build_ns == KILNI_DIR_STAYS) {
        return false;
    }
    if (kilni_rank_has_expired(&ranking, &record->facts)) {
        return true;
    }
    const uint64_t rank = kilni_rank(&ranking, &record->facts);
    return is_candidate(job, &ranking, record) &&
           (rank < job->rank || (rank == job->rank && job->tied_bytes > 0));
}

static bool has_victims(const kilni_janitor *j)
{
    for (size_t i = 0; i < j->known.count; i++) {
        if (is_victim(&j->job, &j->known.items[i])) {
            return true;
        }
    }
    return false;
}

static void count_victim(kilni_janitor *j, const kilni_dir_record *victim)
{
    kilni_dir_job *job = &j->job;
    const kilni_ranking ranking = ranking_of(job);
    const bool is_entry = kilni_dir_has_entries((unsigned)victim->shard);
    job->removed += is_entry;
    job->removed_bytes += victim->facts.bytes;
    job->entries -= is_entry;
    job->bytes -= victim->facts.bytes;
    j->gone_entries += is_entry;
    j->gone_bytes += victim->facts.bytes;
    if (!kilni_rank_has_expired(&ranking, &victim->facts) &&
        kilni_rank(&ranking, &victim->facts) == job->rank) {
        const uint64_t bytes = victim->facts.bytes;
        job->tied_bytes -= bytes < job->tied_bytes ? bytes : job->tied_bytes;
    }
}

static int sweep_file(void *user, const kilni_dir_found *found)
{
    kilni_janitor *j = user;
    const kilni_dir_record now = describe(j->job.shard, found);
    /* A file that was used or replaced after it was ranked is not removed. */
    const kilni_dir_record *record = found->is_temporary ? NULL : recall(j, &now);
    j->steps++;
    if (record && is_victim(&j->job, record) && remove_seen(j, found)) {
        count_victim(j, record);
    } else {
        j->job.shard_files++;
    }
    return !may_go_on(j);
}

static void sweep(kilni_janitor *j)
{
    learn_shard(j, &j->summary);
    if (has_victims(j)) {
        walk_shard(j, sweep_file);
    } else {
        leave_shard(j);
    }
    if (j->job.shard == KILNI_DIR_SHARD_COUNT) {
        begin_phase(j, KILNI_DIR_DONE);
    }
}

/* Removes empty folders that killed processes have left. (A process that removes an entry also
 * removes the folders that become empty.) This needs an additional walk, so the janitor does it
 * only if a caller waits for the trim. */
static void tidy(kilni_janitor *j)
{
    if (j->dir->layout->tidy && !j->is_dry && j->until_ns == UINT64_MAX) {
        j->dir->layout->tidy(j->dir);
    }
}

void kilni_janitor_run(kilni_janitor *j)
{
    const uint64_t phase = j->job.phase;
    while (j->job.phase == phase && may_go_on(j)) {
        switch (phase) {
        case KILNI_DIR_SURVEY:
            survey(j);
            break;
        case KILNI_DIR_RANK:
            rank(j);
            break;
        case KILNI_DIR_SWEEP:
            sweep(j);
            break;
        default:
            return;
        }
    }
    /* The time is not checked here: the records are added to the summary even if the time is over.
     */
    if (j->job.phase == KILNI_DIR_SURVEY) {
        note_met(j);
    }
    if (j->job.phase == KILNI_DIR_DONE) {
        tidy(j);
    }
}

void kilni_janitor_flush_removed(kilni_janitor *j)
{
    const kilni_totals_change change = {.entries = -(int64_t)j->gone_entries,
                                        .bytes = -(int64_t)j->gone_bytes,
                                        .counters.evicted = j->gone_entries};
    if (j->is_dry || j->gone_bytes == 0) {
        return;
    }
    kilni_totals totals;
    kilni_dir_change_totals(j->dir, &change, &totals);
    atomic_fetch_add_explicit(&j->dir->store.counts.evicted, j->gone_entries, memory_order_relaxed);
    j->gone_entries = 0;
    j->gone_bytes = 0;
}
