/* SPDX-License-Identifier: Apache-2.0
 *
 *     on_disk_cpp [DIRECTORY]
 *
 * on_disk.c in C++11. Both make equal keys, so each finds the entries that the other has stored.
 * docs/guide.md explains it.
 */
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include <kiln/kiln.hpp>

#include "runtime.h"

namespace
{

struct release {
    void operator()(program *made) const
    {
        program_release(made);
    }
};

using owned_program = std::unique_ptr<program, release>;
using built_program = kiln::built<program, release>;

using steady = std::chrono::steady_clock;

std::uint64_t ns_since(steady::time_point began)
{
    const auto elapsed = steady::now() - began;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
}

class library
{
  public:
    explicit library(const std::string &directory)
    {
        try {
            store_.open(directory);
        } catch (const kiln::error &error) {
            std::cerr << "nothing is kept on disk: " << error.what() << std::endl;
        }
    }

    kiln::pin<program> get(const std::string &source)
    {
        const kiln::key key =
            kiln::key_builder().add("runtime", runtime_version()).add("source", source).finish();
        return programs_.get_or_build(key, [&] {
            owned_program made = load(key);
            if (!made) {
                const steady::time_point began = steady::now();
                made.reset(runtime_compile(source.c_str()));
                if (!made) {
                    throw kiln::error(kiln::status::build_failed, "it does not compile");
                }
                store_.put(kiln::entry(key, program_binary(made.get()), program_size(made.get()),
                                       KILN_ENTRY_PROGRAM, ns_since(began)));
            }
            const std::size_t size = program_size(made.get());
            return built_program(std::move(made), size);
        });
    }

  private:
    owned_program load(const kiln::key &key) const
    {
        const kiln::entry found = store_.get(key);
        return owned_program(found ? program_load(found.payload().data, found.payload().size)
                                   : nullptr);
    }

    kiln::cache<program, release> programs_;
    kiln::store store_;
};

void compute(library &in, const std::string &source, double x)
{
    const kiln::pin<program> found = in.get(source);
    std::cout << source << " at " << x << " is " << program_run(found.get(), x) << std::endl;
}

} // namespace

int main(int count, char **arguments)
{
    try {
        library mine(count > 1 ? arguments[1] : "./guide_cache");
        compute(mine, "3 0 2", 10);
        compute(mine, "3 0 2", 20);
        compute(mine, "1 1", 5);
    } catch (const kiln::error &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}
