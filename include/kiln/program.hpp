/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/program.h in C++11: programs, kernels and cache blobs.
 *
 *     kiln::program_context programs(params);
 *     kiln::program_desc desc(programs, described);
 *     kiln::program program(desc);
 *     kiln::kernel blur = program.get_kernel("blur");
 *     std::lock_guard<kiln::kernel> lock(blur); // if threads share it
 *     launch(blur.handle<cl_kernel>());
 *
 * Declare the store and the device before the context, because they must outlive it.
 *
 * A program that keeps binaries elsewhere:
 *
 *     store_on_disk(desc.get_cache_blob_id(), program.get_cache_blob());
 *     kiln::program again(desc, load_from_disk(desc.get_cache_blob_id()));
 *
 * Some device ops may throw (kiln/device.h names them). The exception reaches the caller for which
 * the op ran, and counts as a failure of that caller alone. Nothing is kept, and one of the waiting
 * threads takes over.
 */
#ifndef KILN_PROGRAM_HPP
#define KILN_PROGRAM_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <kiln/cache.hpp>
#include <kiln/key.hpp>
#include <kiln/program.h>
#include <kiln/status.hpp>

namespace kiln
{

namespace detail
{

inline kiln_program_desc *retain_program_desc(const kiln_program_desc *desc)
{
    return kiln_program_desc_retain(desc);
}

inline kiln_program *retain_program(kiln_program *program)
{
    return kiln_program_retain(program);
}

inline kiln_kernel_desc *retain_kernel_desc(const kiln_kernel_desc *desc)
{
    return kiln_kernel_desc_retain(desc);
}

inline kiln_kernel *retain_kernel(kiln_kernel *kernel)
{
    return kiln_kernel_retain(kernel);
}

} // namespace detail

/* A device context, with its programs and its kernels. */
class program_context
{
  public:
    explicit program_context(const kiln_program_context_params &params)
    {
        detail::check(kiln_program_context_new(&params, context_.address()));
    }

    /* Only for programs without exceptions: returns true if the context was created. */
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(context_);
    }

    /* Waits until everything that was built is in the store. Returns timeout if that takes longer
     * than @timeout_ns. */
    status drain(std::uint64_t timeout_ns)
    {
        return detail::check(kiln_program_context_drain(context_.get(), timeout_ns));
    }

    /* Sets the capacity of the programs map; if either limit is 0, the call empties and disables
     * the map. */
    status set_capacity(std::uint64_t max_bytes, std::uint64_t max_entries)
    {
        return detail::check(
            kiln_program_context_set_capacity(context_.get(), max_bytes, max_entries));
    }

    /* Reads the capacity of the programs map. Either pointer may be null. Both numbers are 0 if the
     * map is disabled. */
    status get_capacity(std::uint64_t *max_bytes, std::uint64_t *max_entries) const
    {
        return detail::check(
            kiln_program_context_get_capacity(context_.get(), max_bytes, max_entries));
    }

    /* Empties both maps. Nothing on disk changes. */
    void clear() noexcept
    {
        kiln_program_context_clear(context_.get());
    }

    /* Removes the programs of an image, with their kernels. Returns the number of programs. */
    std::size_t remove_image(std::uint64_t image) noexcept
    {
        return kiln_program_context_remove_image(context_.get(), image);
    }

    /* Returns the counters of the programs map. */
    kiln_cache_stats program_stats() const
    {
        kiln_cache_stats counted = params<kiln_cache_stats>();
        detail::check(kiln_program_context_get_program_stats(context_.get(), &counted));
        return counted;
    }

    /* Returns the counters of the kernels map. */
    kiln_cache_stats kernel_stats() const
    {
        kiln_cache_stats counted = params<kiln_cache_stats>();
        detail::check(kiln_program_context_get_kernel_stats(context_.get(), &counted));
        return counted;
    }

    /* Returns the C handle, which still belongs to this object. */
    kiln_program_context *get() const noexcept
    {
        return context_.get();
    }

  private:
    detail::owner<kiln_program_context, kiln_program_context_free> context_;
};

namespace detail
{

using listen_fn = kiln_status(kiln_program_context *, std::uint32_t, kiln_program_listener_fn,
                              void *, std::uint64_t *);
using unlisten_fn = void(kiln_program_context *, std::uint64_t);

/* Passes the events of a map to a function until the listener is destroyed. */
template <listen_fn *listen, unlisten_fn *unlisten> class map_listener
{
  public:
    /* Starts listening.
     *
     * @context   must outlive the listener
     * @events    KILN_EVENT_… or-ed
     * @on_event  called for each event, from any thread; if it throws, the program terminates */
    map_listener(const program_context &context, std::uint32_t events,
                 std::function<void(const kiln_program_event &)> on_event)
        : context_(context.get()), on_event_(std::move(on_event)), id_(0)
    {
        detail::check(listen(context_, events, notify, this, &id_));
    }

    map_listener(const map_listener &) = delete;
    map_listener &operator=(const map_listener &) = delete;

    /* Stops listening. When the destructor returns, the function is not running on another thread.
     */
    ~map_listener()
    {
        unlisten(context_, id_);
    }

  private:
    static void notify(void *self, const kiln_program_event *event) noexcept
    {
        static_cast<map_listener *>(self)->on_event_(*event);
    }

    kiln_program_context *context_;
    std::function<void(const kiln_program_event &)> on_event_;
    std::uint64_t id_;
};

} // namespace detail

/* Passes the events of a context's programs map to a function. */
using program_listener = detail::map_listener<kiln_program_context_listen_programs,
                                              kiln_program_context_unlisten_programs>;

/* Passes the events of a context's kernels map to a function. */
using kernel_listener = detail::map_listener<kiln_program_context_listen_kernels,
                                             kiln_program_context_unlisten_kernels>;

/* What a program is built from, and for which device. Immutable and shared. */
class program_desc : public detail::reference<kiln_program_desc, detail::retain_program_desc,
                                              kiln_program_desc_release>
{
  public:
    using counted::counted;

    program_desc() = default;

    /* Makes a description: examines everything that decides the build, even files that the source
     * includes. */
    program_desc(const program_context &context, const kiln_program_desc_params &params)
        : program_desc()
    {
        kiln_program_desc *made = nullptr;
        kiln_error described = kiln::params<kiln_error>();
        const kiln_status code = kiln_program_desc_new(context.get(), &params, &made, &described);
        detail::check(code, &described);
        *this = program_desc(made);
    }

    /* Returns the ID of the description's blob. The ID is empty if the device gives no binaries, or
     * if the inputs of the build are unknown. */
    std::vector<std::uint8_t> get_cache_blob_id() const
    {
        std::size_t size = 0;
        const std::uint8_t *id = nullptr;
        detail::check(kiln_program_desc_cache_blob_id(get(), &size, &id));
        std::vector<std::uint8_t> copy(size);
        std::copy(id, id + size, copy.begin());
        return copy;
    }

    /* Reports whether the program is cached, and if not, why. */
    kiln_program_caching caching() const
    {
        kiln_program_caching result = params<kiln_program_caching>();
        detail::check(kiln_program_desc_get_caching(get(), &result));
        return result;
    }

    /* Returns true if the program is kept in memory. Its kernels are then kept too. */
    bool is_cacheable() const
    {
        return caching().memory == KILN_UNCACHED_NOT;
    }

    /* Returns the key under which a store has the program. The key is empty if the inputs of the
     * build are unknown. */
    kiln::key key() const noexcept
    {
        return kiln::key(kiln_key_retain(kiln_program_desc_key(get())));
    }
};

/* The name of one kernel of a described program, prepared for look-ups. */
class kernel_desc : public detail::reference<kiln_kernel_desc, detail::retain_kernel_desc,
                                             kiln_kernel_desc_release>
{
  public:
    using counted::counted;

    kernel_desc() = default;

    kernel_desc(const program_desc &program, const std::string &name) : kernel_desc()
    {
        kiln_kernel_desc *made = nullptr;
        detail::check(detail::is_text(name)
                          ? kiln_kernel_desc_new(program.get(), name.c_str(), &made)
                          : KILN_E_INVALID);
        *this = kernel_desc(made);
    }
};

/* A hold on a live kernel. It keeps the kernel's program alive too. A copy is one more hold. */
class kernel : public detail::hold<kiln_kernel, detail::retain_kernel, kiln_kernel_release>
{
  public:
    using counted::counted;

    kernel() = default;

    /* Finds or makes the kernel and, if needed, its program. The hold is empty if the program has
     * no kernel of that name. */
    explicit kernel(const kernel_desc &desc) : kernel()
    {
        kiln_kernel *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_kernel_get(desc.get(), &found, &described);
        detail::check(code, &described);
        *this = kernel(found);
    }

    /* Returns the device runtime's handle, such as a cl_kernel. The handle is valid as long as the
     * hold is. */
    template <typename Handle> Handle handle() const noexcept
    {
        return static_cast<Handle>(kiln_kernel_handle(get()));
    }

    /* Returns the handle of the kernel's program. */
    template <typename Handle> Handle program_handle() const noexcept
    {
        return static_cast<Handle>(kiln_kernel_program_handle(get()));
    }

    /* Locks a shared kernel while a thread sets its arguments and enqueues it. std::lock_guard uses
     * this. */
    void lock() const noexcept
    {
        kiln_kernel_lock(get());
    }

    /* Unlocks the kernel. */
    void unlock() const noexcept
    {
        kiln_kernel_unlock(get());
    }
};

class pending_program;

/* A hold on a live program. A copy is one more hold. */
class program : public detail::hold<kiln_program, detail::retain_program, kiln_program_release>
{
  public:
    using counted::counted;

    program() = default;

    /* Finds the program in memory or in the store, or else builds it.
     *
     * @ret_result  [in, out] the caller sets its struct_size; may be null */
    explicit program(const program_desc &desc, kiln_program_result *ret_result = nullptr)
        : program()
    {
        kiln_program *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_program_get(desc.get(), &found, ret_result, &described);
        detail::check(code, &described);
        *this = program(found);
    }

    /* Does the same as the constructor above, with options. The hold is empty if the wait for
     * another builder timed out. */
    program(const program_desc &desc, const kiln_program_params &options,
            kiln_program_result *ret_result = nullptr)
        : program()
    {
        kiln_program *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code =
            kiln_program_obtain(desc.get(), &options, &found, ret_result, &described);
        detail::check(code, &described);
        *this = program(found);
    }

    /* Loads programs of one context into memory, if a store has them. A server is asked for many of
     * them at once. Returns how many were loaded. */
    static std::size_t prefetch(const std::vector<program_desc> &wanted)
    {
        std::vector<const kiln_program_desc *> descs;
        for (const program_desc &desc : wanted) {
            descs.push_back(desc.get());
        }
        std::size_t loaded = 0;
        detail::check(kiln_program_prefetch(descs.data(), descs.size(), &loaded));
        return loaded;
    }

    /* Looks for the program in memory, and never builds, loads or waits. The result is empty if the
     * program is not in memory.
     *
     * @ret_pending  [out] not empty if another thread is building the program */
    static program find(const program_desc &desc, pending_program &ret_pending);

    /* Makes the program from its blob. If the blob is empty, obtains the program as the first two
     * constructors do. */
    program(const program_desc &desc, const std::vector<std::uint8_t> &cache_blob,
            kiln_program_result *ret_result = nullptr)
        : program()
    {
        kiln_program *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_program_create_from_cache_blob(
            desc.get(), cache_blob.size(), cache_blob.data(), &found, ret_result, &described);
        detail::check(code, &described);
        *this = program(found);
    }

    /* Takes over a program that the user has built. The returned hold and its copies own @handle.
     * The program is not cached. */
    static program adopt(const program_context &context, std::size_t device, void *handle)
    {
        kiln_program *adopted = nullptr;
        detail::check(kiln_program_adopt(context.get(), device, handle, &adopted));
        return program(adopted);
    }

    /* Returns a binary from which the same description makes the program without building it. The
     * result is empty if the program has no blob (kiln_program_get_cache_blob returns
     * KILN_E_UNSUPPORTED), or if its blob is empty, which is valid. */
    std::vector<std::uint8_t> get_cache_blob() const
    {
        std::size_t size = 0;
        kiln_status code = kiln_program_get_cache_blob(get(), &size, nullptr);
        if (code == KILN_E_UNSUPPORTED) {
            return std::vector<std::uint8_t>();
        }
        detail::check(code);
        std::vector<std::uint8_t> blob(code == KILN_OK ? size : 0);
        if (!blob.empty()) {
            detail::check(kiln_program_get_cache_blob(get(), &size, blob.data()));
        }
        return blob;
    }

    /* Returns the kernel with the given name. The hold is empty if there is no such kernel.
     *
     * @device  the device that the kernel will run on, as an index into the devices of the context
     */
    kernel get_kernel(const std::string &name, std::size_t device = 0) const
    {
        kiln_kernel *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code =
            detail::is_text(name)
                ? kiln_program_get_kernel(get(), name.c_str(), device, &found, &described)
                : KILN_E_INVALID;
        detail::check(code, &described);
        return kernel(found);
    }

    /* Reports whether the program is cached, and if not, why. */
    kiln_program_caching caching() const
    {
        kiln_program_caching result = params<kiln_program_caching>();
        detail::check(kiln_program_get_caching(get(), &result));
        return result;
    }

    /* Returns true if the program is kept in memory. Its kernels are then kept too. */
    bool is_cacheable() const
    {
        return caching().memory == KILN_UNCACHED_NOT;
    }

    /* Returns the device runtime's handle, such as a cl_program. The handle is valid as long as the
     * hold is. */
    template <typename Handle> Handle handle() const noexcept
    {
        return static_cast<Handle>(kiln_program_handle(get()));
    }
};

/* A program that another thread is building. */
class pending_program : public detail::pending_answer
{
  public:
    using detail::pending_answer::pending_answer;

    pending_program() = default;

    /* Waits for the program. The result is empty if the wait timed out, or if the build ended
     * without a program that can be shared. In the second case, the caller must make a program from
     * the description.
     *
     * @wait_ns     how long to wait; 0: without limit; or KILN_NO_WAIT
     * @ret_status  [out] success; timeout; or miss if the build ended without such a program; may
     *              be null */
    program wait(std::uint64_t wait_ns = 0, status *ret_status = nullptr) const
    {
        kiln_program *found = nullptr;
        kiln_error described = params<kiln_error>();
        const status code =
            detail::check(kiln_program_wait(get(), wait_ns, &found, &described), &described);
        if (ret_status) {
            *ret_status = code;
        }
        return program(found);
    }
};

inline program program::find(const program_desc &desc, pending_program &ret_pending)
{
    kiln_program *found = nullptr;
    kiln_pending *pending = nullptr;
    kiln_error described = params<kiln_error>();
    detail::check(kiln_program_find(desc.get(), &found, &pending, &described), &described);
    ret_pending = pending_program(pending);
    return program(found);
}

/* A read section on a context's kernels. */
class kernel_section
{
  public:
    /* Enters the section. Without exceptions, a section on an empty context finds nothing. */
    explicit kernel_section(const program_context &context) noexcept : entered_()
    {
        if (context) {
            kiln_kernel_section_enter(context.get(), &entered_);
        }
    }

    kernel_section(const kernel_section &) = delete;
    kernel_section &operator=(const kernel_section &) = delete;

    ~kernel_section()
    {
        kiln_section_leave(&entered_);
    }

    /* Returns the device runtime's handle of a kernel that is in memory, or null. The handle is
     * valid until the section ends. */
    template <typename Handle> Handle peek(const kernel_desc &desc) const noexcept
    {
        return static_cast<Handle>(desc ? kiln_kernel_peek(&entered_, desc.get()) : nullptr);
    }

  private:
    kiln_section entered_;
};

} // namespace kiln

#endif
