/* SPDX-License-Identifier: Apache-2.0
 *
 * A small backend: convolutions on the processor by oneDNN, which chooses the memory layout of the
 * weights. The weights in that layout are constants, in Kiln's constant tensor cache.
 */
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include <kiln/onednn.hpp>

namespace example
{

/* Buffers get their memory from an allocator, which is freed when its last hold is released. */
class allocator_t
{
  public:
    static void *allocate(std::size_t size, const dnnl::engine &eng, const allocator_t *alc);
    static void deallocate(void *data, const dnnl::engine &eng, const allocator_t *alc);

    void retain();
    void release();

  private:
    std::atomic<int> holds_{1};
};

/* The memory of a constant, on the processor. */
class buffer_t : public kiln::device_constant_buffer_t<dnnl::engine, allocator_t>
{
  public:
    buffer_t(std::size_t size, const dnnl::engine &eng, const allocator_t *alc)
        : device_constant_buffer_t(size, eng, alc, allocator_t::allocate, allocator_t::deallocate)
    {
    }
};

/* One processor. */
class backend_t
{
  public:
    backend_t();
    ~backend_t();

    backend_t(const backend_t &) = delete;
    backend_t &operator=(const backend_t &) = delete;

    const dnnl::engine engine;
    const kiln::constant_tensor_cache_t cache;
    allocator_t *const allocator;
    std::atomic<int> reorders{0}; /* how often weights were reordered */
};

/* Weights of 3 x 3 filters, in the order output channel, input channel, row, column, and the number
 * of their version. The user may change both. */
struct weights_t {
    std::vector<float> values;
    std::int64_t outputs, inputs;
    std::uint64_t generation;
};

/* A convolution that was compiled for a fixed number of images, in the order row, column, channel.
 * Several partitions may share weights. */
class partition_t
{
  public:
    enum { side = 6 }; /* of an image, in pixels */

    /* @owner    frees the constants when it ends; several partitions may share an owner
     * @weights  must outlive the partition, as must @owner */
    partition_t(backend_t &backend, const kiln::constant_owner_t &owner, const weights_t &weights,
                std::int64_t images);

    std::size_t source_size() const;      /* in numbers */
    std::size_t destination_size() const; /* likewise */

    /* Whether this partition needs its weights in the same layout as @other. */
    bool has_layout_of(const partition_t &other) const;

  private:
    friend class execution_t;

    /* The weights in the layout that the convolution needs. */
    kiln::constant_tensor_cache_t::cached_t reorder(dnnl::stream &stream) const;

    backend_t &backend_;
    const kiln::constant_owner_t &owner_;
    const weights_t &weights_;
    dnnl::convolution_forward::primitive_desc description_;
    dnnl::convolution_forward convolution_;
    kiln::constant_key_t key_;
};

/* How one thread executes a partition. It holds the weights that it found, and asks the cache again
 * only after they were evicted. */
class execution_t
{
  public:
    explicit execution_t(const partition_t &what);

    void run(const std::vector<float> &source, std::vector<float> &destination);

  private:
    kiln::constant_tensor_cache_t::cached_t obtain();

    const partition_t &what_;
    dnnl::stream stream_;
    kiln::constant_tensor_cache_t::cached_t held_;
    kiln::watch watch_;
};

} // namespace example
