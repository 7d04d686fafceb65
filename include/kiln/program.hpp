/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/program.h in C++11: programs, kernels and cache blobs.
 *
 *     kiln::program_context programs(params);
 *     kiln::program_desc desc(programs, described);
 *     kiln::program program(desc);
 *     kiln::kernel blur = program.get_kernel("blur");
 *     std::lock_guard<kiln::kernel> lock(blur);    where threads share it
 *     launch(blur.handle<cl_kernel>());
 *
 * Store and device are declared before the context, since they have to outlive it.
 *
 * Whoever keeps binaries elsewhere:
 *
 *     store_on_disk(desc.get_cache_blob_id(), program.get_cache_blob());
 *     kiln::program again(desc, load_from_disk(desc.get_cache_blob_id()));
 *
 * The device ops that make something may throw (kiln/device.h says which). That reaches who asked,
 * and counts as a failure that is his alone: nothing is kept of it, and one of those who wait goes
 * on in his place.
 */
#ifndef KILN_PROGRAM_HPP
#define KILN_PROGRAM_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

/* One device context, with its programs and its kernels. */
class program_context
{
  public:
    explicit program_context(const kiln_program_context_params &params)
    {
        detail::check(kiln_program_context_new(&params, context_.address()));
    }

    /* Without exceptions: whether it could be made. */
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(context_);
    }

    /* Waits until what was built is in the store. timeout: it is not yet. */
    status drain(std::uint64_t timeout_ns)
    {
        return detail::check(kiln_program_context_drain(context_.get(), timeout_ns));
    }

    /* Of the programs map; 0 of either empties it and turns it off. */
    status set_capacity(std::uint64_t max_bytes, std::uint64_t max_entries)
    {
        return detail::check(
            kiln_program_context_set_capacity(context_.get(), max_bytes, max_entries));
    }

    /* Either may be null; both are 0 where the map is off. */
    status get_capacity(std::uint64_t *max_bytes, std::uint64_t *max_entries) const
    {
        return detail::check(
            kiln_program_context_get_capacity(context_.get(), max_bytes, max_entries));
    }

    /* Empties both maps; nothing on disk changes. */
    void clear() noexcept
    {
        kiln_program_context_clear(context_.get());
    }

    /* Removes the programs of an image, with their kernels; how many programs. */
    std::size_t remove_image(std::uint64_t image) noexcept
    {
        return kiln_program_context_remove_image(context_.get(), image);
    }

    /* Counters of the programs map. */
    kiln_cache_stats program_stats() const
    {
        kiln_cache_stats counted = params<kiln_cache_stats>();
        detail::check(kiln_program_context_get_program_stats(context_.get(), &counted));
        return counted;
    }

    /* Counters of the kernels map. */
    kiln_cache_stats kernel_stats() const
    {
        kiln_cache_stats counted = params<kiln_cache_stats>();
        detail::check(kiln_program_context_get_kernel_stats(context_.get(), &counted));
        return counted;
    }

    /* The C handle, which stays this object's. */
    kiln_program_context *get() const noexcept
    {
        return context_.get();
    }

  private:
    detail::owner<kiln_program_context, kiln_program_context_free> context_;
};

/* What a program is built from and for; immutable and shared. */
class program_desc : public detail::reference<kiln_program_desc, detail::retain_program_desc,
                                              kiln_program_desc_release>
{
  public:
    using counted::counted;

    program_desc() = default;

    /* Looks at all that decides the build, included files too. */
    program_desc(const program_context &context, const kiln_program_desc_params &params)
        : program_desc()
    {
        kiln_program_desc *made = nullptr;
        kiln_error described = kiln::params<kiln_error>();
        const kiln_status code = kiln_program_desc_new(context.get(), &params, &made, &described);
        detail::check(code, &described);
        *this = program_desc(made);
    }

    /* What identifies its blob; empty: there are none on such a device. */
    std::vector<std::uint8_t> get_cache_blob_id() const
    {
        std::size_t size = 0;
        const std::uint8_t *id = nullptr;
        detail::check(kiln_program_desc_cache_blob_id(get(), &size, &id));
        std::vector<std::uint8_t> copy(size);
        std::copy(id, id + size, copy.begin());
        return copy;
    }

    /* Whether, and if not why not. */
    kiln_program_caching caching() const
    {
        kiln_program_caching said = params<kiln_program_caching>();
        detail::check(kiln_program_desc_get_caching(get(), &said));
        return said;
    }

    /* Whether the program, and so each of its kernels, is kept in memory. */
    bool is_cacheable() const
    {
        return caching().memory == KILN_UNCACHED_NOT;
    }

    /* Under which a store has it; empty: that can't be told. */
    kiln::key key() const noexcept
    {
        return kiln::key(kiln_key_retain(kiln_program_desc_key(get())));
    }
};

/* The name of one kernel of a described program, made ready to be looked up. */
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

/* One hold on a live kernel, which keeps its program alive too. A copy is another hold. */
class kernel : public detail::hold<kiln_kernel, detail::retain_kernel, kiln_kernel_release>
{
  public:
    using counted::counted;

    kernel() = default;

    /* Finds it, or makes it, and before that its program. Empty: the program has none of that
     * name. */
    explicit kernel(const kernel_desc &desc) : kernel()
    {
        kiln_kernel *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_kernel_get(desc.get(), &found, &described);
        detail::check(code, &described);
        *this = kernel(found);
    }

    /* The device runtime's, such as a cl_kernel; lives as long as the hold. */
    template <typename Handle> Handle handle() const noexcept
    {
        return static_cast<Handle>(kiln_kernel_handle(get()));
    }

    /* The same of its program. */
    template <typename Handle> Handle program_handle() const noexcept
    {
        return static_cast<Handle>(kiln_kernel_program_handle(get()));
    }

    /* For those who set a shared kernel's arguments and enqueue it; goes with std::lock_guard. */
    void lock() const noexcept
    {
        kiln_kernel_lock(get());
    }

    /* Ends that. */
    void unlock() const noexcept
    {
        kiln_kernel_unlock(get());
    }
};

/* One hold on a live program. A copy is another hold. */
class program : public detail::hold<kiln_program, detail::retain_program, kiln_program_release>
{
  public:
    using counted::counted;

    program() = default;

    /* Finds it in memory, else in the store, else builds it.
     *
     * @ret_result  may be null; with its struct_size */
    explicit program(const program_desc &desc, kiln_program_result *ret_result = nullptr)
        : program()
    {
        kiln_program *found = nullptr;
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_program_get(desc.get(), &found, ret_result, &described);
        detail::check(code, &described);
        *this = program(found);
    }

    /* Makes it of its blob; an empty one is built. */
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

    /* A hold on a program of the user's own, which it is given. Nothing of it is cached. */
    static program adopt(const program_context &context, std::size_t device, void *handle)
    {
        kiln_program *adopted = nullptr;
        detail::check(kiln_program_adopt(context.get(), device, handle, &adopted));
        return program(adopted);
    }

    /* A binary of which the same description makes the program without building it. Empty: there
     * are none on such a device, or it is empty, which is legal. */
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

    /* The kernel of a name; empty: there is none of that name.
     *
     * @device  index among those of the context: the one that it will run on */
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

    /* Whether, and if not why not. */
    kiln_program_caching caching() const
    {
        kiln_program_caching said = params<kiln_program_caching>();
        detail::check(kiln_program_get_caching(get(), &said));
        return said;
    }

    /* Whether it, and so each of its kernels, is kept in memory. */
    bool is_cacheable() const
    {
        return caching().memory == KILN_UNCACHED_NOT;
    }

    /* The device runtime's, such as a cl_program; lives as long as the hold. */
    template <typename Handle> Handle handle() const noexcept
    {
        return static_cast<Handle>(kiln_program_handle(get()));
    }
};

/* A read section on a context's kernels. */
class kernel_section
{
  public:
    /* Without exceptions: of an empty context there is nothing to see. */
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

    /* The device runtime's handle of a kernel that is in memory, or null; good until the section
     * ends. */
    template <typename Handle> Handle peek(const kernel_desc &desc) const noexcept
    {
        return static_cast<Handle>(desc ? kiln_kernel_peek(&entered_, desc.get()) : nullptr);
    }

  private:
    kiln_section entered_;
};

} // namespace kiln

#endif
