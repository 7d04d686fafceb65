/* SPDX-License-Identifier: Apache-2.0 */
#include <cstdlib>

#include <kiln/cache.h>
#include <kiln/constant.h>
#include <kiln/constant_backend.h>

#include "floor.h"
#include "subject.hpp"

namespace
{

void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

class Cache : public Subject
{
  public:
    Cache(const Keys &keys, Objects &objects)
    {
        kiln_cache_params params = {};
        params.struct_size = sizeof params;
        params.max_bytes = params.max_entries = KILN_UNLIMITED;
        check(kiln_cache_new(&params, &cache_) == KILN_OK);
        for (size_t i = 0; i < keys.size(); i++) {
            kiln_reservation reservation;
            check(kiln_cache_reserve(cache_, keys[i], nullptr, &reservation, nullptr) == KILN_OK);
            check(kiln_ticket_fulfil(&reservation.ticket, &objects[i], 1, 1, nullptr) == KILN_OK);
        }
    }
    ~Cache() override
    {
        kiln_cache_free(&cache_);
    }

  protected:
    kiln_cache *cache_ = nullptr;
};

/* Enters a section for each look-up. */
class Peek : public Cache
{
  public:
    using Cache::Cache;
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *key) {
            kiln_section section;
            kiln_section_enter(cache_, &section);
            uint64_t value = *static_cast<const uint64_t *>(kiln_cache_peek(&section, key));
            kiln_section_leave(&section);
            return value;
        });
    }
};

/* Enters one section for 64 look-ups. */
class PeekInside : public Cache
{
  public:
    using Cache::Cache;
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        kiln_section section;
        unsigned inside = 0;
        kiln_section_enter(cache_, &section);
        uint64_t sum = run_loop(keys, sequence, count, [&](const kiln_key *key) {
            if (++inside % 64 == 0) {
                kiln_section_leave(&section);
                kiln_section_enter(cache_, &section);
            }
            return *static_cast<const uint64_t *>(kiln_cache_peek(&section, key));
        });
        kiln_section_leave(&section);
        return sum;
    }
};

class Pin : public Cache
{
  public:
    using Cache::Cache;
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *key) {
            kiln_pin *pin;
            check(kiln_cache_pin(cache_, key, &pin) == KILN_OK);
            uint64_t value = *static_cast<const uint64_t *>(kiln_pin_object(pin));
            kiln_pin_release(&pin);
            return value;
        });
    }
};

/* Looks up sixteen keys with each call, in one section. */
class PeekMany : public Cache
{
  public:
    using Cache::Cache;
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_batches(keys, sequence, count, [this](const kiln_key **batch) {
            kiln_section section;
            void *objects[BATCH];
            kiln_section_enter(cache_, &section);
            check(kiln_cache_peek_many(&section, batch, BATCH, objects) == BATCH);
            uint64_t sum = 0;
            for (void *object : objects) {
                sum += *static_cast<const uint64_t *>(object);
            }
            kiln_section_leave(&section);
            return sum;
        });
    }
};

class PinMany : public Cache
{
  public:
    using Cache::Cache;
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_batches(keys, sequence, count, [this](const kiln_key **batch) {
            kiln_pin *pins[BATCH];
            check(kiln_cache_pin_many(cache_, batch, BATCH, pins) == KILN_OK);
            uint64_t sum = 0;
            for (kiln_pin *&pin : pins) {
                sum += *static_cast<const uint64_t *>(kiln_pin_object(pin));
                kiln_pin_release(&pin);
            }
            return sum;
        });
    }
};

/* Checks the same watch repeatedly. */
class Watch : public Cache
{
  public:
    Watch(const Keys &keys, Objects &objects) : Cache(keys, objects)
    {
        kiln_pin *pin;
        check(kiln_cache_pin(cache_, keys[0], &pin) == KILN_OK);
        check(kiln_pin_watch(pin, &watch_) == KILN_OK);
        kiln_pin_release(&pin);
    }
    ~Watch() override
    {
        kiln_watch_free(&watch_);
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *) {
            return static_cast<uint64_t>(kiln_watch_is_live(watch_));
        });
    }

  private:
    kiln_watch *watch_ = nullptr;
};

/* Requests a cached constant by a key made in advance. */
class Constant : public Subject
{
  public:
    Constant(const Keys &keys, Objects &objects)
    {
        check(kiln_constant_cache_of(KILN_ENGINE_CPU, 0, &cache_) == KILN_OK);
        check(kiln_constant_set_enabled(1) == KILN_OK);
        for (size_t i = 0; i < keys.size(); i++) {
            own_keys_.push_back(key_of(i));
            put(own_keys_[i], &objects[i]);
        }
    }
    ~Constant() override
    {
        check(kiln_constant_set_enabled(1) == KILN_OK);
        for (kiln_key *key : own_keys_) {
            kiln_key_release(&key);
        }
    }
    uint64_t run(const Keys &, const Sequence &sequence, size_t count) override
    {
        return run_loop(own_keys_, sequence, count, [this](const kiln_key *key) {
            kiln_reservation hit;
            check(kiln_constant_get_or_add(cache_, key, 1, nullptr, &hit, nullptr) == KILN_OK);
            const kiln_constant_buffer *buffer = kiln_constant_buffer_of(hit.pin);
            uint64_t value = *static_cast<const uint64_t *>(kiln_constant_buffer_data(buffer));
            kiln_pin_release(&hit.pin);
            return value;
        });
    }

  private:
    static kiln_key *key_of(uint64_t number)
    {
        kiln_constant_key_params params = {};
        params.struct_size = sizeof params;
        params.key = &number;
        params.key_size = sizeof number;
        kiln_key *key = nullptr;
        check(kiln_constant_key_new(&params, &key) == KILN_OK);
        return key;
    }

    /* The constant's memory is an object that exists already. */
    void put(const kiln_key *key, uint64_t *object)
    {
        kiln_constant_memory memory = {};
        memory.struct_size = sizeof memory;
        memory.allocate = [](size_t, void *engine, void *) { return engine; };
        memory.free = [](void *, void *, void *) {};
        memory.engine = object;
        kiln_reservation answer;
        kiln_constant_buffer *buffer;
        check(kiln_constant_get_or_add(cache_, key, 1, nullptr, &answer, nullptr) == KILN_OK);
        check(kiln_constant_buffer_new(&memory, 1, nullptr, &buffer) == KILN_OK);
        check(kiln_constant_fulfil(&answer.ticket, &buffer, 1, nullptr) == KILN_OK);
    }

    kiln_constant_cache *cache_ = nullptr;
    Keys own_keys_;
};

class Load : public Subject
{
  public:
    Load(const Keys &, Objects &)
    {
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *) {
            return static_cast<uint64_t>(floor_load(&word_));
        });
    }

  private:
    int word_ = 1;
};

/* The two tables of floor.h. */
template <typename Table, Table *(*make_table)(size_t), void (*free_table)(Table *),
          void (*insert)(Table *, const kiln_key *, void *),
          void *(*find)(const Table *, const kiln_key *)>
class Unprotected : public Subject
{
  public:
    Unprotected(const Keys &keys, Objects &objects) : table_(make_table(keys.size()))
    {
        check(table_ != nullptr);
        for (size_t i = 0; i < keys.size(); i++) {
            insert(table_, keys[i], &objects[i]);
        }
    }
    ~Unprotected() override
    {
        free_table(table_);
    }
    uint64_t run(const Keys &keys, const Sequence &sequence, size_t count) override
    {
        return run_loop(keys, sequence, count, [this](const kiln_key *key) {
            return *static_cast<const uint64_t *>(find(table_, key));
        });
    }

  private:
    Table *table_;
};

using Floor = Unprotected<floor_table, floor_new, floor_free, floor_insert, floor_find>;
using Tagged = Unprotected<tagged_table, tagged_new, tagged_free, tagged_insert, tagged_find>;

template <typename T> std::unique_ptr<Subject> make(const Keys &keys, Objects &objects)
{
    return std::make_unique<T>(keys, objects);
}

} // namespace

std::vector<Maker> kiln_makers()
{
    return {
        {"load", make<Load>, false},
        {"watch", make<Watch>, false},
        {"floor", make<Floor>, true},
        {"tagged", make<Tagged>, false},
        {"peek", make<Peek>, true},
        {"peek inside", make<PeekInside>, false},
        {"pin", make<Pin>, true},
        {"constant", make<Constant>, true},
        {"peek many", make<PeekMany>, false},
        {"pin many", make<PinMany>, false},
    };
}
