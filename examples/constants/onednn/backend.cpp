/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.hpp"

#include <cstdlib>
#include <memory>
#include <utility>

using dnnl::memory;
using kiln::constant_tensor_cache_t;

namespace example
{

enum { BACKEND_ID = 2, ALIGNMENT = 64 };

/* ---- memory ---- */

void *allocator_t::allocate(std::size_t size, const dnnl::engine &, const allocator_t *)
{
    const std::size_t whole = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return aligned_alloc(ALIGNMENT, whole);
}

void allocator_t::deallocate(void *data, const dnnl::engine &, const allocator_t *)
{
    free(data);
}

void allocator_t::retain()
{
    holds_++;
}

void allocator_t::release()
{
    if (--holds_ == 0) {
        delete this;
    }
}

backend_t::backend_t()
    : engine(dnnl::engine::kind::cpu, 0), cache(kiln::engine::kind::cpu), allocator(new allocator_t)
{
}

backend_t::~backend_t()
{
    allocator->release();
}

/* ---- partitions ---- */

static memory::desc plain_weights(const weights_t &weights)
{
    return {
        {weights.outputs, weights.inputs, 3, 3}, memory::data_type::f32, memory::format_tag::oihw};
}

static memory::desc plain_images(std::int64_t images, std::int64_t channels)
{
    return {{images, channels, partition_t::side, partition_t::side},
            memory::data_type::f32,
            memory::format_tag::nhwc};
}

static dnnl::convolution_forward::primitive_desc describe(const dnnl::engine &engine,
                                                          const weights_t &weights,
                                                          std::int64_t images)
{
    const memory::desc wanted({weights.outputs, weights.inputs, 3, 3}, memory::data_type::f32,
                              memory::format_tag::any);
    /* Threads share the convolution, so each thread passes its own scratch memory. */
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::desc operation(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        plain_images(images, weights.inputs), wanted, plain_images(images, weights.outputs), {1, 1},
        {1, 1}, {1, 1});
    return {operation, attributes, engine};
}

static void append(std::string &bytes, const void *value, std::size_t size)
{
    bytes.append(static_cast<const char *>(value), size);
}

/* What decides the reordered weights: their address, their version, their layout and their sizes.
 * */
static kiln::constant_key_t key_of(const constant_tensor_cache_t &cache, const weights_t &weights,
                                   const memory::desc &layout)
{
    std::string bytes;
    const float *address = weights.values.data();
    const dnnl_memory_desc_t &description = layout.data;
    const dnnl_blocking_desc_t &blocks = description.format_desc.blocking;
    append(bytes, &address, sizeof address);
    append(bytes, &description.data_type, sizeof description.data_type);
    append(bytes, &description.ndims, sizeof description.ndims);
    append(bytes, description.dims, sizeof *description.dims * description.ndims);
    append(bytes, description.padded_dims, sizeof *description.padded_dims * description.ndims);
    append(bytes, blocks.strides, sizeof *blocks.strides * description.ndims);
    append(bytes, blocks.inner_blks, sizeof *blocks.inner_blks * blocks.inner_nblks);
    append(bytes, blocks.inner_idxs, sizeof *blocks.inner_idxs * blocks.inner_nblks);
    return cache.key(BACKEND_ID, bytes, weights.generation);
}

partition_t::partition_t(backend_t &backend, const kiln::constant_owner_t &owner,
                         const weights_t &weights, std::int64_t images)
    : backend_(backend), owner_(owner), weights_(weights),
      description_(describe(backend.engine, weights, images)), convolution_(description_),
      key_(key_of(backend.cache, weights, description_.weights_desc()))
{
}

std::size_t partition_t::source_size() const
{
    return description_.src_desc().get_size() / sizeof(float);
}

std::size_t partition_t::destination_size() const
{
    return description_.dst_desc().get_size() / sizeof(float);
}

bool partition_t::has_layout_of(const partition_t &other) const
{
    return description_.weights_desc() == other.description_.weights_desc();
}

constant_tensor_cache_t::cached_t partition_t::reorder(dnnl::stream &stream) const
{
    const dnnl::engine &engine = backend_.engine;
    const memory::desc layout = description_.weights_desc();
    auto buffer = std::make_shared<buffer_t>(layout.get_size(), engine, backend_.allocator);
    /* oneDNN only reads the memory that it reorders. */
    memory from(plain_weights(weights_), engine, const_cast<float *>(weights_.values.data()));
    memory to(layout, engine, buffer->data<void>());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    backend_.reorders++;
    return buffer;
}

/* ---- executions ---- */

execution_t::execution_t(const partition_t &what) : what_(what), stream_(what.backend_.engine)
{
}

/* The reordered weights: held from before, found, or computed. If the cache accepts what this
 * thread computes, every thread that asked for it gets it. */
constant_tensor_cache_t::cached_t execution_t::obtain()
{
    if (watch_.is_live()) {
        return held_;
    }
    held_.reset();
    constant_tensor_cache_t::promise_t promise;
    const constant_tensor_cache_t::value_t found =
        what_.backend_.cache.get_or_add(what_.key_, what_.description_.weights_desc().get_size(),
                                        promise.get_future(), what_.owner_.number());
    if (found.valid()) {
        held_ = found.get();
        watch_ = found.watch();
        return held_;
    }
    constant_tensor_cache_t::cached_t computed = what_.reorder(stream_);
    promise.set_value(computed);
    return computed;
}

void execution_t::run(const std::vector<float> &source, std::vector<float> &destination)
{
    const dnnl::engine &engine = what_.backend_.engine;
    const constant_tensor_cache_t::cached_t weights = obtain();
    const dnnl::convolution_forward::primitive_desc &description = what_.description_;
    memory scratchpad(description.scratchpad_desc(), engine);
    what_.convolution_.execute(
        stream_,
        {{DNNL_ARG_SRC, memory(description.src_desc(), engine, const_cast<float *>(source.data()))},
         {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), engine, weights->data<void>())},
         {DNNL_ARG_DST, memory(description.dst_desc(), engine, destination.data())},
         {DNNL_ARG_SCRATCHPAD, scratchpad}});
    stream_.wait();
}

} // namespace example
