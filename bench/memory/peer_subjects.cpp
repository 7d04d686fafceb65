/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers whose look-ups do the same work: find by digest, then compare the keys.
 */
#include <pthread.h>

#include <cstdlib>
#include <unordered_map>

#include "subject.hpp"

#ifdef HAVE_TBB
#include <tbb/concurrent_hash_map.h>
#endif
#ifdef HAVE_URCU
#define URCU_API_MAP
#include <urcu/urcu-bp.h>

#include <urcu/rculfhash.h> /* for the flavour whose header precedes it */
#endif
#ifdef HAVE_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace
{

struct KeyHash {
    size_t operator()(const kiln_key *key) const
    {
        return hash_of(key);
    }
};

struct KeyEqual {
    bool operator()(const kiln_key *a, const kiln_key *b) const
    {
        return kiln_key_equals(a, b);
    }
};

class Locked : public Subject
{
  public:
    Locked(const Keys &keys, Objects &objects)
    {
        for (size_t i = 0; i < keys.size(); i++) {
            map_.emplace(keys[i], &objects[i]);
        }
    }
    ~Locked() override
    {
        pthread_rwlock_destroy(&lock_);
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *key) {
            pthread_rwlock_rdlock(&lock_);
            uint64_t value = *map_.find(key)->second;
            pthread_rwlock_unlock(&lock_);
            return value;
        });
    }

  private:
    pthread_rwlock_t lock_ = PTHREAD_RWLOCK_INITIALIZER;
    std::unordered_map<const kiln_key *, uint64_t *, KeyHash, KeyEqual> map_;
};

#ifdef HAVE_TBB
class Tbb : public Subject
{
    struct Compare {
        size_t hash(const kiln_key *key) const
        {
            return hash_of(key);
        }
        bool equal(const kiln_key *a, const kiln_key *b) const
        {
            return kiln_key_equals(a, b);
        }
    };
    using Map = tbb::concurrent_hash_map<const kiln_key *, uint64_t *, Compare>;

  public:
    Tbb(const Keys &keys, Objects &objects)
    {
        for (size_t i = 0; i < keys.size(); i++) {
            map_.insert({keys[i], &objects[i]});
        }
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *key) {
            Map::const_accessor found;
            map_.find(found, key);
            return *found->second;
        });
    }

  private:
    Map map_;
};
#endif

#ifdef HAVE_URCU
class Urcu : public Subject
{
    struct Node {
        cds_lfht_node link;
        const kiln_key *key;
        uint64_t *object;
    };
    /* Reserves everything that it will need, so that it does not grow while it is measured. */
    static unsigned long buckets_for(size_t count)
    {
        unsigned long buckets = 64;
        while (buckets < count) {
            buckets *= 2;
        }
        return buckets;
    }
    static int matches(cds_lfht_node *link, const void *key)
    {
        return kiln_key_equals(reinterpret_cast<const Node *>(link)->key,
                               static_cast<const kiln_key *>(key));
    }

  public:
    Urcu(const Keys &keys, Objects &objects)
        : table_(cds_lfht_new(buckets_for(keys.size()), 64, 0, 0, nullptr)), nodes_(keys.size())
    {
        for (size_t i = 0; i < keys.size(); i++) {
            nodes_[i].key = keys[i];
            nodes_[i].object = &objects[i];
            cds_lfht_node_init(&nodes_[i].link);
            rcu_read_lock();
            cds_lfht_add(table_, hash_of(keys[i]), &nodes_[i].link);
            rcu_read_unlock();
        }
    }
    ~Urcu() override
    {
        for (Node &node : nodes_) {
            rcu_read_lock();
            cds_lfht_del(table_, &node.link);
            rcu_read_unlock();
        }
        synchronize_rcu();
        cds_lfht_destroy(table_, nullptr);
    }
    void begin_thread() override
    {
        rcu_register_thread();
    }
    void end_thread() override
    {
        rcu_unregister_thread();
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *key) {
            cds_lfht_iter found;
            rcu_read_lock();
            cds_lfht_lookup(table_, hash_of(key), matches, key, &found);
            uint64_t value = *reinterpret_cast<Node *>(cds_lfht_iter_get_node(&found))->object;
            rcu_read_unlock();
            return value;
        });
    }

  private:
    cds_lfht *table_;
    std::vector<Node> nodes_;
};
#endif

#ifdef HAVE_DNNL
/* Makes a primitive from an existing descriptor. After the first, each is a hit in oneDNN's cache.
 */
class Dnnl : public Subject
{
  public:
    Dnnl(const Keys &, Objects &)
    {
        using dnnl::memory;
        memory::desc desc({8, 8}, memory::data_type::f32, memory::format_tag::ab);
        memory::desc other({8, 8}, memory::data_type::f32, memory::format_tag::ba);
        descriptor_ = dnnl::reorder::primitive_desc(engine_, desc, engine_, other);
        dnnl::reorder first(descriptor_);
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *) {
            dnnl::reorder primitive(descriptor_);
            return static_cast<uint64_t>(static_cast<bool>(primitive));
        });
    }

  private:
    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::reorder::primitive_desc descriptor_;
};
#endif

template <typename T> std::unique_ptr<Subject> make(const Keys &keys, Objects &objects)
{
    return std::make_unique<T>(keys, objects);
}

} // namespace

std::vector<Maker> peer_makers()
{
    return {
        {"rwlock", make<Locked>, false},
#ifdef HAVE_TBB
        {"tbb", make<Tbb>, true},
#endif
#ifdef HAVE_URCU
        {"urcu", make<Urcu>, true},
#endif
#ifdef HAVE_DNNL
        {"onednn", make<Dnnl>, false},
#endif
    };
}
