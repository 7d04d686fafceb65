/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated caches that only report whether a request is a hit: the policies that Kiln's are
 * compared with.
 */
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trace.hpp"

class Cache
{
  public:
    virtual ~Cache() = default;
    virtual bool request(uint32_t object) = 0;
};

using MakeCache = std::function<std::unique_ptr<Cache>(const Trace &trace, double capacity)>;

struct Way {
    std::string name;
    MakeCache make;
};

std::vector<Way> kiln_ways();
std::vector<Way> simulated_ways();
