/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

/* Sizes have a median of 80 KB, from 10 KB to 100 MB. Costs have a median of 150 ms, from 1 ms to
 * 300 s. Their logarithms correlate. */
static void draw(uint64_t key, double &size, double &cost)
{
    std::mt19937_64 generator(key * 0x9e3779b97f4a7c15u + 1);
    std::normal_distribution<double> normal;
    double a = normal(generator), b = normal(generator);
    size = std::clamp(80e3 * std::exp(1.4 * a), 10e3, 100e6);
    cost = std::clamp(150e6 * std::exp(1.7 * (0.6 * a + 0.8 * b)), 1e6, 300e9);
}

static void add_object(Trace &trace, uint64_t key, double known_size)
{
    double size, cost;
    draw(key, size, cost);
    trace.sizes.push_back(known_size > 0 ? known_size : size);
    trace.costs.push_back(cost);
}

Trace read_trace(const std::string &path)
{
    std::ifstream file(path);
    if (!file) {
        throw std::runtime_error(path + " can't be read");
    }
    Trace trace;
    std::unordered_map<uint64_t, uint32_t> objects;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        uint64_t first = 0, key = 0;
        double size = 0;
        words >> first;
        if (!(words >> key >> size)) {
            key = first;
            size = 0;
        }
        auto [found, is_new] = objects.emplace(key, static_cast<uint32_t>(trace.sizes.size()));
        if (is_new) {
            add_object(trace, key, size);
        }
        trace.requests.push_back(found->second);
    }
    return trace;
}

Trace make_sessions(uint64_t seed)
{
    enum { PROJECTS = 100, REQUESTS = 100000 };
    std::mt19937_64 generator(seed);
    auto pick = [&](uint64_t limit) { return generator() % limit; };
    Trace trace;
    auto add = [&] {
        add_object(trace, seed * 1000003 + trace.sizes.size(), 0);
        return static_cast<uint32_t>(trace.sizes.size() - 1);
    };
    std::vector<std::vector<uint32_t>> projects(PROJECTS);
    std::vector<double> weights;
    for (size_t i = 0; i < projects.size(); i++) {
        projects[i].resize(20 + pick(200));
        std::generate(projects[i].begin(), projects[i].end(), add);
        weights.push_back(1 / std::pow(static_cast<double>(i + 1), 0.9));
    }
    std::discrete_distribution<size_t> some_project(weights.begin(), weights.end());
    while (trace.requests.size() < REQUESTS) {
        std::vector<uint32_t> &project = projects[some_project(generator)];
        size_t used = project.size() * (30 + pick(71)) / 100;
        size_t first = pick(project.size());
        for (uint64_t loop = 1 + pick(3); loop > 0; loop--) {
            for (size_t i = 0; i < used; i++) {
                uint32_t &object = project[(first + i) % project.size()];
                if (pick(40) == 0) {
                    object = add();
                }
                trace.requests.push_back(object);
            }
        }
    }
    return trace;
}
