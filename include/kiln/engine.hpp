/* SPDX-License-Identifier: Apache-2.0
 *
 * kiln/engine.h in C++11: kinds of engines.
 */
#ifndef KILN_ENGINE_HPP
#define KILN_ENGINE_HPP

#include <cstdint>

#include <kiln/engine.h>

namespace kiln
{

/* Contains only the kinds of engines, because devices belong to their runtimes. */
struct engine {
    /* kiln_engine_kind */
    enum class kind { cpu = KILN_ENGINE_CPU, gpu = KILN_ENGINE_GPU };
};

namespace detail
{

inline std::uint32_t number_of(engine::kind kind)
{
    return static_cast<std::uint32_t>(kind);
}

} // namespace detail

} // namespace kiln

#endif
