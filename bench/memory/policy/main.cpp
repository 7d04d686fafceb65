/* SPDX-License-Identifier: Apache-2.0
 *
 * policy_bench NAME [FILE]: replays a trace against Kiln's cache under each policy, and against
 * other caches. The trace is FILE, or without FILE a synthetic one with the seed NAME. Prints a
 * line for each:
 *
 *     policy <tab> capacity <tab> cost of misses / cost of requests
 *
 * The capacity is in percent of all objects' bytes.
 */
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include <kiln/cache.h>

#include "simulated.hpp"

namespace
{

void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

kiln_key *make_key(uint64_t number)
{
    kiln_key_builder *builder = nullptr;
    kiln_key *key = nullptr;
    check(kiln_key_builder_new(&builder) == KILN_OK);
    check(kiln_key_builder_add_number(builder, "number", number) == KILN_OK);
    check(kiln_key_builder_finish(builder, &key) == KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

/* Kiln's cache, through its public API. */
class Kiln : public Cache
{
  public:
    Kiln(const Trace &trace, double capacity, kiln_policy policy)
        : trace_(trace), keys_(trace.sizes.size())
    {
        kiln_cache_params params = {};
        params.struct_size = sizeof params;
        params.max_bytes = static_cast<uint64_t>(capacity);
        params.max_entries = KILN_UNLIMITED;
        params.policy = policy;
        check(kiln_cache_new(&params, &cache_) == KILN_OK);
    }
    ~Kiln() override
    {
        kiln_cache_free(&cache_);
        for (kiln_key *&key : keys_) {
            kiln_key_release(&key);
        }
    }
    bool request(uint32_t object) override
    {
        if (!keys_[object]) {
            keys_[object] = make_key(object);
        }
        kiln_reservation answer;
        check(kiln_cache_reserve(cache_, keys_[object], nullptr, &answer, nullptr) == KILN_OK);
        if (answer.outcome == KILN_OWNER) {
            check(kiln_ticket_fulfil(
                      &answer.ticket, &keys_[object], static_cast<uint64_t>(trace_.sizes[object]),
                      static_cast<uint64_t>(trace_.costs[object]), nullptr) == KILN_OK);
            return false;
        }
        kiln_pin_release(&answer.pin);
        return true;
    }

  private:
    const Trace &trace_;
    std::vector<kiln_key *> keys_;
    kiln_cache *cache_ = nullptr;
};

double cost_of_misses(const Trace &trace, const Way &way, double capacity)
{
    std::unique_ptr<Cache> cache = way.make(trace, capacity);
    double all = 0, missed = 0;
    for (uint32_t object : trace.requests) {
        all += trace.costs[object];
        missed += cache->request(object) ? 0 : trace.costs[object];
    }
    return missed / all;
}

} // namespace

std::vector<Way> kiln_ways()
{
    std::vector<Way> ways;
    for (kiln_policy policy :
         {KILN_POLICY_COST, KILN_POLICY_LRU, KILN_POLICY_FIFO, KILN_POLICY_AUTO}) {
        ways.push_back({std::string("kiln ") + kiln_policy_name(policy),
                        [policy](const Trace &trace, double capacity) -> std::unique_ptr<Cache> {
                            return std::make_unique<Kiln>(trace, capacity, policy);
                        }});
    }
    return ways;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: policy_bench NAME [FILE]\n");
        return 2;
    }
    Trace trace = argc > 2 ? read_trace(argv[2]) : make_sessions(strtoull(argv[1], nullptr, 10));
    double footprint = std::accumulate(trace.sizes.begin(), trace.sizes.end(), 0.0);
    std::vector<Way> ways = kiln_ways();
    for (Way &way : simulated_ways()) {
        ways.push_back(way);
    }
    for (int percent : {1, 3, 10, 30}) {
        for (const Way &way : ways) {
            printf("%s\t%d\t%.6f\n", way.name.c_str(), percent,
                   cost_of_misses(trace, way, footprint * percent / 100));
            fflush(stdout);
        }
    }
    return 0;
}
