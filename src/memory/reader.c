/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/reader.h"

#include <stdlib.h>
#include <strings.h>
#include <sys/single_threaded.h>

#include "memory/process.h"
#include "memory/section.h"

_Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Guards all below, and what kilni_reader says of it; and orders a switch of the fences. Taken
 * after a cache's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { POOL_SIZE = 32 };

/* The first readers need no memory. */
static kilni_reader pool[POOL_SIZE];
static size_t pool_used;

/* The readers of threads, which a thread that reclaims looks at; and those of threads that ended.
 * Linked by kilni_reader.next and from. */
static kilni_reader *readers, *spare_readers;

/* A bit for each line of counters that no thread has. */
static unsigned free_lines = (1u << KILNI_COUNTER_LINES) - 1;

static pthread_key_t end_of_thread; /* its value is the thread's reader */
static bool serving;                /* threads can have readers; the key is there */

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

/* NULL for want of memory. */
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

static void give_back_locked(kilni_reader *reader)
{
    if (reader->number < KILNI_COUNTER_LINES) {
        free_lines |= 1u << reader->number;
    }
    unlink_locked(reader);
    link_locked(&spare_readers, reader);
}

static void give_back(kilni_reader *reader)
{
    pthread_mutex_lock(&lock);
    give_back_locked(reader);
    pthread_mutex_unlock(&lock);
}

kilni_reader *kilni_reader_claim(void)
{
    kilni_reader *reader = take();
    if (reader && pthread_setspecific(end_of_thread, reader) != 0) {
        give_back(reader);
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
    /* What ends after this, and reads, takes a reader anew. */
    kilni_reader_own = NULL;
    give_back(reader);
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

/* Of all threads the one that forked goes on. */
void kilni_reader_after_fork_in_child(void)
{
    kilni_reader *next;
    for (kilni_reader *reader = readers; reader; reader = next) {
        next = reader->next;
        if (reader != kilni_reader_own) {
            for (int i = 0; i < KILNI_READER_PLACES; i++) {
                atomic_store_explicit(&reader->places[i].cache, NULL, memory_order_relaxed);
            }
            give_back_locked(reader);
        }
    }
    /* With one thread it costs nothing to ask, whatever fences the parent had. */
    kilni_fence_switch(kilni_fence_ask());
    kilni_reader_acknowledge_fences();
    pthread_mutex_unlock(&lock);
}

/* Each C library of a process (dlmopen brings more) counts its keys from 0, and a thread has one
 * place for the values of all of them: what one library sets for a key, another reads for its key
 * of the same number. So this takes a number that others do not come to; libnvrtc alone has 40
 * keys. All numbers below are in use until it has that one. Each process pays for that once, and
 * glibc looks for a free key from 0 each time: twice the number costs four times as much. */
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
    end_of_thread = keys[--count];
    while (count > 0) {
        pthread_key_delete(keys[--count]);
    }
    return true;
}

void kilni_reader_begin(void)
{
    /* A program that is on its way to its first results is not to be held up for look-ups that it
     * may never make. */
    kilni_fence_switch(__libc_single_threaded && kilni_fence_ask());
    pthread_mutex_lock(&lock);
    serving = create_key();
    pthread_mutex_unlock(&lock);
}

/* At the process's end, while other threads go on: they must not come here when they end. Those
 * that read still have their readers. */
__attribute__((destructor)) static void finish(void)
{
    pthread_mutex_lock(&lock);
    if (serving) {
        pthread_key_delete(end_of_thread);
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

/* ---- who reclaims ---- */

void kilni_reader_improve_fences(void)
{
    if (!kilni_fence_ask()) {
        return;
    }
    /* Not waited for: this may be a handler of a fork, for which this very thread holds it. */
    if (pthread_mutex_trylock(&lock) != 0) {
        return;
    }
    /* Who has passed an ordinary heavy fence has looked at all readers by now: who passes no fence,
     * because of what is stored here, sees the table and cache->awaited as that one had left them.
     * Who comes later has the system reach also those who are about to pass an ordinary one. */
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
                /* One of another cache says that the section seen was left meanwhile. */
                bool is_of_cache = (epoch ^ own) >> KILNI_EPOCH_BITS == 0;
                oldest = is_of_cache && epoch < oldest ? epoch : oldest;
            }
        }
    }
    return oldest;
}

/* Whether no thread but this one has a reader. A thread that gets one later sees what this one has
 * stored, because of the lock. */
static bool is_alone_locked(void)
{
    return !readers || (readers == kilni_reader_own && !readers->next);
}

/* Passes an ordinary fence; switches to these if the system has refused its own. False if that is
 * not enough yet. */
static bool order_without_system_locked(bool refused)
{
    if (refused && kilni_fence_is_asymmetric()) {
        kilni_fence_switch(false);
    }
    if (kilni_fence_is_asymmetric() || !kilni_fence_heavy()) {
        return false;
    }
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
    /* The system's fence needs no lock: ordinary fences do not come before readers acknowledge
     * them. */
    bool asymmetric = kilni_fence_is_asymmetric();
    bool ordered = asymmetric && kilni_fence_heavy();
    pthread_mutex_lock(&lock);
    if (!ordered) {
        ordered = order_without_system_locked(asymmetric);
    }
    uint64_t oldest = ordered ? oldest_locked(cache) : 0;
    pthread_mutex_unlock(&lock);
    return oldest;
}
