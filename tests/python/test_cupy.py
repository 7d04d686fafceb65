# SPDX-License-Identifier: Apache-2.0
"""Tests the door to CuPy. NVRTC compiles without a GPU, to LTO IR, which CuPy does not load."""

import os
import subprocess
import sys
import unittest

from door_test import DoorTest, entries, skip_without

skip_without("cupy")

# CuPy asks the device for its architecture, and loads what is not LTO IR.
BUILD = """
import hashlib, os, sys
import kiln.cupy
import cupy
from cupy.cuda import compiler
from cupy._core import core
compiler._get_arch_for_options_for_nvrtc = lambda arch: (arch,)
class Built(BaseException):
    pass
def raise_result(*arguments, compile=compiler._compile_module_with_cache, **options):
    raise Built(compile(*arguments, to_ltoir=True, **options))
compiler._compile_module_with_cache = raise_result
def build(source, options=()):
    try:
        core.compile_with_cache(source, options, arch="90")
    except Built as built:
        return built.args[0]
def function(number):
    return 'extern "C" __device__ int f(int x) { return x + %d; }' % number
"""
INSTALL = BUILD + """
if not kiln.cupy.install():
    sys.exit(kiln.cupy.door.reason)
"""
COUNTS = """
print(kiln.cupy.door.hits, kiln.cupy.door.builds)
"""
FUNCTIONS = """
for number in range(3):
    print(hashlib.sha256(build(function(number))).hexdigest())
"""
PROGRAM = INSTALL + FUNCTIONS + COUNTS

DAMAGE = INSTALL + """
import random
sys.path.insert(0, sys.argv[1])
from door_test import damage, entries
chance = random.Random(4)
folder = os.path.expanduser("~/.cupy/kernel_cache")
expected = build(function(0))
(path,) = entries(os.environ["KILN_DIR"])
for turn in range(int(sys.argv[2])):
    hits, builds = kiln.cupy.door.hits, kiln.cupy.door.builds
    damage(path, chance)
    for has_hit in (0, 1):
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        # NVRTC yields different bytes at each compilation, since CuPy gives it a new folder.
        result = build(function(0))
        assert result == expected if has_hit else len(result) == len(expected), turn
        expected = result
        assert (kiln.cupy.door.hits, kiln.cupy.door.builds) == (hits + has_hit, builds + 1), turn
""" + COUNTS

# What a program may include, and with which options.
CASES = INSTALL + """
def is_cached(text="", options=()):
    builds = kiln.cupy.door.builds
    try:
        build(text + "\\n" + function(7), options)
    except compiler.CompileException:
        pass
    return kiln.cupy.door.builds > builds
folder = os.path.expanduser("~")
with open(folder + "/mine.h", "w") as file:
    file.write("#define MINE 1\\n")
assert is_cached("// 1")
assert is_cached("#include <cupy/complex.cuh>")
assert is_cached('#include "cupy/complex.cuh"')
assert is_cached(options=("-DTHREE=3",))
assert not is_cached("// 2", ("-I" + folder,))
assert not is_cached("// 3", ("-I", folder))
assert not is_cached("// 4", ("--include-path=" + folder,))
assert not is_cached("// 5", ("-include", folder + "/mine.h"))
assert not is_cached("// 6", ("--pre-include=" + folder + "/mine.h",))
assert not is_cached('#include "mine.h"', ("-I" + folder,))
assert not is_cached('#include "%s/mine.h"' % folder)
assert not is_cached("#include <%s/mine.h>" % folder)
assert not is_cached("#include <cupy/../../../mine.h>")
assert not is_cached('#inc\\\\\\nlude "%s/mine.h"' % folder)
assert not is_cached('# /**/ include "%s/mine.h"' % folder)
assert not is_cached("const char *date() { return __DATE__; }")
assert not is_cached("// 7", ("--device-c",))
assert not is_cached("// 8", ("-rdc=true",))
os.environ["NVRTC_APPEND_FLAGS"] = "-DX"
assert not is_cached("// 9")
""" + COUNTS

# The names that NVRTC gets.
NAMES = INSTALL + """
compiler._compile_module_with_cache = raise_result.__kwdefaults__["compile"]
names = []
class Named(BaseException):
    pass
def raise_name(source, name="", *arguments, own=compiler._NVRTCProgram, **options):
    if source:  # CuPy compiles an empty program to learn the compiler's version
        raise Named(name)
    return own(source, name, *arguments, **options)
compiler._NVRTCProgram = raise_name
class Module:
    pass
compiler.function.Module = Module
def name(number, version=(13, 0), arch="90", options=(), lto=False):
    compiler._get_nvrtc_version = lambda: version
    compiler._get_arch_for_options_for_nvrtc = lambda arch=arch: ("-arch=sm_" + arch, "cubin")
    try:
        compiler._compile_with_cache_cuda(function(number), options, arch, to_ltoir=lto)
    except Named as named:
        return os.path.basename(named.args[0])
assert name(1).endswith(".cubin.cu"), name(1)
assert name(1) == name(1, version=(13, 9)) == name(1, arch="80")
assert name(1) != name(2)
for own in ({"options": ("-rdc=true",)}, {"lto": True}):
    assert name(1, **own) != name(1, version=(13, 9), **own), own
""" + COUNTS

# Compiles to CUBIN for an architecture, as a program with a GPU does.
KERNELS = """
import sys
from cuda.pathfinder import load_nvidia_dynamic_lib
import cupy
from cupy.cuda import compiler
from cupy._core import core
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: ("-arch=sm_" + arch, "cubin")
class Module:
    def load(self, cubin):
        raise KeyError(cubin)
    def _set_mapping(self, mapping):
        pass
compiler.function = type("function", (), {"Module": Module})
for number in range(3):
    source = ('#include <cupy/complex.cuh>\\n'
              'extern "C" __global__ void k(complex<float> *x) { *x *= %d; }' % number)
    try:
        core.compile_with_cache(source, (), arch=sys.argv[1])
    except KeyError as built:
        assert built.args[0][:4] == b"\\x7fELF"
print(load_nvidia_dynamic_lib("nvrtc").abs_path)
"""


class CupyTest(DoorTest):
    def test_cold_and_warm(self):
        results, counts = self.run_program(PROGRAM)
        self.assertEqual(counts, (0, 3))
        self.assertEqual(self.run_program(PROGRAM), (results, (3, 0)))

    def test_records(self):
        self.check_records(PROGRAM, "cupy")

    def test_damage(self):
        self.run_program(DAMAGE, os.path.dirname(os.path.abspath(__file__)), "10")

    def test_what_passes_through(self):
        self.run_program(CASES)

    def test_names_outlast_upgrades(self):
        self.run_program(NAMES)

    def kiln(self, *arguments):
        home = os.path.join(self.scratch, f"home{len(os.listdir(self.scratch))}")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("KILN_", "CUPY_", "PYTHONPATH"))}
        result = subprocess.run([os.environ["KILN_TOOL"], *arguments],
                                env={**environment, "KILN_DIR": self.location, "HOME": home},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(result.returncode, 0, (result.stdout, result.stderr))
        return result.stdout.decode().strip()

    @unittest.skipUnless("KILN_TOOL" in os.environ, "without the tool")
    def test_a_different_architecture(self):
        """A program finds everything that kiln replay has built for a GPU that it did not have."""
        library = self.kiln("run", "--", sys.executable, "-c", KERNELS, "80")
        self.kiln("replay", "--nvrtc", library, "--arch", "sm_90")
        self.kiln("run", "--expect-warm", "--", sys.executable, "-c", KERNELS, "90")


class CupyLongTest(DoorTest):
    def test_processes_at_once(self):
        self.check_processes_at_once(PROGRAM, 3)
        self.assertEqual(len(entries(self.location)), 3)

    def test_damage(self):
        self.run_program(DAMAGE, os.path.dirname(os.path.abspath(__file__)), "200")

    def test_damage_between_programs(self):
        self.run_program(PROGRAM)
        size = "len(build(function(number)))"
        sizes = PROGRAM.replace("hashlib.sha256(build(function(number))).hexdigest()", size)
        # NVRTC's result has the number of the process in it, with as many digits as it needs.
        sizes = sizes.replace(size, f"abs({size} - {self.run_program(sizes)[0][0]}) <= 16")
        results = ["True"] * 3
        self.check_damage_between_programs(sizes, 3, results, 200)


if __name__ == "__main__":
    unittest.main()
