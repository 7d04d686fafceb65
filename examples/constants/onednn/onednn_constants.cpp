/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in oneDNN's layouts. Threads and partitions share them. The program changes the cache's
 * capacity and policy, and checks each result against loops on the host.
 */
#include "backend.hpp"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include <kiln/onednn.hpp>

using example::backend_t;
using example::execution_t;
using example::partition_t;
using example::weights_t;

/* The weights take a little less than 1 MiB. */
enum { INPUTS = 112, OUTPUTS = 256, THREADS = 4, RUNS = 8 };

static std::atomic<int> wrong{0};

/* Small integers, whose sums are exact in any order. */
static void fill(std::vector<float> &values, unsigned seed)
{
    for (float &value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(seed >> 29);
    }
}

static void change(weights_t &weights, unsigned seed)
{
    fill(weights.values, seed);
    weights.generation = kiln_constant_unique_number();
}

static weights_t make(unsigned seed)
{
    weights_t weights = {std::vector<float>(OUTPUTS * INPUTS * 9), OUTPUTS, INPUTS, 0};
    change(weights, seed);
    return weights;
}

/* One pixel of one output channel. */
static float convolve(const weights_t &weights, const float *image, int output, int row, int column)
{
    const int side = partition_t::side;
    float sum = 0;
    for (int input = 0; input < INPUTS; input++) {
        const float *filter =
            &weights.values[static_cast<std::size_t>(output * INPUTS + input) * 9];
        for (int i = 0; i < 9; i++) {
            const int y = row + i / 3 - 1;
            const int x = column + i % 3 - 1;
            if (y >= 0 && y < side && x >= 0 && x < side) {
                sum += filter[i] * image[(y * side + x) * INPUTS + input];
            }
        }
    }
    return sum;
}

static std::vector<float> expected_of(const weights_t &weights, const std::vector<float> &source,
                                      std::size_t size)
{
    const int pixels = partition_t::side * partition_t::side;
    std::vector<float> expected(size);
    for (std::size_t i = 0; i < size; i++) {
        const int output = static_cast<int>(i) % OUTPUTS;
        const int pixel = static_cast<int>(i) / OUTPUTS % pixels;
        const std::size_t image = i / OUTPUTS / pixels;
        expected[i] = convolve(weights, &source[image * INPUTS * pixels], output,
                               pixel / partition_t::side, pixel % partition_t::side);
    }
    return expected;
}

/* Executes a partition in several threads and prints how often weights were reordered. Any number
 * except @expected counts as an error. */
static void run(const char *what, backend_t &backend, const partition_t &partition,
                const weights_t &weights, int expected)
{
    std::vector<float> source(partition.source_size());
    fill(source, 7);
    const std::vector<float> right = expected_of(weights, source, partition.destination_size());
    const int before = backend.reorders;
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back([&] {
            execution_t execution(partition);
            for (int j = 0; j < RUNS; j++) {
                std::vector<float> destination(partition.destination_size());
                execution.run(source, destination);
                wrong += destination != right;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const int reorders = backend.reorders - before;
    wrong += reorders != expected;
    printf("%-40s %d runs, %2d reorders, %zu KiB kept\n", what, THREADS * RUNS, reorders,
           backend.cache.get_size() >> 10);
}

int main()
{
    using kiln::engine;
    backend_t backend;
    weights_t weights[] = {make(1), make(2)};
    const kiln::constant_owner_t model;

    const partition_t first(backend, model, weights[0], 1);
    run("a partition", backend, first, weights[0], 1);
    const partition_t same(backend, model, weights[0], 1);
    run("another with the same weights", backend, same, weights[0], 0);
    const partition_t larger(backend, model, weights[0], 2);
    run("one for two images", backend, larger, weights[0], larger.has_layout_of(first) ? 0 : 1);
    {
        const kiln::constant_owner_t other_model;
        const partition_t other(backend, other_model, weights[1], 1);
        run("one with other weights", backend, other, weights[1], 1);
    }

    change(weights[1], 3);
    const partition_t changed(backend, model, weights[1], 1);
    run("new weights at the same address", backend, changed, weights[1], 1);

    kiln::set_constant_tensor_cache_capacity(engine::kind::cpu, 1);
    run("the first, with a capacity of 1 MiB", backend, first, weights[0], 1);
    run("what does not fit beside it", backend, changed, weights[1], THREADS * RUNS);
    kiln::set_constant_tensor_cache_capacity(engine::kind::cpu, 1,
                                             kiln::constant_tensor_cache_policy::lru);
    run("the first, with policy lru", backend, first, weights[0], 1);
    run("what takes its place", backend, changed, weights[1], 1);
    kiln::set_constant_tensor_cache(0);
    run("disabled", backend, changed, weights[1], THREADS * RUNS);

    printf("%s\n", wrong == 0 ? "all is right" : "something is WRONG");
    return wrong == 0 ? 0 : 1;
}
