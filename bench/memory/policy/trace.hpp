/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace: which objects are requested, how large each is, and what a miss of each costs.
 */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct Trace {
    std::vector<uint32_t> requests;
    std::vector<double> sizes; /* bytes, by object */
    std::vector<double> costs; /* nanoseconds, by object */
};

/* Reads lines of "key" or "time key size". Missing sizes and costs are derived from the key, with a
 * log-normal distribution, as for device programs. */
Trace read_trace(const std::string &path);

/* A trace of programs that work on projects in loops. Parts of the projects change now and then. */
Trace make_sessions(uint64_t seed);
