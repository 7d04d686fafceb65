/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/reader.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "os/os.h"
#include "os/thread.h"

_Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Guards the variables below, except those that are set only once, and the fields of kilni_reader
 * whose comments say so. Also orders the switches of the fences. If a thread takes this lock and a
 * cache's lock, it takes the cache's lock first. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { POOL_SIZE = 32 };

/* The first readers are in this array and need no allocation. */
static kilni_reader pool[POOL_SIZE];
static size_t pool_used;

/* The readers that threads have, and the readers that threads have released. A thread that reclaims
 * examines the first list. Both lists are linked by kilni_reader.next and from. */
static kilni_reader *readers, *spare_readers;

/* For each line of counters, a bit that is set if no thread has the line. */
static unsigned free_lines = (1u << KILNI_COUNTER_LINES) - 1;

static pthread_key_t reader_key; /* its value is the thread's reader */
static bool serving;             /* threads can have readers; the key exists */

/* Called first when a thread with a reader ends. Set once. */
static void (*before_thread_ends)(kilni_reader *reader);

/* ---- fences ---- */

#ifdef KILNI_FENCE_IS_COUNTED

_Atomic unsigned kilni_fence_word;

static bool fence_ask(void)
{
    return false;
}

static void fence_switch(bool asymmetric)
{
    (void)asymmetric;
}

static bool fence_system(void)
{
    return false;
}

static void fence_heavy(void)
{
    kilni_fence_light(false);
}

#else

/* This many ordinary fences cost a thread about as much time as one request to the system for
 * asymmetric fences. */
enum { MANY_FENCES = 1 << 20 };

_Atomic unsigned kilni_fence_state_word;

static bool fence_ask(void)
{
    const int needed = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    int granted = kilni_os()->membarrier(MEMBARRIER_CMD_QUERY);
    return granted >= 0 && (granted & needed) == needed &&
           kilni_os()->membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

static void fence_switch(bool asymmetric)
{
    unsigned next = (kilni_fence_state() | 1) + 1;
    atomic_store_explicit(&kilni_fence_state_word, next | asymmetric, memory_order_release);
}

static void fence_heavy(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

static bool fence_system(void)
{
    return kilni_os()->membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

#endif

/* Records that this thread has seen the last switch. If that switch was to ordinary fences, all
 * later fences of the thread are ordinary until the next switch. */
static void acknowledge_fences(void)
{
    kilni_reader *reader = kilni_reader_own;
    unsigned state = kilni_fence_state();
    if (reader && atomic_load_explicit(&reader->acknowledged, memory_order_relaxed) != state) {
        atomic_store_explicit(&reader->acknowledged, state, memory_order_release);
    }
}

#ifndef KILNI_FENCE_IS_COUNTED
/* Switches to asymmetric fences if the system supports them and no thread holds the readers' lock
 * at this moment. Light fences then cost nothing. */
static void improve_fences(void)
{
    if (!fence_ask()) {
        return;
    }
    /* This function must not wait for the lock. It can run in a fork handler, while the same thread
     * already holds the lock for the fork. */
    if (pthread_mutex_trylock(&lock) != 0) {
        return;
    }
    /* Any thread that has issued an ordinary heavy fence has also examined all readers by now. A
     * reader that sees this switch, and therefore issues no fence, sees the table and
     * cache->awaited as that thread left them. A thread that reclaims later issues the system's
     * fence, which also reaches readers that are about to issue an ordinary fence. */
    fence_switch(true);
    pthread_mutex_unlock(&lock);
}

void kilni_fence_ordinary(void)
{
    static _Thread_local unsigned passed __attribute__((tls_model("initial-exec")));
    acknowledge_fences();
    atomic_thread_fence(memory_order_seq_cst);
    if (++passed % MANY_FENCES == 0) {
        improve_fences();
    }
}
#endif

/* ---- the beginning and the end of threads ---- */

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

/* Returns an unused reader, or NULL if there is no memory. */
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

/* Adds the thread's counts to the objects' holds. Because of the lock, no thread that collects can
 * take these counts at the same time. So all objects that have counts in this tally still exist. */
static void settle_tally_locked(kilni_reader *reader)
{
    if (reader->tally) {
        kilni_tally_settle(reader->tally);
        free(reader->tally);
        reader->tally = NULL;
    }
}

static void release_locked(kilni_reader *reader)
{
    settle_tally_locked(reader);
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

void kilni_reader_new_tally(kilni_reader *reader)
{
    pthread_mutex_lock(&lock);
    if (serving) {
        reader->tally = kilni_tally_new();
    }
    pthread_mutex_unlock(&lock);
}

static void end_thread(void *value)
{
    kilni_reader *reader = value;
    before_thread_ends(reader);
    /* If a later destructor reads a cache, it claims a new reader. */
    kilni_reader_own = NULL;
    release(reader);
}

uint64_t kilni_thread_number(void)
{
    /* pthread_self is not used, because a new thread can get the value of an ended thread whose
     * tickets still exist. */
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (number == 0) {
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    }
    return number;
}

/* ---- forks and the end of the process ---- */

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
    /* The child has only one thread, so a request to the system for asymmetric fences costs
     * nothing. It does not matter which fences the parent had. */
    fence_switch(fence_ask());
    acknowledge_fences();
    pthread_mutex_unlock(&lock);
}

/* A process can have several C libraries, because dlmopen can load more of them. Each library
 * numbers its thread-specific keys from 0, but in each thread, all libraries store their values in
 * the same place. So if one library sets a value for a key, another library reads this value for
 * its own key with the same number. This function therefore takes a number that other libraries do
 * not reach; libnvrtc alone has 40 keys. To get that number, it first takes all lower numbers, and
 * then frees them. Each process does this once. glibc begins each search for a free key at 0, so
 * the cost is quadratic: twice as many keys would take four times as long. */
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

void kilni_reader_begin(void (*end_thread_of)(kilni_reader *reader))
{
    before_thread_ends = end_thread_of;
    /* A request for asymmetric fences delays a program that has threads. Its first results must not
     * be delayed to make look-ups faster, because the program might never make many look-ups. */
    fence_switch(kilni_is_single_threaded() && fence_ask());
    pthread_mutex_lock(&lock);
    serving = create_key();
    pthread_mutex_unlock(&lock);
}

/* Runs at the end of the process. Other threads might still be running. When they end later, they
 * must not call end_thread. Threads that are reading keep their readers. */
__attribute__((destructor)) static void finish(void)
{
    pthread_mutex_lock(&lock);
    if (serving) {
        pthread_key_delete(reader_key);
        serving = false;
    }
    if (kilni_reader_own) {
        settle_tally_locked(kilni_reader_own);
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

static uint64_t oldest_locked(const kiln_cache *cache)
{
    uint64_t oldest = UINT64_MAX;
    uint64_t own = atomic_load_explicit(&cache->epoch, memory_order_relaxed);
    for (kilni_reader *reader = readers; reader; reader = reader->next) {
        for (int i = 0; i < KILNI_READER_PLACES; i++) {
            kilni_place *place = &reader->places[i];
            if (atomic_load_explicit(&place->cache, memory_order_acquire) == cache) {
                uint64_t epoch = atomic_load_explicit(&place->epoch, memory_order_acquire);
                /* If the epoch belongs to a different cache, the section has been left in the
                 * meantime. */
                bool is_of_cache = (epoch ^ own) >> KILNI_EPOCH_BITS == 0;
                oldest = is_of_cache && epoch < oldest ? epoch : oldest;
            }
        }
    }
    return oldest;
}

/* Returns true if no other thread has a reader. Because of the lock, a thread that gets a reader
 * later sees what this thread has stored. */
static bool is_alone_locked(void)
{
    return !readers || (readers == kilni_reader_own && !readers->next);
}

/* Issues an ordinary fence. If @refused is true, the system has refused to issue its fence. In this
 * case, switches to ordinary fences first. Returns false if an ordinary fence does not suffice yet,
 * because fences are asymmetric or a reader has not acknowledged the switch. */
static bool order_without_system_locked(bool refused)
{
    if (refused && kilni_fence_is_asymmetric()) {
        fence_switch(false);
    }
    if (kilni_fence_is_asymmetric()) {
        return false;
    }
    fence_heavy();
    acknowledge_fences();
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
    /* The system's fence needs no lock, because no thread relies on ordinary fences before the
     * readers have acknowledged them. */
    bool asymmetric = kilni_fence_is_asymmetric();
    bool ordered = asymmetric && fence_system();
    pthread_mutex_lock(&lock);
    if (!ordered) {
        ordered = order_without_system_locked(asymmetric);
    }
    uint64_t oldest = ordered ? oldest_locked(cache) : 0;
    pthread_mutex_unlock(&lock);
    return oldest;
}

/* ---- tallies ---- */

int64_t kilni_reader_tallied(const kilni_object *object)
{
    int64_t sum = 0;
    pthread_mutex_lock(&lock);
    for (const kilni_reader *reader = readers; reader; reader = reader->next) {
        sum += reader->tally ? kilni_tally_of(reader->tally, object) : 0;
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

int64_t kilni_reader_take_tallied(const kilni_object *object)
{
    int64_t sum = 0;
    pthread_mutex_lock(&lock);
    for (const kilni_reader *reader = readers; reader; reader = reader->next) {
        sum += reader->tally ? kilni_tally_take(reader->tally, object) : 0;
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

static bool is_being_left_locked(kiln_cache *leaving)
{
    for (kilni_reader *reader = readers; reader; reader = reader->next) {
        for (int i = 0; i < KILNI_READER_PLACES; i++) {
            if (atomic_load_explicit(&reader->places[i].cache, memory_order_acquire) == leaving) {
                return true;
            }
        }
    }
    return false;
}

void kilni_reader_wait_for_leaving(const kiln_cache *cache)
{
    /* A place has the value KILNI_PLACE_LEAVING only for a few instructions. */
    static const struct timespec a_moment = {.tv_nsec = 10000};
    pthread_mutex_lock(&lock);
    while (is_being_left_locked(KILNI_PLACE_LEAVING(cache))) {
        pthread_mutex_unlock(&lock);
        nanosleep(&a_moment, NULL);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}
