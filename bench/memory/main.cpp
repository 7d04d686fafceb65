/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_bench ROUNDS [KEYS]: measures all subjects in turns, with 1, 64, 4,096 and 100,000 keys,
 * on one thread and on two, each on its own processor. Prints a line for each measurement:
 *
 *     subject <tab> keys <tab> threads <tab> nanoseconds per look-up
 *
 * At the end it prints the time of an insertion, as "insert" and "evict", and the memory that an
 * entry takes, as "bytes".
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include <kiln/cache.h>

#include "subject.hpp"

static double now_ns()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
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

/* The threads' mean time per look-up. */
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

/* Misses whose builds do nothing: the cache's own cost, with room and without. */
static void measure_insertions(const char *name, const Keys &keys, uint64_t max_entries)
{
    static uint64_t object = 1;
    kiln_cache_params params = {};
    params.struct_size = sizeof params;
    params.max_bytes = KILN_UNLIMITED;
    params.max_entries = max_entries;
    kiln_cache *cache = nullptr;
    if (kiln_cache_new(&params, &cache) != KILN_OK) {
        abort();
    }
    size_t before = mallinfo2().uordblks;
    double begin = now_ns();
    for (kiln_key *key : keys) {
        kiln_pin *pin;
        if (kiln_cache_get_or_build(cache, key, build_nothing, &object, &pin, nullptr) != KILN_OK) {
            abort();
        }
        kiln_pin_release(&pin);
    }
    double count = static_cast<double>(keys.size());
    printf("%s\t%zu\t1\t%.4f\n", name, keys.size(), (now_ns() - begin) / count);
    if (max_entries == KILN_UNLIMITED) {
        printf("bytes\t%zu\t1\t%.4f\n", keys.size(),
               static_cast<double>(mallinfo2().uordblks - before) / count);
    }
    kiln_cache_free(&cache);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* so that mallinfo2 counts all memory */
    size_t only = argc > 2 ? strtoul(argv[2], nullptr, 10) : 0;
    for (size_t key_count : {1, 64, 4096, 100000}) {
        if (only == 0 || only == key_count) {
            measure_look_ups(key_count, rounds);
        }
    }
    Keys keys = make_keys(100000, 1000000);
    measure_insertions("insert", keys, KILN_UNLIMITED);
    measure_insertions("evict", keys, 1000);
    free_keys(keys);
    return 0;
}
