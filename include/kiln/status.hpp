/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/status.h in C++11: how all C++ headers report failures, by an exception or by a result.
 *
 * A failure throws kiln::error. If exceptions are off, or KILN_NO_EXCEPTIONS is defined, calls that
 * return kiln::status return the failure; all other calls return an empty object. All files of a
 * program must make the same choice.
 */
#ifndef KILN_STATUS_HPP
#define KILN_STATUS_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include <kiln/status.h>

#if !defined(KILN_NO_EXCEPTIONS) && !defined(__cpp_exceptions) && !defined(__EXCEPTIONS)
#define KILN_NO_EXCEPTIONS
#endif

namespace kiln
{

/* kiln_status */
enum class status : std::int32_t {
    success = KILN_OK,
    miss = KILN_MISS,
    busy = KILN_BUSY,
    timeout = KILN_TIMEOUT,
    exists = KILN_EXISTS,
    invalid_arguments = KILN_E_INVALID,
    out_of_memory = KILN_E_NO_MEMORY,
    io_error = KILN_E_IO,
    corrupt = KILN_E_CORRUPT,
    newer_version = KILN_E_VERSION,
    unimplemented = KILN_E_UNSUPPORTED,
    denied = KILN_E_DENIED,
    full = KILN_E_FULL,
    readonly = KILN_E_READONLY,
    build_failed = KILN_E_BUILD,
    cycle = KILN_E_CYCLE,
    refused = KILN_E_REFUSED,
    out_of_resources = KILN_E_RESOURCES,
    unauthenticated = KILN_E_UNAUTHENTICATED,
    too_large = KILN_E_TOO_LARGE,
    unreadable_text = KILN_E_PARSE
};

/* Returns the name of the constant in C, such as "KILN_E_CORRUPT". */
inline const char *status_name(status code) noexcept
{
    return kiln_status_name(static_cast<kiln_status>(code));
}

/* Returns a line for messages, such as "the bytes are damaged". */
inline const char *status_text(status code) noexcept
{
    return kiln_status_text(static_cast<kiln_status>(code));
}

/* A failure. Copying it can't fail, because its text has a fixed size. */
class error : public std::exception
{
  public:
    explicit error(const kiln_error &described) noexcept : described_(described)
    {
    }

    explicit error(kiln_status code) noexcept : error(code, kiln_status_text(code))
    {
    }

    /* A failure with a text, which is truncated to the size of kiln_error's text. */
    error(kiln_status code, const char *text) noexcept : described_()
    {
        described_.struct_size = sizeof described_;
        described_.status = code;
        for (std::size_t i = 0; i + 1 < sizeof described_.text && text[i]; i++) {
            described_.text[i] = text[i];
        }
    }

    error(kiln::status code, const char *text) noexcept
        : error(static_cast<kiln_status>(code), text)
    {
    }

    /* Returns the message. */
    const char *what() const noexcept override
    {
        return described_.text;
    }

    /* Returns the status. */
    kiln::status status() const noexcept
    {
        return static_cast<kiln::status>(described_.status);
    }

    /* Returns errno, or 0. */
    int system_error() const noexcept
    {
        return described_.system_error;
    }

    /* Returns the structure for C calls. */
    const kiln_error &described() const noexcept
    {
        return described_;
    }

  private:
    kiln_error described_;
};

/* Returns the parameters of a C call, with all defaults. */
template <typename Params> Params params() noexcept
{
    Params made = Params();
    made.struct_size = sizeof made;
    return made;
}

namespace detail
{

/* Throws if @code is an error; otherwise returns @code. */
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

/* Returns true if C calls receive the whole text. For them, a text ends at its first zero byte. */
inline bool is_text(const std::string &bytes) noexcept
{
    return bytes.find('\0') == std::string::npos;
}

/* A counted hold on a T. Retain and Release are the C functions that retain and release a T. View
 * is T, or const T if T is immutable. */
template <typename T, typename View, T *(*Retain)(View *), void (*Release)(T **)> class counted
{
  public:
    counted() noexcept : held_(nullptr)
    {
    }

    /* Takes ownership of the hold. */
    explicit counted(T *taken) noexcept : held_(taken)
    {
    }

    counted(const counted &other) noexcept : held_(other.held_ ? Retain(other.held_) : nullptr)
    {
    }

    counted(counted &&other) noexcept : held_(other.held_)
    {
        other.held_ = nullptr;
    }

    counted &operator=(counted other) noexcept
    {
        std::swap(held_, other.held_);
        return *this;
    }

    ~counted()
    {
        Release(&held_);
    }

    explicit operator bool() const noexcept
    {
        return held_ != nullptr;
    }

    /* Returns the C handle, which still belongs to this object. */
    View *get() const noexcept
    {
        return held_;
    }

  private:
    T *held_;
};

/* A hold on an immutable object. */
template <typename T, T *(*Retain)(const T *), void (*Release)(T **)>
using reference = counted<T, const T, Retain, Release>;

/* A hold on an object that C calls may use. */
template <typename T, T *(*Retain)(T *), void (*Release)(T **)>
using hold = counted<T, T, Retain, Release>;

/* A C handle with one owner. Free is the C function that frees a T and sets the caller's pointer to
 * NULL. */
template <typename T, void (*Free)(T **)> class owner
{
  public:
    explicit owner(T *taken = nullptr) noexcept : held_(taken)
    {
    }

    owner(owner &&other) noexcept : held_(other.held_)
    {
        other.held_ = nullptr;
    }

    /* Frees the handle that this object had before. */
    owner &operator=(owner &&other) noexcept
    {
        owner taken(std::move(other));
        std::swap(held_, taken.held_);
        return *this;
    }

    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;

    ~owner()
    {
        Free(&held_);
    }

    explicit operator bool() const noexcept
    {
        return held_ != nullptr;
    }

    /* Returns the C handle, which still belongs to this object. */
    T *get() const noexcept
    {
        return held_;
    }

    /* Returns the address of the handle, for C calls that set or free it. */
    T **address() noexcept
    {
        return &held_;
    }

  private:
    T *held_;
};

} // namespace detail

} // namespace kiln

#endif
