/* SPDX-License-Identifier: Apache-2.0
 *
 * Kiln with the names of SYCL's runtimes, in C++11: their variables, a context's cache of programs
 * and kernels, and interoperability. Header only. The comments of kiln/config.h and kiln/program.h
 * apply here too.
 *
 *     const kiln::config variables = kiln::sycl_config();
 *     kiln_program_context_params params = kiln::program_params(variables);
 *     params.ops = ops;
 *     params.devices = devices;
 *     params.device_count = 1;
 *     kiln::kernel_program_cache cache(params);
 *
 * Source: SYCL's kernel and program cache (docs/seeds.md, S1 to S76).
 */
#ifndef KILN_SYCL_HPP
#define KILN_SYCL_HPP

#include <kiln/config.hpp>
#include <kiln/onednn.hpp>
#include <kiln/program.hpp>

namespace kiln
{

/* Reads the configuration from SYCL_CACHE_… and the other variables of SYCL's caches.
 *
 * @lookup  called for each variable; null: the environment of the process
 * @user    passed to @lookup */
inline config sycl_config(kiln_lookup_fn lookup = nullptr, void *user = nullptr)
{
    return config(profile::sycl, lookup, user);
}

/* The programs and kernels of one context. */
using kernel_program_cache = program_context;

/* Functions that identify a SYCL device by its native handle. */
namespace sycl_interop = interop;

} // namespace kiln

#endif
