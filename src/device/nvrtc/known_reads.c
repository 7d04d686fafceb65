/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/known_reads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/reads.h"

typedef struct known_program {
    kiln_digest digest;
    uint64_t generation;
    char *reads; /* of the last compilation; NULL: none was yet in this generation */
    size_t size;
    const char *why;
} known_program;

struct kilni_nvrtc_known_reads {
    /* Guards the rest; not held while files are read. */
    pthread_mutex_t lock;
    known_program *programs; /* none ever leaves: its generation would be given again */
    size_t count, capacity;
};

kiln_status kilni_nvrtc_known_reads_new(kilni_nvrtc_known_reads **ret_known)
{
    kilni_nvrtc_known_reads *known = calloc(1, sizeof *known);
    if (!known || pthread_mutex_init(&known->lock, NULL) != 0) {
        free(known);
        return KILN_E_NO_MEMORY;
    }
    *ret_known = known;
    return KILN_OK;
}

void kilni_nvrtc_known_reads_free(kilni_nvrtc_known_reads **known)
{
    kilni_nvrtc_known_reads *ending = *known;
    if (!ending) {
        return;
    }
    *known = NULL;
    for (size_t i = 0; i < ending->count; i++) {
        free(ending->programs[i].reads);
    }
    free(ending->programs);
    pthread_mutex_destroy(&ending->lock);
    free(ending);
}

/* ---- with the lock held ---- */

static known_program *find_locked(const kilni_nvrtc_known_reads *known, const kiln_digest *digest)
{
    for (size_t i = 0; i < known->count; i++) {
        if (memcmp(&known->programs[i].digest, digest, sizeof *digest) == 0) {
            return &known->programs[i];
        }
    }
    return NULL;
}

static known_program *add_locked(kilni_nvrtc_known_reads *known, const kiln_digest *digest)
{
    if (known->count == known->capacity) {
        const size_t capacity = known->capacity ? 2 * known->capacity : 16;
        known_program *grown = realloc(known->programs, capacity * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        known->programs = grown;
        known->capacity = capacity;
    }
    known_program *added = &known->programs[known->count++];
    *added = (known_program){.digest = *digest};
    return added;
}

static void forget_reads(known_program *program)
{
    free(program->reads);
    program->reads = NULL;
    program->size = 0;
    program->why = NULL;
}

static void begin_generation(known_program *program)
{
    forget_reads(program);
    program->generation++;
}

static kiln_status set_reads(known_program *program, kiln_bytes reads, const char *why)
{
    char *copy = reads.size > 0 ? malloc(reads.size) : NULL;
    if (!copy) {
        begin_generation(program);
        program->why = why;
        return reads.size > 0 ? KILN_E_NO_MEMORY : KILN_OK;
    }
    memcpy(copy, reads.data, reads.size);
    if (program->reads) {
        begin_generation(program);
    }
    program->reads = copy;
    program->size = reads.size;
    program->why = why;
    return KILN_OK;
}

/* What is known now, with a copy of the reads for a look without the lock. */
static kiln_status snapshot(kilni_nvrtc_known_reads *known, const kiln_digest *digest,
                            known_program *ret_snapshot)
{
    kiln_status status = KILN_OK;
    *ret_snapshot = (known_program){0};
    pthread_mutex_lock(&known->lock);
    const known_program *found = find_locked(known, digest);
    if (found) {
        *ret_snapshot = *found;
        ret_snapshot->reads = found->reads ? malloc(found->size) : NULL;
        if (ret_snapshot->reads) {
            memcpy(ret_snapshot->reads, found->reads, found->size);
        } else if (found->reads) {
            status = KILN_E_NO_MEMORY;
        }
    }
    pthread_mutex_unlock(&known->lock);
    return status;
}

/* The reads of a generation don't hold any more; another thread may have seen that before. */
static uint64_t leave_generation(kilni_nvrtc_known_reads *known, const kiln_digest *digest,
                                 uint64_t generation)
{
    pthread_mutex_lock(&known->lock);
    known_program *found = find_locked(known, digest);
    if (found->generation == generation) {
        begin_generation(found);
    }
    generation = found->generation;
    pthread_mutex_unlock(&known->lock);
    return generation;
}

/* ---- the interface ---- */

kiln_status kilni_nvrtc_known_reads_ask(kilni_nvrtc_known_reads *known, const kiln_digest *program,
                                        uint64_t *ret_generation, const char **ret_why)
{
    known_program now;
    kiln_status status = snapshot(known, program, &now);
    if (status == KILN_OK && now.reads) {
        status = kilni_nvrtc_reads_hold((kiln_bytes){now.reads, now.size}, NULL, NULL);
    }
    if (status == KILN_MISS) {
        now.generation = leave_generation(known, program, now.generation);
        now.why = NULL;
        status = KILN_OK;
    }
    free(now.reads);
    if (status == KILN_OK && now.why) {
        *ret_why = now.why;
        return KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        *ret_generation = now.generation;
    }
    return status;
}

kiln_status kilni_nvrtc_known_reads_set(kilni_nvrtc_known_reads *known, const kiln_digest *program,
                                        kiln_bytes reads, const char *why)
{
    pthread_mutex_lock(&known->lock);
    known_program *found = find_locked(known, program);
    const bool is_known = found && found->reads && found->size == reads.size &&
                          memcmp(found->reads, reads.data, reads.size) == 0;
    kiln_status status = KILN_OK;
    if (!is_known) {
        found = found ? found : add_locked(known, program);
        status = found ? set_reads(found, reads, why) : KILN_E_NO_MEMORY;
    }
    pthread_mutex_unlock(&known->lock);
    return status;
}
