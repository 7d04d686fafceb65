/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc.hpp, over the libnvrtc that the argument names. Also compiled without exceptions: then a
 * failure yields an empty object.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <kiln/kiln.hpp>

#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

static void check(bool holds, const char *condition, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, condition);
        std::exit(1);
    }
}

static kiln_nvrtc_device_params library(const char *path)
{
    kiln_nvrtc_device_params params = kiln::params<kiln_nvrtc_device_params>();
    params.nvrtc = path;
    return params;
}

static void test_programs_are_built_once(const char *nvrtc)
{
    const kiln::nvrtc_device device(library(nvrtc));
    CHECK(device && device.get());
    const kiln::program_context context(device.context_params());
    kiln_program_desc_params params = kiln::params<kiln_program_desc_params>();
    const char code[] = "template <typename T> __global__ void f(T *x) {}\n";
    params.form = KILN_SOURCE_TEXT;
    params.code = {code, sizeof code - 1};
    params.options.compile = "--kiln-name-expression=f<int>";
    const kiln::program_desc desc(context, params);
    kiln_program_result first = kiln::params<kiln_program_result>();
    kiln_program_result second = kiln::params<kiln_program_result>();
    const kiln::program program(desc, &first);
    const kiln::program again(desc, &second);
    CHECK(first.from == KILN_PROGRAM_FROM_BUILD && second.from == KILN_PROGRAM_FROM_MEMORY);

    const kiln_bytes ptx = kiln::nvrtc_output(program, KILN_NVRTC_PTX);
    CHECK(ptx.size > 1 && static_cast<const char *>(ptx.data)[ptx.size - 1] == '\0');
    CHECK(std::strncmp(kiln::nvrtc_lowered_name(program, "f<int>"), "_Z", 2) == 0);
    CHECK(!kiln::nvrtc_lowered_name(program, "g<int>"));
}

static void test_the_rest_of_a_context_is_the_users(const char *nvrtc)
{
    const kiln::nvrtc_device device(library(nvrtc));
    kiln_program_context_params in = kiln::params<kiln_program_context_params>();
    in.max_programs = 5;
    in = device.context_params(in);
    CHECK(in.max_programs == 5 && in.ops == kiln_nvrtc_ops() && in.device_count == 1);
}

#ifndef KILN_NO_EXCEPTIONS

static void test_failures()
{
    try {
        kiln::nvrtc_device device(library("/no/such/libnvrtc.so"));
        CHECK(!"was made");
    } catch (const kiln::error &error) {
        CHECK(error.status() == kiln::status::unimplemented);
        CHECK(std::strstr(error.what(), "no NVRTC"));
    }
}

#else

static void test_failures()
{
    const kiln::nvrtc_device device(library("/no/such/libnvrtc.so"));
    CHECK(!device && !device.get());
    CHECK(!kiln::program_context(device.context_params()));
}

#endif

int main(int count, char **arguments)
{
    CHECK(count == 2);
    test_programs_are_built_once(arguments[1]);
    test_the_rest_of_a_context_is_the_users(arguments[1]);
    test_failures();
    return 0;
}
