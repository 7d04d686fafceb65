/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_bench ROUNDS [KEYS]: measures all subjects in turns, with 1, 64, 4,096 and 100,000 keys,
 * on one thread and on two, each on its own processor. Prints a line for each measurement:
 *
 *     subject <tab> keys <tab> threads <tab> nanoseconds per look-up
 *
 * At the end it prints the time of an insertion as "insert", and the memory that an entry takes as
 * "bytes". Then it prints the time of an insertion that evicts, as "evict", and as "floor evict"
 * for the floor. "shrink" is the time for each evicted entry when the capacity is set to one entry.
 * In these lines, "keys" is the number of entries in the cache, and "pinned" is added to the
 * subject if all entries are pinned.
 *
 * memory_bench ROUNDS threads MOST: measures the subjects that threads may share, with 1, 2, 4, …
 * MOST threads: on the same 64 keys, and, as "… own", on 64 separate keys for each thread. As
 * "evict", it measures insertions by all threads into one full cache; the time is the wall-clock
 * time divided by the insertions of all threads.
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include <kiln/cache.h>

#include "floor.h"
#include "subject.hpp"

static double now_ns()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/* This thread's processor time: for what needs no other thread, however busy the machine is. */
static double own_ns()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

static kiln_key *make_key(uint64_t number)
{
    kiln_key_builder *builder = nullptr;
    kiln_key *key = nullptr;
    if (kiln_key_builder_new(&builder) != KILN_OK ||
        kiln_key_builder_add_text(builder, "device", "a device of benches") != KILN_OK ||
        kiln_key_builder_add_number(builder, "number", number) != KILN_OK ||
        kiln_key_builder_finish(builder, &key) != KILN_OK) {
        abort();
    }
    kiln_key_builder_free(&builder);
    return key;
}

static Keys make_keys(size_t count, uint64_t first)
{
    Keys keys;
    for (size_t i = 0; i < count; i++) {
        keys.push_back(make_key(first + i));
    }
    return keys;
}

static void free_keys(Keys &keys)
{
    for (kiln_key *&key : keys) {
        kiln_key_release(&key);
    }
}

/* A Zipf distribution of keys, with an exponent of 0.9. If @half is 0 or 1, it has only every
 * second key, so that two threads share none. */
static Sequence make_sequence(size_t key_count, uint64_t seed, int half)
{
    std::vector<double> sums;
    double sum = 0;
    for (size_t i = 0; i < key_count; i++) {
        sum += 1 / std::pow(static_cast<double>(i + 1), 0.9);
        sums.push_back(sum);
    }
    Sequence sequence;
    while (sequence.size() < 65536) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        double picked = static_cast<double>(seed >> 11) / 9007199254740992.0 * sum;
        size_t low = 0, high = key_count - 1;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (sums[middle] < picked) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        /* Keys with neighbouring ranks must not be neighbours in memory. */
        size_t key = low * 2654435761u % key_count;
        if (half >= 0 && key_count > 1) {
            key = (key & ~static_cast<size_t>(1)) + static_cast<size_t>(half);
            key = key < key_count ? key : static_cast<size_t>(half);
        }
        sequence.push_back(static_cast<uint32_t>(key));
    }
    return sequence;
}

static void stay_on(unsigned processor)
{
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET(processor % std::thread::hardware_concurrency(), &processors);
    pthread_setaffinity_np(pthread_self(), sizeof processors, &processors);
}

static volatile uint64_t sink;

/* Returns the mean time per look-up over all threads. */
static double measure(Subject &subject, const Keys &keys, const std::vector<Sequence> &sequences,
                      size_t count)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, nullptr, static_cast<unsigned>(sequences.size()));
    std::vector<double> taken(sequences.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < sequences.size(); i++) {
        threads.emplace_back([&, i] {
            stay_on(static_cast<unsigned>(i));
            subject.begin_thread();
            sink = subject.run(keys, sequences[i], count / 10 + 1);
            pthread_barrier_wait(&start);
            double begin = now_ns();
            sink = subject.run(keys, sequences[i], count);
            taken[i] = (now_ns() - begin) / static_cast<double>(count);
            subject.end_thread();
        });
    }
    double sum = 0;
    for (size_t i = 0; i < sequences.size(); i++) {
        threads[i].join();
        sum += taken[i];
    }
    pthread_barrier_destroy(&start);
    return sum / static_cast<double>(sequences.size());
}

static void measure_look_ups(size_t key_count, int rounds)
{
    Keys keys = make_keys(key_count, 0);
    Objects objects(key_count, 1);
    std::vector<Maker> makers = kiln_makers();
    for (const Maker &peer : peer_makers()) {
        makers.push_back(peer);
    }
    std::vector<std::unique_ptr<Subject>> subjects;
    for (const Maker &maker : makers) {
        subjects.push_back(maker.make(keys, objects));
    }
    std::vector<std::vector<Sequence>> ways = {
        {make_sequence(key_count, 1, -1)},
        {make_sequence(key_count, 1, -1), make_sequence(key_count, 2, -1)},
        {make_sequence(key_count, 1, 0), make_sequence(key_count, 2, 1)},
    };
    const char *names[] = {"1", "2", "2 apart"};
    for (int round = 0; round < rounds; round++) {
        for (size_t way = 0; way < ways.size(); way++) {
            for (size_t i = 0; i < makers.size(); i++) {
                size_t count = makers[i].name == "onednn" ? 2000 : 200000;
                printf("%s\t%zu\t%s\t%.4f\n", makers[i].name.c_str(), key_count, names[way],
                       measure(*subjects[i], keys, ways[way], count));
            }
        }
        fflush(stdout);
    }
    subjects.clear();
    free_keys(keys);
}

static kiln_status build_nothing(void *object, const kiln_key *, kiln_built *ret_built,
                                 kiln_error *)
{
    *ret_built = {object, 100, 1000000};
    return KILN_OK;
}

static uint64_t built = 1;

/* Inserts keys by misses whose builds do nothing, which measures the cache's own cost, with room
 * and without. Keeps the pins if @pins is not NULL. */
static void insert_keys(kiln_cache *cache, const Keys &keys, std::vector<kiln_pin *> *pins)
{
    for (kiln_key *key : keys) {
        kiln_pin *pin;
        if (kiln_cache_get_or_build(cache, key, build_nothing, &built, &pin, nullptr) != KILN_OK) {
            abort();
        }
        if (pins) {
            pins->push_back(pin);
        } else {
            kiln_pin_release(&pin);
        }
    }
}

static kiln_cache *new_cache(uint64_t max_entries)
{
    kiln_cache_params params = {};
    params.struct_size = sizeof params;
    params.max_bytes = KILN_UNLIMITED;
    params.max_entries = max_entries;
    kiln_cache *cache = nullptr;
    if (kiln_cache_new(&params, &cache) != KILN_OK) {
        abort();
    }
    return cache;
}

static void measure_insertions(const Keys &keys)
{
    kiln_cache *cache = new_cache(KILN_UNLIMITED);
    size_t before = mallinfo2().uordblks;
    double begin = own_ns();
    insert_keys(cache, keys, nullptr);
    double count = static_cast<double>(keys.size());
    printf("insert\t%zu\t1\t%.4f\n", keys.size(), (own_ns() - begin) / count);
    printf("bytes\t%zu\t1\t%.4f\n", keys.size(),
           static_cast<double>(mallinfo2().uordblks - before) / count);
    kiln_cache_free(&cache);
}

/* Fills a cache of some size, measures insertions that evict, then evicts all objects except one.
 */
static void measure_evictions(const Keys &first, const Keys &keys, bool pinned)
{
    kiln_cache *cache = new_cache(first.size());
    std::vector<kiln_pin *> pins;
    pins.reserve(first.size() + keys.size());
    insert_keys(cache, first, pinned ? &pins : nullptr);
    double begin = own_ns();
    insert_keys(cache, keys, pinned ? &pins : nullptr);
    const char *title = pinned ? " pinned" : "";
    printf("evict%s\t%zu\t1\t%.4f\n", title, first.size(),
           (own_ns() - begin) / static_cast<double>(keys.size()));
    begin = own_ns();
    if (kiln_cache_set_capacity(cache, KILN_UNLIMITED, 1) != KILN_OK) {
        abort();
    }
    printf("shrink%s\t%zu\t1\t%.4f\n", title, first.size(),
           (own_ns() - begin) / static_cast<double>(first.size() - 1));
    for (kiln_pin *&pin : pins) {
        kiln_pin_release(&pin);
    }
    kiln_cache_free(&cache);
}

/* Measures the same for the floor. */
static void measure_floor_evictions(const Keys &first, const Keys &keys)
{
    floor_lru *cache = floor_lru_new(first.size());
    for (kiln_key *key : first) {
        floor_lru_insert(cache, key, &built);
    }
    double begin = own_ns();
    for (kiln_key *key : keys) {
        floor_lru_insert(cache, key, &built);
    }
    printf("floor evict\t%zu\t1\t%.4f\n", first.size(),
           (own_ns() - begin) / static_cast<double>(keys.size()));
    floor_lru_free(cache);
}

/* ---- many threads ---- */

static const size_t KEYS_OF_THREAD = 64;

/* Each thread looks up the same keys, or its own. */
static std::vector<Sequence> sequences_for(size_t thread_count, bool own)
{
    std::vector<Sequence> sequences;
    for (size_t i = 0; i < thread_count; i++) {
        sequences.push_back(make_sequence(KEYS_OF_THREAD, i + 1, -1));
        for (uint32_t &key : sequences.back()) {
            key += static_cast<uint32_t>(own ? i * KEYS_OF_THREAD : 0);
        }
    }
    return sequences;
}

static std::vector<size_t> thread_counts(size_t most)
{
    std::vector<size_t> counts;
    for (size_t count = 1; count < most; count *= 2) {
        counts.push_back(count);
    }
    counts.push_back(most);
    return counts;
}

static void measure_shared_look_ups(int rounds, size_t most)
{
    Keys keys = make_keys(KEYS_OF_THREAD * most, 0);
    Objects objects(keys.size(), 1);
    std::vector<Maker> makers;
    std::vector<std::unique_ptr<Subject>> subjects;
    for (const std::vector<Maker> &some : {kiln_makers(), peer_makers()}) {
        for (const Maker &maker : some) {
            if (maker.is_shared) {
                makers.push_back(maker);
                subjects.push_back(maker.make(keys, objects));
            }
        }
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t count : thread_counts(most)) {
            for (size_t i = 0; i < 2 * makers.size(); i++) {
                const bool own = i % 2 == 1;
                const double taken =
                    measure(*subjects[i / 2], keys, sequences_for(count, own), 200000);
                printf("%s%s\t%zu\t%zu\t%.4f\n", makers[i / 2].name.c_str(), own ? " own" : "",
                       KEYS_OF_THREAD, count, taken);
            }
        }
        fflush(stdout);
    }
    subjects.clear();
    free_keys(keys);
}

static void insert_all(kiln_cache *cache, const Keys &keys, size_t first, size_t step)
{
    for (size_t i = first; i < keys.size(); i += step) {
        kiln_pin *pin;
        if (kiln_cache_get_or_build(cache, keys[i], build_nothing, &built, &pin, nullptr) !=
            KILN_OK) {
            abort();
        }
        kiln_pin_release(&pin);
    }
}

static void measure_shared_insertions(const Keys &keys, size_t thread_count)
{
    kiln_cache *cache = new_cache(1000);
    pthread_barrier_t start;
    pthread_barrier_init(&start, nullptr, static_cast<unsigned>(thread_count));
    std::vector<double> begins(thread_count), ends(thread_count);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < thread_count; i++) {
        threads.emplace_back([&, i] {
            stay_on(static_cast<unsigned>(i));
            pthread_barrier_wait(&start);
            begins[i] = now_ns();
            insert_all(cache, keys, i, thread_count);
            ends[i] = now_ns();
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    pthread_barrier_destroy(&start);
    printf("evict\t%zu\t%zu\t%.4f\n", keys.size(), thread_count,
           (*std::max_element(ends.begin(), ends.end()) -
            *std::min_element(begins.begin(), begins.end())) /
               static_cast<double>(keys.size()));
    kiln_cache_free(&cache);
}

static int measure_threads(int rounds, size_t most)
{
    measure_shared_look_ups(rounds, most);
    Keys keys = make_keys(100000, 1000000);
    for (int round = 0; round < rounds; round++) {
        for (size_t count : thread_counts(most)) {
            measure_shared_insertions(keys, count);
        }
    }
    free_keys(keys);
    return 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* so that mallinfo2 counts all memory */
    if (argc > 3 && strcmp(argv[2], "threads") == 0) {
        return measure_threads(rounds, strtoul(argv[3], nullptr, 10));
    }
    size_t only = argc > 2 ? strtoul(argv[2], nullptr, 10) : 0;
    for (size_t key_count : {1, 64, 4096, 100000}) {
        if (only == 0 || only == key_count) {
            measure_look_ups(key_count, rounds);
        }
    }
    Keys keys = make_keys(100000, 1000000);
    for (int round = 0; round < rounds; round++) {
        measure_insertions(keys);
        for (size_t size : {32, 128, 1000, 100000}) {
            Keys first = make_keys(size, 2000000);
            measure_floor_evictions(first, keys);
            measure_evictions(first, keys, false);
            measure_evictions(first, keys, true);
            free_keys(first);
        }
    }
    free_keys(keys);
    return 0;
}
