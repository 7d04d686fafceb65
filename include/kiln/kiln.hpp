/* SPDX-License-Identifier: Apache-2.0
 *
 * Kiln in C++11: keys, entries and the persistent cache of kiln/persistent.h, by the names that
 * oneDNN's proposal gives them. Header only, over the C calls, whose comments hold here too.
 *
 *     kiln::set_persistent_cache_dir("/var/cache/mine");
 *     kiln::set_persistent_cache_capacity(512);
 *
 * What fails throws kiln::error. Where exceptions are off, or KILN_NO_EXCEPTIONS is defined, calls
 * that return kiln::status return what happened; the others return something empty.
 */
#ifndef KILN_HPP
#define KILN_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include <kiln/entry.h>
#include <kiln/key.h>
#include <kiln/persistent.h>
#include <kiln/status.h>

#if !defined(KILN_NO_EXCEPTIONS) && !defined(__cpp_exceptions) && !defined(__EXCEPTIONS)
#define KILN_NO_EXCEPTIONS
#endif

namespace kiln
{

/* Every kiln_status has its number; these have names. */
enum class status : std::int32_t {
    success = KILN_OK,
    miss = KILN_MISS,
    invalid_arguments = KILN_E_INVALID,
    out_of_memory = KILN_E_NO_MEMORY,
    unimplemented = KILN_E_UNSUPPORTED
};

/* Can be copied without being able to fail: its text is of fixed size. */
class error : public std::exception
{
  public:
    explicit error(const kiln_error &described) noexcept : described_(described)
    {
    }

    explicit error(kiln_status code) noexcept : described_()
    {
        described_.struct_size = sizeof described_;
        described_.status = code;
        const char *text = kiln_status_text(code);
        for (std::size_t i = 0; i + 1 < sizeof described_.text && text[i]; i++) {
            described_.text[i] = text[i];
        }
    }

    const char *what() const noexcept override
    {
        return described_.text;
    }

    kiln::status status() const noexcept
    {
        return static_cast<kiln::status>(described_.status);
    }

    /* errno, or 0. */
    int system_error() const noexcept
    {
        return described_.system_error;
    }

  private:
    kiln_error described_;
};

namespace detail
{

/* Throws what is an error; what is none, a miss for one, is handed on. */
inline status check(kiln_status code, const kiln_error *described = nullptr)
{
#ifndef KILN_NO_EXCEPTIONS
    if (code < 0) {
        throw described && described->status == code ? error(*described) : error(code);
    }
#else
    (void)described;
#endif
    return static_cast<status>(code);
}

/* One counted reference. Retain and Release are the C calls of T. */
template <typename T, T *(*Retain)(const T *), void (*Release)(T **)> class reference
{
  public:
    reference() noexcept : held_(nullptr)
    {
    }

    /* Takes the caller's reference over. */
    explicit reference(T *taken) noexcept : held_(taken)
    {
    }

    reference(const reference &other) noexcept : held_(other.held_ ? Retain(other.held_) : nullptr)
    {
    }

    reference(reference &&other) noexcept : held_(other.held_)
    {
        other.held_ = nullptr;
    }

    reference &operator=(reference other) noexcept
    {
        std::swap(held_, other.held_);
        return *this;
    }

    ~reference()
    {
        Release(&held_);
    }

    explicit operator bool() const noexcept
    {
        return held_ != nullptr;
    }

    /* The C handle, which stays this object's. */
    const T *get() const noexcept
    {
        return held_;
    }

  private:
    T *held_;
};

inline kiln_key *retain_key(const kiln_key *key)
{
    return kiln_key_retain(key);
}

inline kiln_entry *retain_entry(const kiln_entry *entry)
{
    return kiln_entry_retain(entry);
}

} // namespace detail

/* A key, immutable and shared; empty unless a key_builder made it. */
class key : public detail::reference<kiln_key, detail::retain_key, kiln_key_release>
{
  public:
    using reference::reference;

    friend bool operator==(const key &a, const key &b) noexcept
    {
        return kiln_key_equals(a.get(), b.get()) != 0;
    }

    friend bool operator!=(const key &a, const key &b) noexcept
    {
        return !(a == b);
    }
};

/* Collects the parts of a key:
 *     kiln::key key = kiln::key_builder().add("source", text).add("options", "-O2").finish(); */
class key_builder
{
  public:
    key_builder() : builder_(nullptr)
    {
        detail::check(kiln_key_builder_new(&builder_));
    }

    key_builder(const key_builder &) = delete;
    key_builder &operator=(const key_builder &) = delete;

    ~key_builder()
    {
        kiln_key_builder_free(&builder_);
    }

    /* Bytes; a text with all that is in it. */
    key_builder &add(const char *name, const std::string &bytes)
    {
        return add(name, bytes.data(), bytes.size());
    }

    key_builder &add(const char *name, const void *bytes, std::size_t size)
    {
        return note(kiln_key_builder_add(builder_, name, bytes, size));
    }

    key_builder &add_number(const char *name, std::uint64_t number)
    {
        return note(kiln_key_builder_add_number(builder_, name, number));
    }

    /* For C calls that add parts. */
    kiln_key_builder *get() const noexcept
    {
        return builder_;
    }

    /* Without exceptions: empty where a part could not be added. */
    key finish() const
    {
        kiln_key *made = nullptr;
        if (failure_ == KILN_OK) {
            detail::check(kiln_key_builder_finish(builder_, &made));
        }
        return key(made);
    }

  private:
    key_builder &note(kiln_status code)
    {
        detail::check(code);
        failure_ = failure_ == KILN_OK ? code : failure_;
        return *this;
    }

    kiln_key_builder *builder_;
    kiln_status failure_ = KILN_OK;
};

/* A built result with its key, immutable and shared; empty unless it was made or found. */
class entry : public detail::reference<kiln_entry, detail::retain_entry, kiln_entry_release>
{
  public:
    using reference::reference;

    explicit entry(const kiln_entry_params &params) : entry()
    {
        kiln_entry *made = nullptr;
        detail::check(kiln_entry_new(&params, &made));
        *this = entry(made);
    }

    /* Lives as long as a copy of this does. */
    kiln_bytes payload() const noexcept
    {
        return kiln_entry_payload(get());
    }
};

/* ---- the persistent cache ---- */

struct engine {
    enum class kind { cpu = KILN_ENGINE_CPU, gpu = KILN_ENGINE_GPU };
};

/* What happens when the capacity is reached. */
enum class persistent_cache_policy {
    fifo = KILN_POLICY_FIFO,        /* what was created first goes */
    no_evict = KILN_POLICY_NO_EVICT /* nothing new is kept */
};

namespace detail
{

inline std::uint32_t number_of(engine::kind kind)
{
    return static_cast<std::uint32_t>(kind);
}

} // namespace detail

/* @enable  0 or 1; both kinds are on at first, so that the capacity alone decides */
inline status set_persistent_cache(int enable, engine::kind kind)
{
    return detail::check(kiln_persistent_set_enabled(detail::number_of(kind), enable));
}

inline bool get_persistent_cache(engine::kind kind)
{
    int is_enabled = 0;
    detail::check(kiln_persistent_get_enabled(detail::number_of(kind), &is_enabled));
    return is_enabled != 0;
}

/* @capacity  in MiB; 0, the default: the persistent cache is disabled */
inline status set_persistent_cache_capacity(int capacity)
{
    return detail::check(kiln_persistent_set_capacity(capacity));
}

inline int get_persistent_cache_capacity()
{
    std::int32_t capacity = 0;
    detail::check(kiln_persistent_get_capacity(&capacity));
    return capacity;
}

/* @dir  empty, the default: a directory of our own in the working directory */
inline status set_persistent_cache_dir(const std::string &dir)
{
    const bool is_path = dir.find('\0') == std::string::npos;
    return detail::check(is_path ? kiln_persistent_set_dir(dir.c_str()) : KILN_E_INVALID);
}

inline std::string get_persistent_cache_dir()
{
    /* Another thread may set a longer one between two calls. */
    std::string dir;
    std::size_t size = 0;
    kiln_status code = kiln_persistent_get_dir(nullptr, &size);
    do {
        dir.resize(size);
        code = kiln_persistent_get_dir(&dir[0], &size);
    } while (code == KILN_E_TOO_LARGE);
    detail::check(code);
    dir.resize(size - 1);
    return dir;
}

inline status set_persistent_cache_policy(persistent_cache_policy policy)
{
    return detail::check(kiln_persistent_set_policy(static_cast<std::uint32_t>(policy)));
}

inline persistent_cache_policy get_persistent_cache_policy()
{
    std::uint32_t policy = KILN_POLICY_FIFO;
    detail::check(kiln_persistent_get_policy(&policy));
    return static_cast<persistent_cache_policy>(policy);
}

/* Opens the store now, or throws why it can't be opened; status::miss: the cache is off. */
inline status open_persistent_cache(engine::kind kind)
{
    kiln_error described = kiln_error();
    described.struct_size = sizeof described;
    return detail::check(kiln_persistent_open(detail::number_of(kind), &described), &described);
}

/* What the cache holds for a key; empty: nothing that could be used. */
inline entry find_persistent(engine::kind kind, const key &wanted)
{
    kiln_entry *found = nullptr;
    const kiln_status code = kiln_persistent_get(detail::number_of(kind), wanted.get(), &found);
    if (code == KILN_E_INVALID || code == KILN_E_NO_MEMORY) {
        detail::check(code);
    }
    return entry(found);
}

/* Whether an entry is kept from now on. A cache that can't keep one fails nobody. */
inline bool keep_persistent(engine::kind kind, const entry &kept)
{
    const kiln_status code = kiln_persistent_put(detail::number_of(kind), kept.get());
    if (code == KILN_E_INVALID || code == KILN_E_NO_MEMORY) {
        detail::check(code);
    }
    return code == KILN_OK;
}

} // namespace kiln

#endif
