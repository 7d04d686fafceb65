/* SPDX-License-Identifier: Apache-2.0
 *
 * All of Kiln in C++11: classes that own the objects of the C calls. The comments of the C headers
 * apply here too. Header only. Each header in kiln/ that declares objects has a counterpart that
 * ends in .hpp. kiln/onednn.hpp and kiln/sycl.hpp use the names that users of oneDNN and of SYCL's
 * runtimes know.
 *
 * kiln/status.hpp describes how failures are reported: by an exception or by a result.
 */
#ifndef KILN_HPP
#define KILN_HPP

#include <kiln/cache.hpp>
#include <kiln/config.hpp>
#include <kiln/constant.hpp>
#include <kiln/engine.hpp>
#include <kiln/entry.hpp>
#include <kiln/key.hpp>
#include <kiln/nvrtc.hpp>
#include <kiln/onednn.hpp>
#include <kiln/opencl.hpp>
#include <kiln/pack.hpp>
#include <kiln/program.hpp>
#include <kiln/status.hpp>
#include <kiln/store.hpp>
#include <kiln/sycl.hpp>

#endif
