/* SPDX-License-Identifier: Apache-2.0
 *
 * Each policy as its authors describe it, implemented in the simplest way that gives the same
 * results. An object larger than the cache never enters.
 */
#include "simulated.hpp"

#include <algorithm>
#include <limits>
#include <list>
#include <random>
#include <set>

namespace
{

/* What the policies share: sizes, and where each object is. */
class Simulated : public Cache
{
  protected:
    using List = std::list<uint32_t>;
    enum Place : uint8_t { OUT, FIRST, SECOND, THIRD, GHOST };

    Simulated(const Trace &trace, double capacity)
        : trace_(trace), capacity_(capacity), places_(trace.sizes.size(), OUT),
          positions_(trace.sizes.size())
    {
    }

    double size(uint32_t object) const
    {
        return trace_.sizes[object];
    }

    void enter(List &list, double &bytes, uint32_t object, Place place)
    {
        positions_[object] = list.insert(list.begin(), object);
        bytes += size(object);
        places_[object] = place;
    }

    void leave(List &list, double &bytes, uint32_t object)
    {
        list.erase(positions_[object]);
        bytes -= size(object);
        places_[object] = OUT;
    }

    const Trace &trace_;
    const double capacity_;
    std::vector<Place> places_;
    std::vector<List::iterator> positions_;
};

class Queue : public Simulated
{
  public:
    Queue(const Trace &trace, double capacity, bool by_use)
        : Simulated(trace, capacity), by_use_(by_use)
    {
    }
    bool request(uint32_t object) override
    {
        if (places_[object] == FIRST) {
            if (by_use_) {
                list_.splice(list_.begin(), list_, positions_[object]);
            }
            return true;
        }
        if (size(object) <= capacity_) {
            while (bytes_ + size(object) > capacity_) {
                leave(list_, bytes_, list_.back());
            }
            enter(list_, bytes_, object, FIRST);
        }
        return false;
    }

  private:
    const bool by_use_;
    List list_;
    double bytes_ = 0;
};

/* Zhang and others, NSDI 2024. */
class Sieve : public Simulated
{
  public:
    Sieve(const Trace &trace, double capacity)
        : Simulated(trace, capacity), visited_(trace.sizes.size()), hand_(list_.end())
    {
    }
    bool request(uint32_t object) override
    {
        if (places_[object] == FIRST) {
            visited_[object] = true;
            return true;
        }
        if (size(object) <= capacity_) {
            while (bytes_ + size(object) > capacity_) {
                evict();
            }
            enter(list_, bytes_, object, FIRST);
            visited_[object] = false;
        }
        return false;
    }

  private:
    void evict()
    {
        auto step_back = [this](List::iterator at) {
            return at == list_.begin() ? std::prev(list_.end()) : std::prev(at);
        };
        List::iterator at = hand_ == list_.end() ? std::prev(list_.end()) : hand_;
        while (visited_[*at]) {
            visited_[*at] = false;
            at = step_back(at);
        }
        hand_ = at == list_.begin() ? list_.end() : std::prev(at);
        leave(list_, bytes_, *at);
    }

    std::vector<bool> visited_;
    List list_;
    List::iterator hand_;
    double bytes_ = 0;
};

/* Yang and others, SOSP 2023. */
class S3Fifo : public Simulated
{
  public:
    S3Fifo(const Trace &trace, double capacity)
        : Simulated(trace, capacity), uses_(trace.sizes.size())
    {
    }
    bool request(uint32_t object) override
    {
        if (places_[object] == FIRST || places_[object] == SECOND) {
            uses_[object] = std::min(uses_[object] + 1, 3);
            return true;
        }
        if (size(object) > capacity_) {
            return false;
        }
        bool was_ghost = places_[object] == GHOST;
        if (was_ghost) {
            leave(ghost_, ghost_bytes_, object);
        }
        while (small_bytes_ + main_bytes_ + size(object) > capacity_) {
            evict();
        }
        if (was_ghost) {
            enter(main_, main_bytes_, object, SECOND);
        } else {
            enter(small_, small_bytes_, object, FIRST);
        }
        uses_[object] = 0;
        return false;
    }

  private:
    void evict()
    {
        if (small_bytes_ > 0.1 * capacity_ || main_.empty()) {
            uint32_t object = small_.back();
            leave(small_, small_bytes_, object);
            if (uses_[object] > 1) {
                uses_[object] = 0;
                enter(main_, main_bytes_, object, SECOND);
            } else {
                enter(ghost_, ghost_bytes_, object, GHOST);
                while (ghost_bytes_ > 0.9 * capacity_) {
                    leave(ghost_, ghost_bytes_, ghost_.back());
                }
            }
            return;
        }
        while (uses_[main_.back()] > 0) {
            uses_[main_.back()]--;
            main_.splice(main_.begin(), main_, std::prev(main_.end()));
        }
        leave(main_, main_bytes_, main_.back());
    }

    std::vector<int> uses_;
    List small_, main_, ghost_;
    double small_bytes_ = 0, main_bytes_ = 0, ghost_bytes_ = 0;
};

/* Einziger and others, with a window of 1 % and exact counts instead of their sketch. */
class WTinyLfu : public Simulated
{
  public:
    WTinyLfu(const Trace &trace, double capacity)
        : Simulated(trace, capacity), counts_(trace.sizes.size())
    {
    }
    bool request(uint32_t object) override
    {
        count(object);
        switch (places_[object]) {
        case FIRST:
            window_.splice(window_.begin(), window_, positions_[object]);
            return true;
        case SECOND:
            leave(probation_, probation_bytes_, object);
            enter(protected_, protected_bytes_, object, THIRD);
            while (protected_bytes_ > 0.8 * 0.99 * capacity_) {
                uint32_t demoted = protected_.back();
                leave(protected_, protected_bytes_, demoted);
                enter(probation_, probation_bytes_, demoted, SECOND);
            }
            return true;
        case THIRD:
            protected_.splice(protected_.begin(), protected_, positions_[object]);
            return true;
        default:
            break;
        }
        if (size(object) <= 0.99 * capacity_) {
            enter(window_, window_bytes_, object, FIRST);
            while (window_bytes_ > 0.01 * capacity_) {
                uint32_t candidate = window_.back();
                leave(window_, window_bytes_, candidate);
                admit(candidate);
            }
        }
        return false;
    }

  private:
    void count(uint32_t object)
    {
        counts_[object] = std::min(counts_[object] + 1, 15);
        if (++counted_ >=
            10 * std::max<size_t>(100, window_.size() + probation_.size() + protected_.size())) {
            for (int &one : counts_) {
                one /= 2;
            }
            counted_ = 0;
        }
    }

    void admit(uint32_t candidate)
    {
        while (probation_bytes_ + protected_bytes_ + size(candidate) > 0.99 * capacity_) {
            bool from_probation = !probation_.empty();
            uint32_t victim = from_probation ? probation_.back() : protected_.back();
            if (counts_[candidate] <= counts_[victim]) {
                return;
            }
            from_probation ? leave(probation_, probation_bytes_, victim)
                           : leave(protected_, protected_bytes_, victim);
        }
        enter(probation_, probation_bytes_, candidate, SECOND);
    }

    std::vector<int> counts_;
    size_t counted_ = 0;
    List window_, probation_, protected_;
    double window_bytes_ = 0, probation_bytes_ = 0, protected_bytes_ = 0;
};

/* Cherkasova 1998, with the rank updated at each use, and an exact order. */
class Gdsf : public Simulated
{
  public:
    Gdsf(const Trace &trace, double capacity, bool by_cost)
        : Simulated(trace, capacity), by_cost_(by_cost), uses_(trace.sizes.size()),
          ranks_(trace.sizes.size())
    {
    }
    bool request(uint32_t object) override
    {
        bool is_hit = places_[object] == FIRST;
        if (is_hit) {
            order_.erase({ranks_[object], object});
        } else {
            if (size(object) > capacity_) {
                return false;
            }
            while (bytes_ + size(object) > capacity_) {
                evict();
            }
            uses_[object] = 0;
            bytes_ += size(object);
            places_[object] = FIRST;
        }
        double cost = by_cost_ ? trace_.costs[object] : 1;
        ranks_[object] = inflation_ + ++uses_[object] * cost / size(object);
        order_.insert({ranks_[object], object});
        return is_hit;
    }

  private:
    void evict()
    {
        auto [rank, object] = *order_.begin();
        order_.erase(order_.begin());
        inflation_ = rank;
        bytes_ -= size(object);
        places_[object] = OUT;
    }

    const bool by_cost_;
    std::vector<double> uses_, ranks_;
    std::set<std::pair<double, uint32_t>> order_;
    double inflation_ = 0, bytes_ = 0;
};

/* Knows all later requests. Of 128 objects, it evicts the one that costs least for the bytes that
 * it occupies until its next use. The optimal order is too hard to find; this one is close. */
class Offline : public Simulated
{
  public:
    Offline(const Trace &trace, double capacity)
        : Simulated(trace, capacity), next_(trace.requests.size()), next_use_(trace.sizes.size()),
          indices_(trace.sizes.size())
    {
        std::vector<size_t> later(trace.sizes.size(), NEVER);
        for (size_t i = trace.requests.size(); i-- > 0;) {
            next_[i] = later[trace.requests[i]];
            later[trace.requests[i]] = i;
        }
    }
    bool request(uint32_t object) override
    {
        next_use_[object] = next_[now_++];
        if (places_[object] == FIRST) {
            return true;
        }
        if (next_use_[object] == NEVER || size(object) > capacity_) {
            return false;
        }
        places_[object] = FIRST;
        indices_[object] = objects_.size();
        objects_.push_back(object);
        bytes_ += size(object);
        while (bytes_ > capacity_) {
            evict();
        }
        return false;
    }

  private:
    static constexpr size_t NEVER = std::numeric_limits<size_t>::max();

    double worth(uint32_t object) const
    {
        if (next_use_[object] == NEVER) {
            return 0;
        }
        return trace_.costs[object] / size(object) /
               static_cast<double>(next_use_[object] - now_ + 1);
    }

    void evict()
    {
        uint32_t worst = objects_.back();
        for (int i = 0; i < 128; i++) {
            uint32_t object = objects_[generator_() % objects_.size()];
            worst = worth(object) < worth(worst) ? object : worst;
        }
        indices_[objects_.back()] = indices_[worst];
        objects_[indices_[worst]] = objects_.back();
        objects_.pop_back();
        bytes_ -= size(worst);
        places_[worst] = OUT;
    }

    std::vector<size_t> next_, next_use_;
    std::vector<size_t> indices_;
    std::vector<uint32_t> objects_;
    std::mt19937_64 generator_{1};
    size_t now_ = 0;
    double bytes_ = 0;
};

/* Misses only objects that were never requested before. */
class Endless : public Simulated
{
  public:
    Endless(const Trace &trace, double capacity) : Simulated(trace, capacity)
    {
    }
    bool request(uint32_t object) override
    {
        return std::exchange(places_[object], FIRST) == FIRST;
    }
};

template <typename T, auto... parameters> Way way(const char *name)
{
    return {name, [](const Trace &trace, double capacity) -> std::unique_ptr<Cache> {
                return std::make_unique<T>(trace, capacity, parameters...);
            }};
}

} // namespace

std::vector<Way> simulated_ways()
{
    return {
        way<Queue, false>("fifo"), way<Queue, true>("lru"),    way<Sieve>("sieve"),
        way<S3Fifo>("s3-fifo"),    way<WTinyLfu>("w-tinylfu"), way<Gdsf, false>("gdsf, cost 1"),
        way<Gdsf, true>("gdsf"),   way<Offline>("offline"),    way<Endless>("compulsory"),
    };
}
