/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/reader.h"

#include <stdlib.h>
#include <strings.h>
#include <sys/single_threaded.h>

#include "memory/process.h"
#include "memory/section.h"

_Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Guards everything below and the fields of kilni_reader that say so, and orders switches of the
 * fences. Taken after a cache's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { POOL_SIZE = 32 };

/* The first readers need no memory. */
static kilni_reader pool[POOL_SIZE];
static size_t pool_used;

/* The readers of threads, at which a thread that reclaims looks; and the readers that threads have
 * released. Linked by kilni_reader.next and from. */
static kilni_reader *readers, *spare_readers;

/* A bit for each line of counters that no thread has. */
static unsigned free_lines = (1u << KILNI_COUNTER_LINES) - 1;

static pthread_key_t reader_key; /* its value is the thread's reader */
static bool serving;             /* threads can have readers; the key exists */

/* ---- threads come and go ---- */

static void link_locked(kilni_reader **list, kilni_reader *reader)
{
    reader->next = *list;
    reader->from = list;
    if (reader->next) {
        reader->next->from = &reader->next;
    }
    *list = reader;
}

static void unlink_locked(kilni_reader *reader)
{
    *reader->from = reader->next;
    if (reader->next) {
        reader->next->from = reader->from;
    }
}

/* Returns NULL if there is no memory. */
static kilni_reader *spare_locked(void)
{
    kilni_reader *reader = spare_readers;
    if (reader) {
        unlink_locked(reader);
        return reader;
    }
    return pool_used < POOL_SIZE ? &pool[pool_used++] : calloc(1, sizeof *reader);
}

static uint32_t take_line_locked(void)
{
    int lowest = ffs((int)free_lines);
    if (lowest == 0) {
        return KILNI_COUNTER_LINES;
    }
    free_lines &= free_lines - 1;
    return (uint32_t)lowest - 1;
}

static kilni_reader *take(void)
{
    pthread_mutex_lock(&lock);
    kilni_reader *reader = serving ? spare_locked() : NULL;
    if (reader) {
        reader->number = take_line_locked();
        atomic_store_explicit(&reader->acknowledged, kilni_fence_state(), memory_order_relaxed);
        link_locked(&readers, reader);
    }
    pthread_mutex_unlock(&lock);
    return reader;
}

static void release_locked(kilni_reader *reader)
{
    if (reader->number < KILNI_COUNTER_LINES) {
        free_lines |= 1u << reader->number;
    }
    unlink_locked(reader);
    link_locked(&spare_readers, reader);
}

static void release(kilni_reader *reader)
{
    pthread_mutex_lock(&lock);
    release_locked(reader);
    pthread_mutex_unlock(&lock);
}

kilni_reader *kilni_reader_claim(void)
{
    kilni_reader *reader = take();
    if (reader && pthread_setspecific(reader_key, reader) != 0) {
        release(reader);
        reader = NULL;
    }
    kilni_reader_own = reader;
    return reader;
}

bool kilni_reader_ensure(void)
{
    if (kilni_reader_own || kilni_reader_claim()) {
        return true;
    }
    pthread_mutex_lock(&lock);
    bool out_of_memory = serving;
    pthread_mutex_unlock(&lock);
    return !out_of_memory;
}

static void end_thread(void *value)
{
    kilni_reader *reader = value;
    for (int i = 0; i < KILNI_READER_PLACES; i++) {
        kilni_place *place = &reader->places[i];
        kiln_cache *cache = atomic_load_explicit(&place->cache, memory_order_relaxed);
        if (cache) {
            kiln_section section = {.cache = cache, .slot = place};
            kiln_section_leave(&section);
        }
    }
    kilni_process_end_thread();
    /* A destructor that runs after this one, and reads, claims a new reader. */
    kilni_reader_own = NULL;
    release(reader);
}

/* ---- fork and the library's end ---- */

void kilni_reader_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void kilni_reader_after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* Only the thread that forked exists in the child. */
void kilni_reader_after_fork_in_child(void)
{
    kilni_reader *next;
    for (kilni_reader *reader = readers; reader; reader = next) {
        next = reader->next;
        if (reader != kilni_reader_own) {
            for (int i = 0; i < KILNI_READER_PLACES; i++) {
                atomic_store_explicit(&reader->places[i].cache, NULL, memory_order_relaxed);
            }
            release_locked(reader);
        }
    }
    /* With one thread, asking costs nothing, whatever fences the parent had. */
    kilni_fence_switch(kilni_fence_ask());
    kilni_reader_acknowledge_fences();
    pthread_mutex_unlock(&lock);
}

/* Each C library in a process (dlmopen loads more of them) numbers its thread-specific keys from 0,
 * but a thread has only one place for the values of all of them: what one library sets for a key,
 * another reads for its own key of the same number. So this takes a number that other libraries do
 * not reach; libnvrtc alone has 40 keys. It holds all numbers below until it has that one. Each
 * process pays for this once. glibc searches for a free key from 0 each time, so twice the number
 * costs four times as much. */
static bool create_key(void)
{
    enum { FAR = 256 };
    pthread_key_t keys[FAR + 1];
    size_t count = 0;
    while (count <= FAR && pthread_key_create(&keys[count], end_thread) == 0 &&
           keys[count++] < FAR) {
    }
    if (count == 0) {
        return false;
    }
    reader_key = keys[--count];
    while (count > 0) {
        pthread_key_delete(keys[--count]);
    }
    return true;
}

void kilni_reader_begin(void)
{
    /* A program with threads must not be delayed on the way to its first results, for look-ups that
     * it may never make. */
    kilni_fence_switch(__libc_single_threaded && kilni_fence_ask());
    pthread_mutex_lock(&lock);
    serving = create_key();
    pthread_mutex_unlock(&lock);
}

/* Runs at the end of the process, while other threads may go on: they must not call end_thread when
 * they end. Threads that are reading keep their readers. */
__attribute__((destructor)) static void finish(void)
{
    pthread_mutex_lock(&lock);
    if (serving) {
        pthread_key_delete(reader_key);
        serving = false;
    }
    kilni_reader *next;
    for (kilni_reader *reader = spare_readers; reader; reader = next) {
        next = reader->next;
        if (reader < pool || reader >= pool + POOL_SIZE) {
            unlink_locked(reader);
            free(reader);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- reclaiming ---- */

void kilni_reader_improve_fences(void)
{
    if (!kilni_fence_ask()) {
        return;
    }
    /* Does not wait for the lock: this may run in a fork handler, while this very thread holds the
     * lock for the fork. */
    if (pthread_mutex_trylock(&lock) != 0) {
        return;
    }
    /* A thread that has passed an ordinary heavy fence has looked at all readers by now. A reader
     * that passes no fence, because of what is stored here, sees the table and cache->awaited as
     * that thread left them. For a thread that reclaims later, the system's fence also reaches
     * readers that are about to pass an ordinary one. */
    kilni_fence_switch(true);
    pthread_mutex_unlock(&lock);
}

static uint64_t oldest_locked(const kiln_cache *cache)
{
    uint64_t oldest = UINT64_MAX;
    uint64_t own = atomic_load_explicit(&cache->epoch, memory_order_relaxed);
    for (kilni_reader *reader = readers; reader; reader = reader->next) {
        for (int i = 0; i < KILNI_READER_PLACES; i++) {
            kilni_place *place = &reader->places[i];
            if (atomic_load_explicit(&place->cache, memory_order_acquire) == cache) {
                uint64_t epoch = atomic_load_explicit(&place->epoch, memory_order_acquire);
                /* An epoch of another cache means that the section seen was left meanwhile. */
                bool is_of_cache = (epoch ^ own) >> KILNI_EPOCH_BITS == 0;
                oldest = is_of_cache && epoch < oldest ? epoch : oldest;
            }
        }
    }
    return oldest;
}

/* Whether no thread except this one has a reader. A thread that gets one later sees what this one
 * has stored, because of the lock. */
static bool is_alone_locked(void)
{
    return !readers || (readers == kilni_reader_own && !readers->next);
}

/* Passes an ordinary fence. Switches to ordinary fences first if the system has refused its own.
 * Returns false if that does not suffice yet. */
static bool order_without_system_locked(bool refused)
{
    if (refused && kilni_fence_is_asymmetric()) {
        kilni_fence_switch(false);
    }
    if (kilni_fence_is_asymmetric()) {
        return false;
    }
    kilni_fence_heavy();
    kilni_reader_acknowledge_fences();
    const kilni_reader *reader = readers;
    while (reader && atomic_load_explicit(&reader->acknowledged, memory_order_acquire) ==
                         kilni_fence_state()) {
        reader = reader->next;
    }
    return !reader;
}

uint64_t kilni_reader_oldest(const kiln_cache *cache)
{
    pthread_mutex_lock(&lock);
    if (is_alone_locked()) {
        uint64_t oldest = oldest_locked(cache);
        pthread_mutex_unlock(&lock);
        return oldest;
    }
    pthread_mutex_unlock(&lock);
    /* The system's fence needs no lock: no thread relies on ordinary fences before the readers have
     * acknowledged them. */
    bool asymmetric = kilni_fence_is_asymmetric();
    bool ordered = asymmetric && kilni_fence_system();
    pthread_mutex_lock(&lock);
    if (!ordered) {
        ordered = order_without_system_locked(asymmetric);
    }
    uint64_t oldest = ordered ? oldest_locked(cache) : 0;
    pthread_mutex_unlock(&lock);
    return oldest;
}
