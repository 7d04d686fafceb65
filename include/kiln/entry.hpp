/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/entry.h in C++11: an entry, one stored result.
 */
#ifndef KILN_ENTRY_HPP
#define KILN_ENTRY_HPP

#include <cstddef>
#include <cstdint>

#include <kiln/entry.h>
#include <kiln/key.hpp>
#include <kiln/status.hpp>

namespace kiln
{

namespace detail
{

inline kiln_entry *retain_entry(const kiln_entry *entry)
{
    return kiln_entry_retain(entry);
}

} // namespace detail

/* A built result with its key, immutable and shared. A default-constructed entry is empty. */
class entry : public detail::reference<kiln_entry, detail::retain_entry, kiln_entry_release>
{
  public:
    using counted::counted;

    entry() = default;

    explicit entry(const kiln_entry_params &params) : entry()
    {
        kiln_entry *made = nullptr;
        detail::check(kiln_entry_new(&params, &made));
        *this = entry(made);
    }

    /* Makes an entry from a copy of @bytes.
     *
     * @kind      a kiln_entry_kind
     * @build_ns  how long the build took; a full store keeps an entry longer if its build took
     *            longer */
    entry(const kiln::key &key, const void *bytes, std::size_t size,
          std::uint32_t kind = KILN_ENTRY_BLOB, std::uint64_t build_ns = 0)
        : entry(described(key, bytes, size, kind, build_ns))
    {
    }

    /* Returns the payload, which is valid as long as any copy of this entry exists. */
    kiln_bytes payload() const noexcept
    {
        return kiln_entry_payload(get());
    }

    /* Returns the key. */
    kiln::key key() const noexcept
    {
        return kiln::key(kiln_key_retain(kiln_entry_key(get())));
    }

  private:
    static kiln_entry_params described(const kiln::key &key, const void *bytes, std::size_t size,
                                       std::uint32_t kind, std::uint64_t build_ns) noexcept
    {
        kiln_entry_params made = kiln::params<kiln_entry_params>();
        made.key = key.get();
        made.kind = kind;
        made.provenance.struct_size = sizeof made.provenance;
        made.provenance.build_ns = build_ns;
        made.payload.data = bytes;
        made.payload.size = size;
        return made;
    }
};

} // namespace kiln

#endif
