/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/pack.h in C++11: writes packs. A pack is read as kiln::store("pack:FILE").
 */
#ifndef KILN_PACK_HPP
#define KILN_PACK_HPP

#include <string>

#include <kiln/entry.hpp>
#include <kiln/pack.h>
#include <kiln/status.hpp>
#include <kiln/store.hpp>

namespace kiln
{

/* A pack that is being written. Its file has no name before finish. */
class pack_writer
{
  public:
    explicit pack_writer(const std::string &path,
                         const kiln_pack_params &chosen = params<kiln_pack_params>())
    {
        kiln_error described = params<kiln_error>();
        const kiln_status code =
            detail::is_text(path)
                ? kiln_pack_writer_open(path.c_str(), &chosen, writer_.address(), &described)
                : KILN_E_INVALID;
        detail::check(code, &described);
    }

    /* Only for programs without exceptions: returns true if writing could begin. */
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(writer_);
    }

    /* Adds a copy of an entry, compressed. If two entries have the same digest, the pack keeps the
     * first. */
    status add(const entry &added)
    {
        return detail::check(kiln_pack_writer_add(writer_.get(), added.get()));
    }

    /* Gives the pack its name. Nothing can be added afterwards. */
    status finish(kiln_pack_report *ret_report = nullptr)
    {
        kiln_error described = params<kiln_error>();
        const kiln_status code = kiln_pack_writer_finish(writer_.address(), ret_report, &described);
        return detail::check(code, &described);
    }

  private:
    detail::owner<kiln_pack_writer, kiln_pack_writer_abandon> writer_;
};

} // namespace kiln

#endif
