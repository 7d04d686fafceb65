/* SPDX-License-Identifier: Apache-2.0
 *
 * The same library as two_levels.c, in C++11. Both make equal keys, so each finds the entries that
 * the other has stored.
 *
 *     two_levels_cpp [CAPACITY_MIB [DIRECTORY]]
 */
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include <kiln/cache.h>
#include <kiln/kiln.hpp>
#include <kiln/opencl.h>

#include "device.h"

namespace
{

std::string take(char *text)
{
    const std::unique_ptr<char, void (*)(void *)> taken(text, std::free);
    return taken.get();
}

void require(kiln_status status)
{
    if (status < 0) {
        throw kiln::error(status);
    }
}

/* ---- the key: everything that decides what a build yields ---- */

struct facts {
    kiln_key_builder *key;
    kiln_status status;
};

/* Called from C, so it must not throw. */
void add_fact(void *user, const char *name, const char *value)
{
    facts *added = static_cast<facts *>(user);
    if (added->status == KILN_OK) {
        added->status = kiln_key_builder_add_text(added->key, name, value ? value : "");
    }
}

kiln::key make_key(const compute_device &device)
{
    const std::string platform = take(device_platform_text(&device, CL_PLATFORM_NAME));
    kiln::key_builder key;
    key.add("device", take(device_text(&device, CL_DEVICE_NAME)))
        .add("version", take(device_text(&device, CL_DEVICE_VERSION)))
        .add("driver", take(device_text(&device, CL_DRIVER_VERSION)));
    facts added = {key.get(), KILN_OK};
    require(kiln_opencl_report_driver_files(device.platform, platform.c_str(), add_fact, &added));
    require(kiln_opencl_report_environment(platform.c_str(), nullptr, add_fact, &added));
    require(added.status);
    return key.add("platform", platform)
        .add("source", device_source)
        .add("options", device_options)
        .finish();
}

/* ---- both levels ---- */

class two_levels
{
  public:
    two_levels()
    {
        device_open(&device_);
        kiln_cache_params params = kiln_cache_params();
        params.struct_size = sizeof params;
        params.destroy = destroy;
        require(kiln_cache_new(&params, &programs_));
        key_ = make_key(device_);
    }

    ~two_levels()
    {
        kiln_cache_free(&programs_);
        device_close(&device_);
    }

    two_levels(const two_levels &) = delete;
    two_levels &operator=(const two_levels &) = delete;

    kiln::engine::kind engine_kind() const
    {
        return device_.is_gpu ? kiln::engine::kind::gpu : kiln::engine::kind::cpu;
    }

    void use_program()
    {
        kiln_pin *pin = nullptr;
        last_source_ = "found in memory";
        require(kiln_cache_get_or_build(programs_, key_.get(), build, this, &pin, nullptr));
        const std::unique_ptr<kiln_pin, void (*)(kiln_pin *)> held(pin, unpin);
        const bool is_right =
            device_computes(&device_, static_cast<cl_program>(kiln_pin_object(pin)));
        std::cout << last_source_ << ", computes " << (is_right ? "right" : "WRONG") << std::endl;
    }

  private:
    static void unpin(kiln_pin *pin)
    {
        kiln_pin_release(&pin);
    }

    static void destroy(void *, void *object)
    {
        clReleaseProgram(static_cast<cl_program>(object));
    }

    cl_program find_on_disk() const
    {
        const kiln::entry entry = kiln::find_persistent(engine_kind(), key_);
        return entry ? device_load(&device_, entry.payload().data, entry.payload().size) : nullptr;
    }

    /* If storing fails, the next process builds the program again. */
    void keep_on_disk(cl_program program) const
    {
        std::size_t size = 0;
        const std::unique_ptr<void, void (*)(void *)> binary(device_binary(program, &size),
                                                             std::free);
        if (!binary) {
            return;
        }
        kiln_entry_params params = kiln_entry_params();
        params.struct_size = sizeof params;
        params.key = key_.get();
        params.kind = KILN_ENTRY_PROGRAM;
        params.provenance.struct_size = sizeof params.provenance;
        params.provenance.name = "polynomial";
        params.payload.data = binary.get();
        params.payload.size = size;
        kiln::keep_persistent(engine_kind(), kiln::entry(params));
    }

    /* Called only if the program is not in memory. Other threads that request it wait meanwhile. */
    static kiln_status build(void *user, const kiln_key *, kiln_built *ret_built, kiln_error *)
    {
        two_levels *self = static_cast<two_levels *>(user);
        cl_program program = self->find_on_disk();
        self->last_source_ = "found on disk";
        if (!program) {
            program = device_build(&self->device_);
            if (!program) {
                return KILN_E_BUILD;
            }
            self->keep_on_disk(program);
            self->last_source_ = "built";
        }
        ret_built->object = program;
        ret_built->bytes = std::strlen(device_source);
        return KILN_OK;
    }

    compute_device device_;
    kiln_cache *programs_ = nullptr;
    kiln::key key_;
    const char *last_source_ = nullptr;
};

} // namespace

int main(int count, char **arguments)
{
    try {
        kiln::set_persistent_cache_capacity(count > 1 ? std::stoi(arguments[1]) : 64);
        kiln::set_persistent_cache_dir(count > 2 ? arguments[2] : "");
        two_levels library;
        try {
            kiln::open_persistent_cache(library.engine_kind());
        } catch (const kiln::error &error) {
            std::cerr << "nothing is kept on disk: " << error.what() << std::endl;
        }
        library.use_program();
        library.use_program();
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}
