/* SPDX-License-Identifier: Apache-2.0
 *
 * A subject of measurement: a table of keys and objects, and a function that looks keys up in it.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kiln/key.h>

using Keys = std::vector<kiln_key *>;
using Objects = std::vector<uint64_t>;

/* The keys that a thread looks up, in order; the size is a power of two. */
using Sequence = std::vector<uint32_t>;

class Subject
{
  public:
    virtual ~Subject() = default;

    /* Looks up that many keys, on any thread. Returns the sum of what it found. */
    virtual uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) = 0;

    /* What a thread does before its first run, and after its last. */
    virtual void begin_thread()
    {
    }
    virtual void end_thread()
    {
    }
};

struct Maker {
    std::string name;
    std::unique_ptr<Subject> (*make)(const Keys &keys, Objects &objects);
    bool is_shared; /* measured with many threads */
};

/* All subjects in this build: Kiln's and the floor, and the peers. */
std::vector<Maker> kiln_makers();
std::vector<Maker> peer_makers();

/* The look-up is inlined into the loop, so that no peer pays for the harness. */
template <typename LookUp>
uint64_t run_loop(const Keys &keys, const Sequence &sequence, size_t count, LookUp look_up)
{
    uint64_t sum = 0;
    const size_t mask = sequence.size() - 1;
    for (size_t i = 0; i < count; i++) {
        sum += look_up(keys[sequence[i & mask]]);
    }
    return sum;
}

/* As above, for look-ups of several keys at once. */
constexpr size_t BATCH = 16;

template <typename LookUp>
uint64_t run_batches(const Keys &keys, const Sequence &sequence, size_t count, LookUp look_up)
{
    uint64_t sum = 0;
    const size_t mask = sequence.size() - 1;
    for (size_t i = 0; i < count; i += BATCH) {
        const kiln_key *batch[BATCH];
        for (size_t k = 0; k < BATCH; k++) {
            batch[k] = keys[sequence[(i + k) & mask]];
        }
        sum += look_up(batch);
    }
    return sum;
}

inline uint64_t hash_of(const kiln_key *key)
{
    const kiln_digest digest = kiln_key_digest(key);
    uint64_t hash;
    __builtin_memcpy(&hash, digest.bytes, sizeof hash);
    return hash;
}
