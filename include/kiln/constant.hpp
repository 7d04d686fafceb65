/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache in C++11, as backends use it. The comments of kiln/constant_backend.h
 * apply here too. Users control the cache with kiln/constant.h or kiln/onednn.hpp. Header only.
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
 * A failure throws kiln::error. If exceptions are off, or KILN_NO_EXCEPTIONS is defined, calls that
 * return kiln::status return the failure; all other calls return an empty object.
 */
#ifndef KILN_CONSTANT_HPP
#define KILN_CONSTANT_HPP

#include <algorithm>
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

/* Converts a capacity. A value that std::size_t can't hold becomes its maximum, which means no
 * limit. */
inline std::size_t size_of_mib(std::uint64_t mib)
{
    const std::size_t most = (std::numeric_limits<std::size_t>::max)();
    return mib < most ? static_cast<std::size_t>(mib) : most;
}

/* ---- SYCL's devices ---- */

/* Tells the compiler that get_native<…> is a template. Argument-dependent look-up finds SYCL's
 * function. */
template <int> void get_native();

/* SYCL's enumeration of backends. It is obtained from any class that has get_backend(), such as
 * sycl::device. */
template <typename Device>
using sycl_backend = decltype(std::declval<const Device &>().get_backend());

/* The backends whose native handles Kiln uses. An implementation of SYCL may lack some of them. */
struct sycl_opencl {
    template <typename Backend> static constexpr auto value() -> decltype(Backend::opencl)
    {
        return Backend::opencl;
    }
};

struct sycl_level_zero {
    template <typename Backend>
    static constexpr auto value() -> decltype(Backend::ext_oneapi_level_zero)
    {
        return Backend::ext_oneapi_level_zero;
    }
};

struct sycl_cuda {
    template <typename Backend> static constexpr auto value() -> decltype(Backend::ext_oneapi_cuda)
    {
        return Backend::ext_oneapi_cuda;
    }
};

/* Handles of OpenCL and Level Zero are pointers. CUDA numbers its devices from 0. */
template <typename Native> const void *native_pointer(Native *native, int) noexcept
{
    return native;
}

inline const void *native_pointer(int native, int backend) noexcept
{
    const std::uintptr_t numbers = 1u << 16;
    return reinterpret_cast<const void *>(static_cast<std::uintptr_t>(backend) * numbers +
                                          static_cast<std::uintptr_t>(native) + 1);
}

/* Returns the handle of a device if the device belongs to the backend Which; otherwise null. */
template <typename Which, typename Device>
auto native_of(const Device &dev, int)
    -> decltype(native_pointer(get_native<Which::template value<sycl_backend<Device>>()>(dev), 0))
{
    using backend = sycl_backend<Device>;
    constexpr backend wanted = Which::template value<backend>();
    return dev.get_backend() == wanted
               ? native_pointer(get_native<wanted>(dev), static_cast<int>(wanted))
               : nullptr;
}

/* Used if the program has not included SYCL's header for that backend. */
template <typename Which, typename Device> const void *native_of(const Device &, long) noexcept
{
    return nullptr;
}

} // namespace detail

/* Functions that identify a device by its runtime's handle. */
namespace interop
{

/* Returns the handle by which Kiln identifies a sycl::device, or an object of any other class that
 * has get_backend() and get_native<backend>() as in SYCL. Copies of a device have the same handle.
 * Returns null if the device's backend is not OpenCL, Level Zero or CUDA, or if the program has not
 * included SYCL's header for that backend. */
template <typename Device, typename Backend = detail::sycl_backend<Device>>
const void *device_handle(const Device &dev)
{
    const void *const handles[] = {detail::native_of<detail::sycl_opencl>(dev, 0),
                                   detail::native_of<detail::sycl_level_zero>(dev, 0),
                                   detail::native_of<detail::sycl_cuda>(dev, 0)};
    const void *found = nullptr;
    for (const void *handle : handles) {
        found = found ? found : handle;
    }
    return found;
}

} // namespace interop

/* ---- backends: buffers ---- */

/* What is cached. Backends derive from it, or from device_constant_buffer_t. */
class constant_buffer_t
{
  public:
    virtual ~constant_buffer_t() = default;

    constant_buffer_t(const constant_buffer_t &) = delete;
    constant_buffer_t &operator=(const constant_buffer_t &) = delete;

    /* Returns the memory. For the memory of a device, this is what its allocator returned. */
    template <typename T> T *data() const noexcept
    {
        return static_cast<T *>(data_);
    }

    /* Returns the size in bytes. */
    std::size_t size() const noexcept
    {
        return size_;
    }

    /* Called after the buffer was removed from the cache, for any reason. A derived class that has
     * handles to the buffer releases them here. If this function throws, the program terminates. */
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

/* A buffer whose memory comes from functions of a backend. The allocator must not be null, and must
 * have retain() and release(). It is retained as long as the buffer lives. The engine is copied. */
template <typename Engine, typename Allocator>
class device_constant_buffer_t : public constant_buffer_t
{
  public:
    using malloc_func_t = void *(*)(std::size_t, const Engine &, const Allocator *);
    using free_func_t = void (*)(void *, const Engine &, const Allocator *);

    /* Allocates the memory. Throws if malloc_func returns null. Without exceptions, data() is then
     * null. */
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
    /* Retains the allocator. Because the hold is a member, it releases the allocator after the
     * destructor above has run, and also if a constructor throws. */
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

/* ---- backends: owners of constants ---- */

/* An owner of constants, such as a compiled partition or a model. The destructor removes the
 * owner's constants from the caches of all devices, and blocks as kiln_constant_remove_owner does.
 */
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

    /* Returns the number for get_or_add. */
    std::uint64_t number() const noexcept
    {
        return number_;
    }

  private:
    const std::uint64_t number_;
};

/* A context of a device runtime. The destructor removes the constants of the context, so this
 * object must be destroyed before the runtime's context. */
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

    /* Returns the number for constant_tensor_cache_t. */
    std::uint64_t number() const noexcept
    {
        return number_;
    }

  private:
    const std::uint64_t number_;
};

/* Lets users name a device by its runtime's handle until the binding is destroyed. */
class constant_device_binding_t
{
  public:
    constant_device_binding_t(const void *device, engine::kind kind, std::uint32_t index)
        : device_(device)
    {
        detail::check(kiln_constant_bind_device(device, detail::number_of(kind), index));
    }

    /* Binds a sycl::device: see kiln::interop::device_handle. */
    template <typename Device, typename Backend = detail::sycl_backend<Device>>
    constant_device_binding_t(const Device &device, engine::kind kind, std::uint32_t index)
        : constant_device_binding_t(interop::device_handle(device), kind, index)
    {
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

/* The key of a constant. A caller that keeps the key can look up the constant without making the
 * key again. */
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

    /* Returns the C handle, which still belongs to this object. */
    const kiln_key *get() const noexcept
    {
        return key_;
    }

  private:
    kiln_key *key_;
};

/* The constants of one device, as one context sees them. A copy refers to the same cache. */
class constant_tensor_cache_t
{
  public:
    using cached_t = std::shared_ptr<constant_buffer_t>;

  private:
    /* The part of a buffer that the cache keeps. */
    struct holder {
        cached_t buffer;
    };

    /* The state that a promise and its future share. Either of them can be destroyed first. */
    struct promised {
        kiln_ticket *ticket = nullptr;
        cached_t buffer;
        bool is_broken = false; /* the promise was destroyed, so its future no longer gets a
                                   ticket */
    };

    struct release_pin {
        void operator()(kiln_pin *pin) const noexcept
        {
            kiln_pin_release(&pin);
        }
    };

  public:
    /* A computation whose result this caller waits for. Another caller or the owner of a promise
     * computes it. */
    class awaited
    {
      public:
        awaited(kiln_constant_cache *cache, kiln_pending *pending, std::size_t size) noexcept
            : cache_(cache), pending_(pending), size_(size)
        {
        }

        awaited(const awaited &) = delete;
        awaited &operator=(const awaited &) = delete;

        ~awaited()
        {
            kiln_pending_drop(&pending_);
        }

        /* Returns the constant's pin. Fails with build_failed if the computation ended without a
         * constant; without exceptions, the pin is then null. */
        kiln_pin *wait() const
        {
            kiln_reservation answer = kiln_reservation();
            kiln_error described = params<kiln_error>();
            detail::check(kiln_constant_wait(cache_, pending_, size_, 0, &answer, &described),
                          &described);
            if (answer.outcome != KILN_HIT) {
                kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, nullptr);
                static const char broken[] = "the constant was not computed; ask for it again";
                described.status = KILN_E_BUILD;
                std::copy(broken, broken + sizeof broken, described.text);
                detail::check(KILN_E_BUILD, &described);
            }
            return answer.pin;
        }

        /* Returns true if wait() would not block. */
        bool is_ready() const
        {
            kiln_reservation answer = kiln_reservation();
            const kiln_status code =
                kiln_constant_wait(cache_, pending_, size_, KILN_NO_WAIT, &answer, nullptr);
            kiln_pin_release(&answer.pin);
            kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, nullptr);
            return code != KILN_TIMEOUT;
        }

      private:
        kiln_constant_cache *const cache_;
        kiln_pending *pending_;
        const std::size_t size_;
    };

  public:
    /* A constant that was found, is being computed, or was promised. All copies refer to the same
     * constant. */
    class value_t
    {
      public:
        value_t() = default;

        /* Returns true if there is a constant to get, now or after waiting. */
        bool valid() const noexcept
        {
            return pin_ || awaited_ || promise_;
        }

        /* Returns the constant. If another caller is computing the constant, waits until it is
         * ready. The result shares ownership of the constant, and stays valid when the constant is
         * removed from the cache. The result is null if the constant was promised and has not been
         * set yet. Throws the failure of the computation, or cycle if the call would wait for
         * itself. */
        cached_t get() const
        {
            if (!pin_ && !awaited_) {
                return promise_ ? promise_->buffer : cached_t();
            }
            const std::shared_ptr<kiln_pin> held = pin();
            if (!held) { /* without exceptions */
                return cached_t();
            }
            const kiln_constant_buffer *kept = kiln_constant_buffer_of(held.get());
            return cached_t(held,
                            static_cast<holder *>(kiln_constant_buffer_data(kept))->buffer.get());
        }

        /* Returns true if get() would not wait. */
        bool is_ready() const
        {
            return pin_ || (awaited_ ? awaited_->is_ready() : promise_ && promise_->buffer);
        }

        /* Returns a watch on the constant. Waits as get() does. */
        kiln::watch watch() const
        {
            const std::shared_ptr<kiln_pin> held = pin();
            kiln_watch *made = nullptr;
            detail::check(kiln_pin_watch(held.get(), &made));
            return kiln::watch(made);
        }

      private:
        friend class constant_tensor_cache_t;

        std::shared_ptr<kiln_pin> pin() const
        {
            return awaited_ ? std::shared_ptr<kiln_pin>(awaited_->wait(), release_pin()) : pin_;
        }

        std::shared_ptr<kiln_pin> pin_;
        std::shared_ptr<awaited> awaited_;
        std::shared_ptr<promised> promise_;
    };

    /* Each caller passes a promise's future to get_or_add, in case it must compute the constant. If
     * a promise is destroyed without a value, for example by an exception, threads that wait for it
     * get a failure, and the next caller of get_or_add computes the constant. */
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

        /* Returns the argument for get_or_add. It is valid only as long as the promise is. */
        value_t get_future() const
        {
            value_t future;
            future.promise_ = promised_;
            return future;
        }

        /* Returns true if other callers will get the value that is set. */
        bool is_awaited() const noexcept
        {
            return promised_->ticket != nullptr;
        }

        /* Sets the value.
         *
         * @cost_ns  the cost of computing the constant again; 0: the time since get_or_add */
        status set_value(const cached_t &buffer, std::uint64_t cost_ns = 0)
        {
            promised_->buffer = buffer;
            return detail::check(promised_->ticket ? fulfil(buffer, cost_ns) : KILN_OK);
        }

        /* Reports that the computation failed: all waiting threads get this failure. */
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
            memory.allocate = supply;
            memory.free = destroy;
            memory.engine = kept.get();
            memory.evicted = notify;
            kiln_constant_buffer *made = nullptr;
            const kiln_status code =
                kiln_constant_buffer_new(&memory, buffer->size(), nullptr, &made);
            if (code != KILN_OK) {
                return code;
            }
            kept.release();
            return kiln_constant_fulfil(&promised_->ticket, &made, cost_ns, nullptr);
        }

        /* Allocates nothing: the memory that the cache receives exists already. */
        static void *supply(std::size_t, void *engine, void *) noexcept
        {
            return engine;
        }

        static void destroy(void *data, void *, void *) noexcept
        {
            delete static_cast<holder *>(data);
        }

        static void notify(void *, const kiln_constant_buffer *buffer) noexcept
        {
            static_cast<holder *>(kiln_constant_buffer_data(buffer))->buffer->notify_evict();
        }

        std::shared_ptr<promised> promised_;
    };

    /* Refers to the cache of a device.
     *
     * @context  the context that owns the memory; contexts never share constants */
    explicit constant_tensor_cache_t(engine::kind kind, std::uint32_t index = 0,
                                     std::uint64_t context = 0)
        : cache_(nullptr), kind_(kind), index_(index), context_(context)
    {
        detail::check(kiln_constant_cache_of(detail::number_of(kind), index, &cache_));
    }

    /* Makes the key of a constant of this context. */
    constant_key_t key(std::uint64_t backend_id, const std::string &bytes,
                       std::uint64_t generation = 0) const
    {
        return constant_key_t(context_, backend_id, bytes.data(), bytes.size(), generation);
    }

    /* Makes the key of a constant of this context from a number. */
    constant_key_t key(std::uint64_t backend_id, std::size_t number,
                       std::uint64_t generation = 0) const
    {
        return constant_key_t(context_, backend_id, &number, sizeof number, generation);
    }

    /* Asks for a constant, and never waits. The result is valid if the constant is in the cache, or
     * if this or another caller is computing it. In the latter case, get() of the result waits. The
     * result is not valid if this caller must compute the constant. In that case, either other
     * callers wait for this caller's promise, or the cache can't take the constant and this caller
     * computes it for itself alone.
     *
     * @size   the size of the constant in bytes
     * @value  from promise_t::get_future
     * @owner  the number of the constant_owner_t whose destructor removes the constant; 0: the
     *         constant belongs to its context only */
    value_t get_or_add(const constant_key_t &key, std::size_t size, const value_t &value,
                       std::uint64_t owner = 0) const
    {
        kiln_constant_params params = kiln_constant_params();
        params.struct_size = sizeof params;
        params.owner = owner;
        params.flags = KILN_RESERVE_PENDING;
        kiln_reservation answer = kiln_reservation();
        kiln_error described = kiln_error();
        described.struct_size = sizeof described;
        const kiln_status code =
            kiln_constant_get_or_add(cache_, key.get(), size, &params, &answer, &described);
        detail::check(code, &described);
        value_t found;
        if (answer.pin) {
            found.pin_ = std::shared_ptr<kiln_pin>(answer.pin, release_pin());
        } else if (answer.pending) {
            found.awaited_ = std::make_shared<awaited>(cache_, answer.pending, size);
        } else if (value.promise_ && !value.promise_->ticket && !value.promise_->is_broken) {
            value.promise_->ticket = answer.ticket;
        } else {
            /* No promise can fulfil this ticket. */
            kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, nullptr);
        }
        return found;
    }

    /* Does the same, with a key that the call makes from a number. */
    value_t get_or_add(std::uint64_t backend_id, std::size_t backend_specific_key, std::size_t size,
                       const value_t &value) const
    {
        return get_or_add(key(backend_id, backend_specific_key), size, value);
    }

    /* Does the same, with a key that the call makes from bytes. */
    value_t get_or_add(std::uint64_t backend_id, const std::string &backend_specific_key,
                       std::size_t size, const value_t &value) const
    {
        return get_or_add(key(backend_id, backend_specific_key), size, value);
    }

    /* Removes a constant. If it is being computed, its owner and waiters get it, but it is not
     * kept. */
    void remove_if_exist(const constant_key_t &key) const
    {
        detail::check(kiln_constant_remove_if_exist(cache_, key.get()));
    }

    /* Does the same, with a key that the call makes from a number. */
    void remove_if_exist(std::uint64_t backend_id, std::size_t backend_specific_key) const
    {
        remove_if_exist(key(backend_id, backend_specific_key));
    }

    /* Does the same, with a key that the call makes from bytes. */
    void remove_if_exist(std::uint64_t backend_id, const std::string &backend_specific_key) const
    {
        remove_if_exist(key(backend_id, backend_specific_key));
    }

    /* Returns the capacity that users have set for the device, in MiB. The largest std::size_t
     * means no limit. */
    std::size_t get_capacity() const
    {
        kiln_constant_budget budget = params<kiln_constant_budget>();
        budget.scope = KILN_CONSTANT_INDEX;
        budget.kind = detail::number_of(kind_);
        budget.index = index_;
        detail::check(kiln_constant_get_budget(&budget));
        return detail::size_of_mib(budget.capacity_mib);
    }

    /* Returns the total size of the constants of all contexts in the cache, in bytes. */
    std::size_t get_size() const noexcept
    {
        return static_cast<std::size_t>(kiln_constant_get_size(cache_));
    }

    /* Returns the C handle. */
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
