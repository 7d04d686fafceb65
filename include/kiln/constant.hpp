/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache in C++11, as backends use it: kiln/constant_backend.h. Users govern it
 * by kiln/constant.h, or by kiln/onednn.hpp. Header only; the C calls' comments hold here too.
 *
 *     kiln::constant_tensor_cache_t cache(kiln::engine::kind::gpu, 0, context);
 *     kiln::constant_tensor_cache_t::promise_t promise;
 *     auto cached = cache.get_or_add(backend_id, key, size, promise.get_future());
 *     if (cached.valid()) {
 *         use(cached.get());
 *     } else {
 *         auto buffer = std::make_shared<my_buffer>(…); // a constant_buffer_t
 *         compute(*buffer);
 *         promise.set_value(buffer);
 *     }
 *
 * What fails throws kiln::error. Where exceptions are off, or KILN_NO_EXCEPTIONS is defined, calls
 * that return kiln::status return what happened; the others return something empty.
 */
#ifndef KILN_CONSTANT_HPP
#define KILN_CONSTANT_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <kiln/cache.hpp>
#include <kiln/constant.h>
#include <kiln/constant_backend.h>
#include <kiln/engine.hpp>
#include <kiln/status.hpp>

namespace kiln
{

namespace detail
{

/* What is more than a size can say is no limit. */
inline std::size_t size_of_mib(std::uint64_t mib)
{
    const std::size_t most = (std::numeric_limits<std::size_t>::max)();
    return mib < most ? static_cast<std::size_t>(mib) : most;
}

} // namespace detail

/* ---- backends: buffers ---- */

/* What is cached. Backends derive from it, or from device_constant_buffer_t. */
class constant_buffer_t
{
  public:
    virtual ~constant_buffer_t() = default;

    constant_buffer_t(const constant_buffer_t &) = delete;
    constant_buffer_t &operator=(const constant_buffer_t &) = delete;

    /* The memory; of a device, what its allocator returned. */
    template <typename T> T *data() const noexcept
    {
        return static_cast<T *>(data_);
    }

    /* In bytes. */
    std::size_t size() const noexcept
    {
        return size_;
    }

    /* It left the cache, for whatever reason: who keeps handles on it lets them go. An exception
     * that leaves it ends the program. */
    virtual void notify_evict()
    {
    }

  protected:
    constant_buffer_t(void *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }

    void *data_;
    std::size_t size_;
};

/* One whose memory comes from a backend's functions. The allocator, which is not null and has
 * retain() and release(), lives as long as the buffer does; of the engine the buffer has a copy. */
template <typename Engine, typename Allocator>
class device_constant_buffer_t : public constant_buffer_t
{
  public:
    using malloc_func_t = void *(*)(std::size_t, const Engine &, const Allocator *);
    using free_func_t = void (*)(void *, const Engine &, const Allocator *);

    /* Throws where malloc_func returns null; without exceptions data() is null then. */
    device_constant_buffer_t(std::size_t size, const Engine &eng, const Allocator *alc,
                             malloc_func_t malloc_func, free_func_t free_func)
        : constant_buffer_t(nullptr, size), eng_(eng), alc_(alc), free_func_(free_func), hold_(alc)
    {
        data_ = malloc_func(size, eng_, alc_);
        if (!data_) {
            detail::check(KILN_E_RESOURCES);
        }
    }

    ~device_constant_buffer_t() override
    {
        if (data_) {
            free_func_(data_, eng_, alc_);
        }
    }

  protected:
    const Engine eng_;
    const Allocator *alc_;

  private:
    /* Ends behind the destructor above, and with a constructor that throws. */
    class hold
    {
      public:
        explicit hold(const Allocator *alc) : alc_(const_cast<Allocator *>(alc))
        {
            alc_->retain();
        }

        hold(const hold &) = delete;
        hold &operator=(const hold &) = delete;

        ~hold()
        {
            alc_->release();
        }

      private:
        Allocator *alc_;
    };

    free_func_t free_func_;
    hold hold_;
};

/* ---- backends: whose constants they are ---- */

/* A compiled partition, a model, or what else owns constants: they go when it ends, from the caches
 * of all devices, which blocks as kiln_constant_remove_owner does. */
class constant_owner_t
{
  public:
    constant_owner_t() noexcept : number_(kiln_constant_unique_number())
    {
    }

    constant_owner_t(const constant_owner_t &) = delete;
    constant_owner_t &operator=(const constant_owner_t &) = delete;

    ~constant_owner_t()
    {
        kiln_constant_remove_owner(number_);
    }

    /* For get_or_add. */
    std::uint64_t number() const noexcept
    {
        return number_;
    }

  private:
    const std::uint64_t number_;
};

/* A context of a device runtime, whose constants go before it does: to be destroyed ahead of it. */
class constant_context_t
{
  public:
    constant_context_t() noexcept : number_(kiln_constant_unique_number())
    {
    }

    constant_context_t(const constant_context_t &) = delete;
    constant_context_t &operator=(const constant_context_t &) = delete;

    ~constant_context_t()
    {
        kiln_constant_remove_context(number_);
    }

    /* For constant_tensor_cache_t. */
    std::uint64_t number() const noexcept
    {
        return number_;
    }

  private:
    const std::uint64_t number_;
};

/* Lets users name a device by its runtime's handle, as long as it lives. */
class constant_device_binding_t
{
  public:
    constant_device_binding_t(const void *device, engine::kind kind, std::uint32_t index)
        : device_(device)
    {
        detail::check(kiln_constant_bind_device(device, detail::number_of(kind), index));
    }

    constant_device_binding_t(const constant_device_binding_t &) = delete;
    constant_device_binding_t &operator=(const constant_device_binding_t &) = delete;

    ~constant_device_binding_t()
    {
        kiln_constant_unbind_device(device_);
    }

  private:
    const void *const device_;
};

/* ---- backends: the cache ---- */

/* Key of a constant; who keeps it looks up without making it again. */
class constant_key_t
{
  public:
    constant_key_t(std::uint64_t context, std::uint64_t backend_id, const void *bytes,
                   std::size_t size, std::uint64_t generation = 0)
        : key_(nullptr)
    {
        kiln_constant_key_params parts = kiln_constant_key_params();
        parts.struct_size = sizeof parts;
        parts.context = context;
        parts.backend = backend_id;
        parts.key = bytes;
        parts.key_size = size;
        parts.generation = generation;
        detail::check(kiln_constant_key_new(&parts, &key_));
    }

    constant_key_t(const constant_key_t &other) noexcept : key_(kiln_key_retain(other.key_))
    {
    }

    constant_key_t &operator=(constant_key_t other) noexcept
    {
        std::swap(key_, other.key_);
        return *this;
    }

    ~constant_key_t()
    {
        kiln_key_release(&key_);
    }

    /* The C handle, which stays this object's. */
    const kiln_key *get() const noexcept
    {
        return key_;
    }

  private:
    kiln_key *key_;
};

/* The constants of one device, as one context sees them. A copy is the same cache. */
class constant_tensor_cache_t
{
  public:
    using cached_t = std::shared_ptr<constant_buffer_t>;

  private:
    /* What the cache keeps of a buffer. */
    struct holder {
        cached_t buffer;
    };

    /* Between a promise and its future, of which either may end first. */
    struct promised {
        kiln_ticket *ticket = nullptr;
        cached_t buffer;
        bool is_broken = false; /* the promise has ended: its future gets no ticket any more */
    };

    struct release_pin {
        void operator()(kiln_pin *pin) const noexcept
        {
            kiln_pin_release(&pin);
        }
    };

  public:
    /* A constant that is there, or that was promised. */
    class value_t
    {
      public:
        value_t() = default;

        /* Whether there is one to get. */
        bool valid() const noexcept
        {
            return pin_ || promise_;
        }

        /* The constant; the result is a co-owner of it: it stays good when it leaves the cache.
         * Null where what was promised is not there yet. */
        cached_t get() const
        {
            if (!pin_) {
                return promise_ ? promise_->buffer : cached_t();
            }
            const kiln_constant_buffer *kept = kiln_constant_buffer_of(pin_.get());
            return cached_t(pin_,
                            static_cast<holder *>(kiln_constant_buffer_data(kept))->buffer.get());
        }

        /* Of one that was found in the cache. */
        kiln::watch watch() const
        {
            kiln_watch *made = nullptr;
            detail::check(kiln_pin_watch(pin_.get(), &made));
            return kiln::watch(made);
        }

      private:
        friend class constant_tensor_cache_t;

        std::shared_ptr<kiln_pin> pin_;
        std::shared_ptr<promised> promise_;
    };

    /* What whoever asks brings along, in case that it has to compute. One that ends without a
     * value, because of an exception for one, lets another who waits compute. */
    class promise_t
    {
      public:
        promise_t() : promised_(std::make_shared<promised>())
        {
        }

        promise_t(const promise_t &) = delete;
        promise_t &operator=(const promise_t &) = delete;

        ~promise_t()
        {
            promised_->is_broken = true;
            kiln_ticket_abandon(&promised_->ticket, KILN_ABANDON_TRANSIENT, KILN_OK, nullptr);
        }

        /* What get_or_add is to be given, while the promise lives. */
        value_t get_future() const
        {
            value_t future;
            future.promise_ = promised_;
            return future;
        }

        /* Whether others get what it is fulfilled with. */
        bool is_awaited() const noexcept
        {
            return promised_->ticket != nullptr;
        }

        /* @cost_ns  of computing it again; 0: the time since it was asked for */
        status set_value(const cached_t &buffer, std::uint64_t cost_ns = 0)
        {
            promised_->buffer = buffer;
            return detail::check(promised_->ticket ? fulfil(buffer, cost_ns) : KILN_OK);
        }

        /* It can't be computed: all who wait get this. */
        void set_failure(kiln_status code, const char *text) noexcept
        {
            kiln_ticket_abandon(&promised_->ticket, KILN_ABANDON_FAILED, code, text);
        }

      private:
        kiln_status fulfil(const cached_t &buffer, std::uint64_t cost_ns)
        {
            if (!buffer || buffer->size() == 0) {
                return KILN_E_INVALID;
            }
            std::unique_ptr<holder> kept(new holder{buffer});
            kiln_constant_memory memory = kiln_constant_memory();
            memory.struct_size = sizeof memory;
            memory.allocate = hand_on;
            memory.free = let_go;
            memory.engine = kept.get();
            memory.evicted = tell;
            kiln_constant_buffer *made = nullptr;
            const kiln_status code =
                kiln_constant_buffer_new(&memory, buffer->size(), nullptr, &made);
            if (code != KILN_OK) {
                return code;
            }
            kept.release();
            return kiln_constant_fulfil(&promised_->ticket, &made, cost_ns, nullptr);
        }

        /* The memory that the cache gets is there already. */
        static void *hand_on(std::size_t, void *engine, void *) noexcept
        {
            return engine;
        }

        static void let_go(void *data, void *, void *) noexcept
        {
            delete static_cast<holder *>(data);
        }

        static void tell(void *, const kiln_constant_buffer *buffer) noexcept
        {
            static_cast<holder *>(kiln_constant_buffer_data(buffer))->buffer->notify_evict();
        }

        std::shared_ptr<promised> promised_;
    };

    /* @context  whose memory it is; constants are never shared between contexts */
    explicit constant_tensor_cache_t(engine::kind kind, std::uint32_t index = 0,
                                     std::uint64_t context = 0)
        : cache_(nullptr), kind_(kind), index_(index), context_(context)
    {
        detail::check(kiln_constant_cache_of(detail::number_of(kind), index, &cache_));
    }

    /* Key of a constant of this context. */
    constant_key_t key(std::uint64_t backend_id, const std::string &bytes,
                       std::uint64_t generation = 0) const
    {
        return constant_key_t(context_, backend_id, bytes.data(), bytes.size(), generation);
    }

    /* The same of a number. */
    constant_key_t key(std::uint64_t backend_id, std::size_t number,
                       std::uint64_t generation = 0) const
    {
        return constant_key_t(context_, backend_id, &number, sizeof number, generation);
    }

    /* Finds a constant, which is then valid; or lets its promise be the one that others wait for;
     * or, where the cache can't take it, neither: then it is computed for who asks alone.
     *
     * @size   in bytes, of what will be computed
     * @value  of promise_t::get_future
     * @owner  whose end takes the constant along; 0: nobody's but the context's
     * Blocks: while another computes it; it throws what that ended with. */
    value_t get_or_add(const constant_key_t &key, std::size_t size, const value_t &value,
                       std::uint64_t owner = 0) const
    {
        kiln_constant_params params = kiln_constant_params();
        params.struct_size = sizeof params;
        params.owner = owner;
        kiln_reservation answer = kiln_reservation();
        kiln_error described = kiln_error();
        described.struct_size = sizeof described;
        const kiln_status code =
            kiln_constant_get_or_add(cache_, key.get(), size, &params, &answer, &described);
        detail::check(code, &described);
        value_t found;
        if (code == KILN_OK && answer.outcome == KILN_HIT) {
            found.pin_ = std::shared_ptr<kiln_pin>(answer.pin, release_pin());
        } else if (value.promise_ && !value.promise_->ticket && !value.promise_->is_broken) {
            value.promise_->ticket = answer.ticket;
        } else {
            /* There is nobody who could fulfil it. */
            kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, nullptr);
        }
        return found;
    }

    /* By a key that is made for the call; of a number, */
    value_t get_or_add(std::uint64_t backend_id, std::size_t backend_specific_key, std::size_t size,
                       const value_t &value) const
    {
        return get_or_add(key(backend_id, backend_specific_key), size, value);
    }

    /* or of bytes. */
    value_t get_or_add(std::uint64_t backend_id, const std::string &backend_specific_key,
                       std::size_t size, const value_t &value) const
    {
        return get_or_add(key(backend_id, backend_specific_key), size, value);
    }

    /* One that is being computed goes to those who are in it, and is not kept. */
    void remove_if_exist(const constant_key_t &key) const
    {
        detail::check(kiln_constant_remove_if_exist(cache_, key.get()));
    }

    /* By a key that is made for the call; of a number, */
    void remove_if_exist(std::uint64_t backend_id, std::size_t backend_specific_key) const
    {
        remove_if_exist(key(backend_id, backend_specific_key));
    }

    /* or of bytes. */
    void remove_if_exist(std::uint64_t backend_id, const std::string &backend_specific_key) const
    {
        remove_if_exist(key(backend_id, backend_specific_key));
    }

    /* What users have set for its device, in MiB; the greatest std::size_t is no limit. */
    std::size_t get_capacity() const
    {
        kiln_constant_budget budget = params<kiln_constant_budget>();
        budget.scope = KILN_CONSTANT_INDEX;
        budget.kind = detail::number_of(kind_);
        budget.index = index_;
        detail::check(kiln_constant_get_budget(&budget));
        return detail::size_of_mib(budget.capacity_mib);
    }

    /* Bytes of what is in it, of all contexts. */
    std::size_t get_size() const noexcept
    {
        return static_cast<std::size_t>(kiln_constant_get_size(cache_));
    }

    /* For C calls. */
    kiln_constant_cache *get() const noexcept
    {
        return cache_;
    }

  private:
    kiln_constant_cache *cache_;
    engine::kind kind_;
    std::uint32_t index_;
    std::uint64_t context_;
};

} // namespace kiln

#endif
