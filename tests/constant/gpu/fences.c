/* SPDX-License-Identifier: Apache-2.0
 *
 * A constant is shared while a GPU still computes it: a hit makes the caller's stream wait, but not
 * the host.
 *
 * usage: fences [LIBNVRTC]
 */
#include "reader.h"
#include "scene.h"

enum { COUNT = 1 << 16, SIZE = COUNT * sizeof(float), THREE = 0x40400000 };

static int failures;

static kiln_key *make_key(const backend *owner)
{
    const kiln_constant_key_params params = {
        .struct_size = sizeof params, .context = owner->context_number, .key = "", .key_size = 1};
    kiln_key *key;
    REQUIRE_KILN(kiln_constant_key_new(&params, &key));
    return key;
}

static kiln_reservation ask(const backend *owner, const kiln_key *key)
{
    kiln_reservation answer;
    REQUIRE_KILN(kiln_constant_get_or_add(owner->cache, key, SIZE, NULL, &answer, NULL));
    return answer;
}

/* Fulfils a ticket with a constant that the device computes after a kernel that waits for the
 * host. */
static kiln_pin *compute_late(const backend *owner, reader *gate, cuda_address gated,
                              kiln_ticket **ticket)
{
    const cuda_stream stream = owner->context->computing.handle;
    kiln_constant_buffer *buffer = constant_new(owner->context, SIZE, owner->cache);
    kiln_pin *pin;
    reader_launch(gate, gated, 1, stream, 1);
    context_enter(owner->context);
    REQUIRE_CUDA(owner->cuda->cuMemsetD32Async(constant_address(buffer), THREE, COUNT, stream));
    constant_computed(owner->context, buffer);
    context_leave(owner->context);
    REQUIRE_KILN(kiln_constant_fulfil(ticket, &buffer, 0, &pin));
    return pin;
}

static int is_done(const backend *owner, cuda_stream stream)
{
    context_enter(owner->context);
    const int result = owner->cuda->cuStreamQuery(stream);
    context_leave(owner->context);
    require(result == CUDA_SUCCESS || result == CUDA_NOT_READY, "cuStreamQuery", result);
    return result == CUDA_SUCCESS;
}

/* Enqueues a kernel that reads the constant of a pin. */
static void read_constant(const backend *owner, reader *by, const kiln_pin *pin, cuda_stream stream)
{
    const kiln_constant_buffer *buffer = kiln_constant_buffer_of(pin);
    context_enter(owner->context);
    constant_await(buffer, stream);
    context_leave(owner->context);
    reader_launch(by, constant_address(buffer), COUNT, stream, 0);
}

static void synchronize(const backend *owner, cuda_stream stream)
{
    context_enter(owner->context);
    REQUIRE_CUDA(owner->cuda->cuStreamSynchronize(stream));
    context_leave(owner->context);
}

static int was_read(const reader *by)
{
    return by->board->sums[0] == 3.0 * COUNT && by->board->sums[1] == 3.0 * COUNT;
}

static cuda_address take(const backend *owner, cuda_stream stream, size_t size)
{
    cuda_address memory;
    context_enter(owner->context);
    REQUIRE_CUDA(owner->cuda->cuMemAllocAsync(&memory, size, stream));
    REQUIRE_CUDA(owner->cuda->cuMemsetD32Async(memory, 0, size / sizeof(float), stream));
    REQUIRE_CUDA(owner->cuda->cuStreamSynchronize(stream));
    context_leave(owner->context);
    return memory;
}

static void give_back(const backend *owner, cuda_stream stream, cuda_address memory)
{
    context_enter(owner->context);
    REQUIRE_CUDA(owner->cuda->cuMemFreeAsync(memory, stream));
    context_leave(owner->context);
}

int main(int argc, char **argv)
{
    backend owner;
    reader gate, by;
    user_stream stream;
    backend_open(&owner, backend_driver(), 0, argc > 1 ? argv[1] : NULL);
    reader_open(&gate, &owner);
    reader_open(&by, &owner);
    user_stream_begin(owner.context, &stream);
    kiln_key *key = make_key(&owner);
    const cuda_address gated = take(&owner, stream.handle, SIZE);
    /* The first launch of a kernel may wait for others, so it is done before the test begins. */
    reader_launch(&by, gated, COUNT, stream.handle, 0);
    synchronize(&owner, stream.handle);

    kiln_reservation first = ask(&owner, key);
    expect(&failures, first.outcome == KILN_OWNER, "the first caller computes");
    first.pin = compute_late(&owner, &gate, gated, &first.ticket);
    kiln_reservation second = ask(&owner, key);
    expect(&failures, second.outcome == KILN_HIT, "a caller during the computation hits");
    read_constant(&owner, &by, second.pin, stream.handle);
    reader_await_start(&gate, owner.context->computing.handle);
    expect(&failures, !is_done(&owner, stream.handle) && by.board->flags[0] == 0,
           "its stream waits");
    reader_go_on(&gate);
    synchronize(&owner, stream.handle);
    expect(&failures, was_read(&by), "it reads what the first caller computed");

    kiln_pin_release(&second.pin);
    second = ask(&owner, key);
    read_constant(&owner, &by, second.pin, stream.handle);
    synchronize(&owner, stream.handle);
    expect(&failures, was_read(&by), "so does a later caller");

    kiln_pin_release(&first.pin);
    kiln_pin_release(&second.pin);
    kiln_key_release(&key);
    give_back(&owner, stream.handle, gated);
    user_stream_end(owner.context, &stream);
    reader_close(&gate);
    reader_close(&by);
    backend_close(&owner);
    return failures != 0;
}
