/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/key.h in C++11: a key, everything that decides what a build yields.
 */
#ifndef KILN_KEY_HPP
#define KILN_KEY_HPP

#include <cstddef>
#include <cstdint>
#include <string>

#include <kiln/key.h>
#include <kiln/status.hpp>

namespace kiln
{

namespace detail
{

inline kiln_key *retain_key(const kiln_key *key)
{
    return kiln_key_retain(key);
}

} // namespace detail

/* A key, immutable and shared. Made by a key_builder; a default-constructed key is empty. */
class key : public detail::reference<kiln_key, detail::retain_key, kiln_key_release>
{
  public:
    using counted::counted;

    key() = default;

    friend bool operator==(const key &a, const key &b) noexcept
    {
        return kiln_key_equals(a.get(), b.get()) != 0;
    }

    friend bool operator!=(const key &a, const key &b) noexcept
    {
        return !(a == b);
    }

    /* Returns the digest as 32 hexadecimal digits, as in file names and in the output of the tool.
     * The key must not be empty. */
    std::string digest() const
    {
        const kiln_digest found = kiln_key_digest(get());
        char text[KILN_DIGEST_TEXT_SIZE];
        kiln_digest_format(&found, text);
        return text;
    }
};

/* Collects the parts of a key:
 *
 *     kiln::key key = kiln::key_builder().add("source", text).add("options", "-O2").finish();
 *
 * Without exceptions, the builder keeps the first error, and finish returns an empty key. */
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

    /* Adds a string, as text or as arbitrary bytes; it may contain NULs. */
    key_builder &add(const char *name, const std::string &bytes)
    {
        return add(name, bytes.data(), bytes.size());
    }

    /* Adds bytes. */
    key_builder &add(const char *name, const void *bytes, std::size_t size)
    {
        return checked(kiln_key_builder_add(builder_, name, bytes, size));
    }

    /* Adds a number: eight bytes, little-endian. */
    key_builder &add_number(const char *name, std::uint64_t number)
    {
        return checked(kiln_key_builder_add_number(builder_, name, number));
    }

    /* Returns the C handle, for C calls that add parts. */
    kiln_key_builder *get() const noexcept
    {
        return builder_;
    }

    /* Makes the key of all parts that were added. */
    key finish() const
    {
        kiln_key *made = nullptr;
        detail::check(kiln_key_builder_finish(builder_, &made));
        return key(made);
    }

  private:
    key_builder &checked(kiln_status code)
    {
        detail::check(code);
        return *this;
    }

    kiln_key_builder *builder_;
};

} // namespace kiln

#endif
