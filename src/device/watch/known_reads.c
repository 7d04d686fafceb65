/* SPDX-License-Identifier: Apache-2.0 */
#include "device/watch/known_reads.h"

#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/watch/changed_files.h"

typedef struct known_program {
    kiln_digest digest;
    uint64_t revision;
    /* Changes with each revision, and each time the revision is returned while its reads are
     * unknown. */
    uint64_t mark;
    char *reads; /* of the last compilation or load; NULL: unknown for this revision */
    size_t size;
    const char *why;
    struct known_program *older, *newer;
} known_program;

struct kilni_known_reads {
    void *tree; /* of known_program, by digest */
    known_program *oldest, *newest;
    size_t bytes, bytes_max;
    char *name; /* NULL: none */
};

/* Guards every kilni_known_reads of the process, so that a forked child finds all of them in a
 * consistent state. Not held while files are read. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static pthread_once_t once_registered = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_forks(void)
{
    is_registered = pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

static uint64_t next_number(void)
{
    static _Atomic uint64_t last; /* relaxed: only its value matters */
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static int compare(const void *a, const void *b)
{
    const known_program *first = a, *second = b;
    return memcmp(&first->digest, &second->digest, sizeof first->digest);
}

static size_t bytes_of(const known_program *program)
{
    return sizeof *program + program->size;
}

/* ---- creating and freeing ---- */

static void free_program(void *program)
{
    known_program *ending = program;
    free(ending->reads);
    free(ending);
}

kiln_status kilni_known_reads_new(size_t bytes_max, const char *name, kilni_known_reads **ret_known)
{
    pthread_once(&once_registered, register_forks);
    kilni_known_reads *known = is_registered ? calloc(1, sizeof *known) : NULL;
    if (!known) {
        return KILN_E_NO_MEMORY;
    }
    known->bytes_max = bytes_max;
    known->name = name ? strdup(name) : NULL;
    if (name && !known->name) {
        free(known);
        return KILN_E_NO_MEMORY;
    }
    *ret_known = known;
    return KILN_OK;
}

void kilni_known_reads_free(kilni_known_reads **known)
{
    kilni_known_reads *ending = *known;
    if (!ending) {
        return;
    }
    *known = NULL;
    tdestroy(ending->tree, free_program);
    free(ending->name);
    free(ending);
}

/* ---- with the lock held ---- */

static void remove_from_list(kilni_known_reads *known, known_program *program)
{
    *(program->older ? &program->older->newer : &known->oldest) = program->newer;
    *(program->newer ? &program->newer->older : &known->newest) = program->older;
}

static void append_newest(kilni_known_reads *known, known_program *program)
{
    program->older = known->newest;
    program->newer = NULL;
    *(known->newest ? &known->newest->newer : &known->oldest) = program;
    known->newest = program;
}

static known_program *add(kilni_known_reads *known, const kiln_digest *digest)
{
    known_program *added = calloc(1, sizeof *added);
    if (!added) {
        return NULL;
    }
    *added = (known_program){.digest = *digest, .revision = next_number(), .mark = next_number()};
    if (!tsearch(added, &known->tree, compare)) {
        free(added);
        return NULL;
    }
    known->bytes += bytes_of(added);
    append_newest(known, added);
    return added;
}

/* Returns NULL if memory runs out. */
static known_program *find_or_add(kilni_known_reads *known, const kiln_digest *digest)
{
    const known_program wanted = {.digest = *digest};
    known_program **found = tfind(&wanted, &known->tree, compare);
    if (!found) {
        return add(known, digest);
    }
    remove_from_list(known, *found);
    append_newest(known, *found);
    return *found;
}

/* Forgets the least recently used programs until the remaining ones fit in the limit. Never forgets
 * the newest. */
static void forget_oldest(kilni_known_reads *known)
{
    while (known->bytes > known->bytes_max && known->oldest != known->newest) {
        known_program *oldest = known->oldest;
        known->bytes -= bytes_of(oldest);
        remove_from_list(known, oldest);
        tdelete(oldest, &known->tree, compare);
        free_program(oldest);
    }
}

static void set_bytes(kilni_known_reads *known, known_program *program, char *reads, size_t size)
{
    known->bytes -= program->size;
    known->bytes += size;
    free(program->reads);
    program->reads = reads;
    program->size = size;
}

static void begin_revision(kilni_known_reads *known, known_program *program)
{
    set_bytes(known, program, NULL, 0);
    program->why = NULL;
    program->revision = next_number();
    program->mark = next_number();
}

static bool has_reads(const known_program *program, kiln_bytes reads)
{
    return program->reads && program->size == reads.size &&
           memcmp(program->reads, reads.data, reads.size) == 0;
}

/* Replaces the recorded reads with different ones, and begins a new revision. But if no reads are
 * recorded and @reads is not empty, the revision stays the same. That revision was right for every
 * caller that received it. */
static kiln_status set_reads(kilni_known_reads *known, known_program *program, kiln_bytes reads)
{
    char *copy = reads.size > 0 ? malloc(reads.size) : NULL;
    if (!copy || program->reads) {
        begin_revision(known, program);
    }
    if (!copy) {
        return reads.size > 0 ? KILN_E_NO_MEMORY : KILN_OK;
    }
    memcpy(copy, reads.data, reads.size);
    set_bytes(known, program, copy, reads.size);
    forget_oldest(known);
    return KILN_OK;
}

/* ---- revisions ---- */

/* Returns what is known now. The reads are a copy, so that the caller can check them without
 * holding the lock. */
static kiln_status look_up(kilni_known_reads *known, const kiln_digest *digest,
                           known_program *ret_now)
{
    pthread_mutex_lock(&lock);
    known_program *found = find_or_add(known, digest);
    kiln_status status = found ? KILN_OK : KILN_E_NO_MEMORY;
    if (found) {
        *ret_now = *found;
        ret_now->reads = found->reads ? malloc(found->size) : NULL;
        if (ret_now->reads) {
            memcpy(ret_now->reads, found->reads, found->size);
        } else if (found->reads) {
            status = KILN_E_NO_MEMORY;
        } else {
            found->mark = next_number();
        }
        forget_oldest(known);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* The reads of @revision no longer hold. Begins a new revision, unless another thread has already
 * done so. */
static kiln_status end_revision(kilni_known_reads *known, const kiln_digest *digest,
                                uint64_t revision)
{
    pthread_mutex_lock(&lock);
    known_program *found = find_or_add(known, digest);
    if (found && found->revision == revision) {
        begin_revision(known, found);
    }
    pthread_mutex_unlock(&lock);
    return found ? KILN_OK : KILN_E_NO_MEMORY;
}

/* Returns KILN_MISS if the files have changed. A new revision has then begun, and the caller must
 * ask again. */
static kiln_status get_revision_once(kilni_known_reads *known, const kiln_digest *program,
                                     known_program *ret_now)
{
    kiln_status status = look_up(known, program, ret_now);
    if (status == KILN_OK && ret_now->reads) {
        status = kilni_reads_hold((kiln_bytes){ret_now->reads, ret_now->size}, known->name, NULL);
        free(ret_now->reads);
    }
    if (status == KILN_MISS) {
        const kiln_status ended = end_revision(known, program, ret_now->revision);
        status = ended == KILN_OK ? status : ended;
    }
    return status;
}

kiln_status kilni_known_reads_get_revision(kilni_known_reads *known, const kiln_digest *program,
                                           uint64_t *ret_revision, const char **ret_why)
{
    known_program now;
    kiln_status status;
    do {
        status = get_revision_once(known, program, &now);
    } while (status == KILN_MISS);
    if (status == KILN_OK && now.why) {
        *ret_why = now.why;
        return KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        *ret_revision = now.revision;
    }
    return status;
}

/* ---- recording ---- */

kiln_status kilni_known_reads_set(kilni_known_reads *known, const kiln_digest *program,
                                  kiln_bytes reads, const char *why)
{
    pthread_mutex_lock(&lock);
    known_program *found = find_or_add(known, program);
    kiln_status status = found ? KILN_OK : KILN_E_NO_MEMORY;
    if (found && !has_reads(found, reads)) {
        status = set_reads(known, found, reads);
    }
    if (found) {
        found->why = why;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

kiln_status kilni_known_reads_begin_check(kilni_known_reads *known, const kiln_digest *program,
                                          uint64_t *ret_mark)
{
    pthread_mutex_lock(&lock);
    const known_program *found = find_or_add(known, program);
    if (found) {
        *ret_mark = found->mark;
    }
    pthread_mutex_unlock(&lock);
    return found ? KILN_OK : KILN_E_NO_MEMORY;
}

kiln_status kilni_known_reads_confirm(kilni_known_reads *known, const kiln_digest *program,
                                      uint64_t mark, uint64_t revision, kiln_bytes reads)
{
    pthread_mutex_lock(&lock);
    known_program *found = find_or_add(known, program);
    kiln_status status = found ? KILN_OK : KILN_E_NO_MEMORY;
    const bool is_same = found && has_reads(found, reads);
    /* True if the revision is the same as when the mark was taken, and if only callers that saw
     * these reads have received it since then. */
    const bool is_seen_by_all = found && found->mark == mark && (is_same || !found->reads);
    if (found && !is_same) {
        status = set_reads(known, found, reads);
        found->why = NULL;
    }
    if (status == KILN_OK && revision > 0 && found->revision != revision) {
        status = KILN_MISS;
    } else if (status == KILN_OK && !is_seen_by_all) {
        status = KILN_BUSY;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
