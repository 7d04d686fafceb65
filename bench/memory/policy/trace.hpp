/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace: which objects are asked for, what each occupies, and what a miss of it costs.
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

/* Lines of "key", or "time key size". What they lack is drawn from the key: sizes and costs are
 * log-normal, as those of device programs may be. */
Trace read_trace(const std::string &path);

/* Programs that work in loops on projects of theirs, whose parts change now and then. */
Trace make_sessions(uint64_t seed);
