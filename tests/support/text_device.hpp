/* SPDX-License-Identifier: Apache-2.0
 *
 * A device runtime for tests in C++: a program is a text, and building "f" yields "built f".
 * Building "wrong" fails.
 */
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include <kiln/program.hpp>

namespace text_device
{

static int builds;
static int live;

struct program {
    explicit program(std::string of) : text(std::move(of))
    {
        live++;
    }

    ~program()
    {
        live--;
    }

    std::string text;
};

static inline kiln_status identify(void *, kiln_key_builder *key)
{
    return kiln_key_builder_add_text(key, "device", "a device of texts");
}

static inline kiln_status describe(void *, const kiln_program_source *source, kiln_key_builder *key,
                                   kiln_error *)
{
    return kiln_key_builder_add(key, "source", source->code.data, source->code.size);
}

static inline kiln_status build(void *, const kiln_program_source *source, void **ret_program,
                                char **ret_log)
{
    builds++;
    const std::string code(static_cast<const char *>(source->code.data), source->code.size);
    if (code == "wrong") {
        *ret_log = strdup("it is wrong");
        return KILN_E_BUILD;
    }
    *ret_program = new program("built " + code);
    return KILN_OK;
}

static inline kiln_status capture(void *, void *made, kiln_capture *ret_capture)
{
    const std::string &text = static_cast<program *>(made)->text;
    void *copy = std::malloc(text.size());
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    *ret_capture = kiln_capture();
    ret_capture->payload = std::memcpy(copy, text.data(), text.size());
    ret_capture->payload_size = text.size();
    return KILN_OK;
}

static inline kiln_status load(void *, const kiln_program_source *, const kiln_entry *entry,
                               void **ret_program)
{
    const kiln_bytes payload = kiln_entry_payload(entry);
    *ret_program = new program(std::string(static_cast<const char *>(payload.data), payload.size));
    return KILN_OK;
}

static inline kiln_status make_kernel(void *, void *made, const char *name, void **ret_kernel)
{
    *ret_kernel = new program(static_cast<program *>(made)->text + ": " + name);
    return KILN_OK;
}

static inline void release(void *, void *text)
{
    delete static_cast<program *>(text);
}

static inline kiln_device_ops make_ops()
{
    kiln_device_ops ops = kiln::params<kiln_device_ops>();
    ops.name = "texts";
    ops.capture_cost = KILN_CAPTURE_CHEAP;
    ops.identity = identify;
    ops.describe = describe;
    ops.build = build;
    ops.capture = capture;
    ops.load = load;
    ops.kernel = make_kernel;
    ops.release_program = release;
    ops.release_kernel = release;
    return ops;
}

static const kiln_device_ops ops = make_ops();
static void *the_device = &builds;

static inline kiln_program_context_params context_params()
{
    kiln_program_context_params params = kiln::params<kiln_program_context_params>();
    params.ops = &ops;
    params.devices = &the_device;
    params.device_count = 1;
    return params;
}

} // namespace text_device
